// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul ticket`: keys, and signed routes that depots accept.

mod text;

use crate::{
    failure::Failure,
    key_files,
    print::print_text,
    random::random,
    via::{self, Via},
};
use clap::Args;
use ipnet::IpNet;
use protocol::{
    DepotAddress, OriginUrl,
    http::Method,
    ticket::{
        KeySet, Opens, PREFIX, SessionTarget, Signer, Ticket, TicketError, TicketRoute, UnixTime,
        Unverified, ticket_id,
    },
};
use route::Destination;
use std::{
    net::IpAddr,
    num::NonZeroU32,
    path::{Path, PathBuf},
    str::FromStr,
    time::SystemTime,
};
use units::{Bytes, Duration, Rate};

const KEYGEN_EXAMPLES: &str = "\
Examples:
  longhaul ticket keygen site.pem --public site.jwks
  longhaul ticket keygen site2.pem --add-to site.jwks";
const MAKE_EXAMPLES: &str = "\
Examples:
  longhaul ticket make https://data.example.org/sets/ --key site.pem --via d1.example.net,d2.example.org --expires 12h
  longhaul ticket make --session tcp:db.example.org:5432 --key site.pem --via d1.example.net --client 192.0.2.0/24";
const SHOW_EXAMPLES: &str = "\
Examples:
  longhaul ticket show - < ticket.txt
  longhaul ticket show - --json < ticket.txt";
const VERIFY_EXAMPLES: &str = "\
Examples:
  longhaul ticket verify - --keys site.jwks < ticket.txt
  longhaul ticket verify - --keys site.jwks --at 2030-01-31T12:00:00Z --json < ticket.txt";

#[derive(clap::Subcommand)]
pub enum Command {
    Keygen(KeygenArgs),
    Make(Box<MakeArgs>),
    Show(ShowArgs),
    Verify(VerifyArgs),
}

/// Make a key that signs tickets.
///
/// Writes the private key, which stays with the signer, to a new file that only its owner can read. Prints the public
/// key as a JWK Set for the depots (trust.keys).
#[derive(Args)]
#[command(after_help = KEYGEN_EXAMPLES)]
pub struct KeygenArgs {
    /// New file for the private key (PEM, PKCS #8); an existing file is never overwritten
    key: PathBuf,
    /// Write the public key (JWK Set) to a new file instead of printing it
    #[arg(long, value_name = "FILE", conflicts_with = "add_to")]
    public: Option<PathBuf>,
    /// Add the public key to this JWK Set, so that depots trust its keys and the new one
    #[arg(long, value_name = "FILE")]
    add_to: Option<PathBuf>,
}

/// Sign a ticket for a URL, and print the URL for curl; or sign a ticket for sessions, and print it.
///
/// Anyone who has a ticket can use it until it expires. Make it for a short time and few files.
#[derive(Args)]
#[command(after_help = MAKE_EXAMPLES)]
pub struct MakeArgs {
    /// URL to open at its origin: a file, or a directory (ends in /) with all files below it
    #[arg(required_unless_present = "session")]
    url: Option<OriginUrl>,
    /// Open sessions instead, to this target after the last depot of --via
    #[arg(
        long,
        value_name = "end:HOST:PORT|tcp:HOST:PORT|meet|store",
        conflicts_with_all = ["url", "whole_origin", "method", "tail"]
    )]
    session: Option<SessionTarget>,
    /// Allow a URL of a whole server (`http://host/`), which opens all its files
    #[arg(long)]
    whole_origin: bool,
    /// Private key of `longhaul ticket keygen` or openssl (PEM, PKCS #8)
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Depots of the route, the one nearest the client first [default port: 3880, after https: 443]; or the best that a register's
    /// depots make at present, as seen from here (docs/routes.md)
    #[arg(long, value_name = "[https:]HOST[:PORT],...|auto[:FILE]")]
    via: String,
    /// Also trust the certificate authorities in this PEM file for depots that --via auto probes
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// End of validity: a time from now, as in 12h, or a date, as in 2030-01-31T12:00:00Z
    #[arg(long, value_name = "WHEN", default_value = "1h")]
    expires: TimeArg,
    /// Start of validity, in the form of --expires [default: now]
    #[arg(long, value_name = "WHEN")]
    not_before: Option<TimeArg>,
    /// Allow only these HTTP methods [default: GET,HEAD]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    method: Vec<Method>,
    /// Maximum bytes of one transfer's body, as in 100GB [default: no limit]
    #[arg(long, value_name = "SIZE")]
    bytes: Option<Bytes>,
    /// Maximum rate of one transfer, as in 800mbit [default: no limit]
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,
    /// Maximum rate of all the ticket's transfers together, per depot, as in 2gbit [default: no limit]
    #[arg(long, value_name = "RATE")]
    total_rate: Option<Rate>,
    /// Allow only clients in this network or with this address; may be repeated [default: any client]
    #[arg(long, value_name = "NET", value_delimiter = ',', value_parser = network)]
    client: Vec<IpNet>,
    /// Maximum number of requests per depot [default: no limit]
    #[arg(long, value_name = "N")]
    uses: Option<NonZeroU32>,
    /// Name of the issuer, for logs
    #[arg(long, value_name = "NAME")]
    issuer: Option<String>,
    /// File to print a URL for, below a URL that ends in /, percent-encoded
    #[arg(long, value_name = "PATH")]
    tail: Option<String>,
}

/// Show what a ticket opens, for which clients and until when, without a check of its signature.
#[derive(Args)]
#[command(after_help = SHOW_EXAMPLES)]
pub struct ShowArgs {
    /// A ticket, its route or its URL; `-` reads it from standard input
    ticket: String,
    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

/// Verify a ticket as a depot with these keys would. The exit code is 4 if it is not valid.
///
/// The client's address and the number of uses are not checked, because only the depot knows them.
#[derive(Args)]
#[command(after_help = VERIFY_EXAMPLES)]
pub struct VerifyArgs {
    /// A ticket, its route or its URL; `-` reads it from standard input
    ticket: String,
    /// Public keys (JWK Set), as in trust.keys of the depot
    #[arg(long, value_name = "FILE")]
    keys: PathBuf,
    /// Verify for this time, in the form of --expires of ticket make [default: now]
    #[arg(long, value_name = "WHEN")]
    at: Option<TimeArg>,
    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

pub fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Keygen(args) => keygen(&args),
        Command::Make(args) => make(*args),
        Command::Show(args) => show(&args),
        Command::Verify(args) => verify(&args),
    }
}

/// A point in time, relative or absolute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeArg {
    /// This long after now.
    After(Duration),
    /// At this time.
    At(UnixTime),
}

impl FromStr for TimeArg {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        // A number without a unit could be seconds from now or since 1970.
        if text.bytes().all(|b| b.is_ascii_digit()) {
            return Err("expected a time with its unit, as in 10min, or a date".to_owned());
        }
        let after = text.parse().map(Self::After);
        after.or_else(|_| {
            text.parse().map(Self::At).map_err(|_| {
                "expected a time from now, as in 10min or 12h, or a date, as in 2030-01-31T12:00:00Z"
                    .into()
            })
        })
    }
}

impl TimeArg {
    /// Whole seconds, rounded up.
    fn from(self, now: UnixTime) -> UnixTime {
        match self {
            Self::At(time) => time,
            Self::After(time) => {
                let seconds = time.as_nanos().div_ceil(1_000_000_000);
                now.plus(u32::try_from(seconds).unwrap_or(u32::MAX))
            }
        }
    }
}

fn network(text: &str) -> Result<IpNet, String> {
    let net = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    net.map_err(|_| "expected a network or an address, as in 192.0.2.0/24".to_owned())
}

fn now() -> UnixTime {
    SystemTime::now().into()
}

fn keygen(args: &KeygenArgs) -> Result<(), Failure> {
    let signer = Signer::from_seed(random()?).map_err(Failure::failed)?;
    key_files::write_pair(&signer, &args.key, args.public.as_deref(), args.add_to.as_deref())?;
    errln!("private key: {}; ID of the public key: {}", args.key.display(), signer.kid());
    Ok(())
}

fn make(args: MakeArgs) -> Result<(), Failure> {
    let pem = key_files::read(&args.key)?;
    let signer = Signer::from_pem(&pem)
        .map_err(|error| Failure::usage(format!("{}: {error}", args.key.display())))?;
    let now = now();
    let tail = args.tail.clone();
    let ticket = ticket(args, now)?;
    let token = signer.sign(&ticket).map_err(invalid_ticket)?;
    let tail = match (&ticket.opens, tail) {
        (Opens::Session(_), _) => {
            print_text(&(token + "\n"));
            return Ok(());
        }
        (Opens::Url(_), Some(tail)) => tail,
        // The name of the file, for curl -O.
        (Opens::Url(url), None) => ticket.tail_to(url).unwrap_or_default(),
    };
    let route = TicketRoute::new(&token, &tail).map_err(invalid_ticket)?;
    ticket.step(&route).map_err(invalid_ticket)?;
    print_text(&(ticket.via[0].url(&route.to_string()) + "\n"));
    Ok(())
}

/// The requested ticket. A ticket that opens nothing is refused.
fn ticket(args: MakeArgs, now: UnixTime) -> Result<Ticket, Failure> {
    let expires = args.expires.from(now);
    if expires <= now {
        return Err(Failure::usage(format!(
            "--expires: {expires} has passed, the time is {now}. Name a later time"
        )));
    }
    let not_before = args.not_before.map(|when| when.from(now));
    if let Some(from) = not_before.filter(|from| *from >= expires) {
        return Err(Failure::usage(format!(
            "--not-before: {from} is not before --expires ({expires})"
        )));
    }
    let opens = opens(args.session, args.url, args.whole_origin)?;
    let rates = [args.rate, args.total_rate];
    if args.bytes == Some(Bytes::ZERO) || rates.into_iter().flatten().any(|rate| rate.bps() == 0) {
        let text = "--bytes, --rate and --total-rate must be more than 0. Leave out an option for no limit";
        return Err(Failure::usage(text));
    }
    let methods = match &opens {
        Opens::Url(_) if args.method.is_empty() => vec![Method::Get, Method::Head],
        _ => args.method,
    };
    let via = depots(&args.via, &opens, args.bytes, args.ca.as_deref())?;
    Ok(Ticket {
        id: ticket_id(random()?),
        issuer: args.issuer,
        issued: Some(now),
        not_before,
        expires,
        opens,
        via,
        methods,
        bytes: args.bytes,
        rate: args.rate,
        total_rate: args.total_rate,
        clients: args.client.iter().map(IpNet::trunc).collect(),
        uses: args.uses,
    })
}

/// The ticket's depots: those that are named, or the best of a register to where it leads.
fn depots(
    via: &str,
    opens: &Opens,
    bytes: Option<Bytes>,
    ca: Option<&Path>,
) -> Result<Vec<DepotAddress>, Failure> {
    let registered = match Via::read(&[via.to_owned()], ca)? {
        Via::Written(chains) => return Ok(chains.into_iter().next().unwrap_or_default()),
        Via::Auto(registered) => registered,
    };
    let server = match opens {
        Opens::Url(url) => url.authority().clone(),
        Opens::Session(SessionTarget::End(server) | SessionTarget::Tcp(server)) => server.clone(),
        Opens::Session(SessionTarget::Meet | SessionTarget::Store) => {
            return Err(via::malformed(&"auto is not for meet and store: name the depot"));
        }
    };
    let best = registered.best(&Destination::Named(server), bytes, ca)?;
    best.ok_or_else(|| Failure::failed("the register has no depots"))
}

/// The target of the ticket: a session or a URL.
fn opens(
    session: Option<SessionTarget>,
    url: Option<OriginUrl>,
    whole_origin: bool,
) -> Result<Opens, Failure> {
    match (session, url) {
        (Some(target), _) => Ok(Opens::Session(target)),
        (None, Some(url)) => {
            if url.target().bytes().all(|b| b == b'/') && !whole_origin {
                return Err(Failure::usage(format!(
                    "{url} opens the whole server. Name a file or a directory (ends in /), or add --whole-origin"
                )));
            }
            Ok(Opens::Url(url))
        }
        (None, None) => {
            Err(Failure::usage("no target given: name a URL, or a session target with --session"))
        }
    }
}

/// The failure for arguments that make an invalid ticket.
fn invalid_ticket(error: TicketError) -> Failure {
    match error {
        TicketError::Claims { reason, .. } => {
            Failure::usage(format!("cannot make this ticket: {reason}"))
        }
        other => Failure::usage(other),
    }
}

fn show(args: &ShowArgs) -> Result<(), Failure> {
    let token = match parse_ticket(&args.ticket) {
        Ok((token, _)) => token,
        Err(failure) => logged_ticket(&args.ticket).ok_or(failure)?,
    };
    let Unverified { ticket, key } = Unverified::read(&token).map_err(Failure::failed)?;
    text::print(&ticket, key.as_deref(), text::SignatureCheck::No(now()), args.json);
    Ok(())
}

fn verify(args: &VerifyArgs) -> Result<(), Failure> {
    let keys = KeySet::parse(&key_files::read(&args.keys)?)
        .map_err(|error| Failure::usage(format!("{}: {error}", args.keys.display())))?;
    let at = args.at.map_or_else(now, |when| when.from(now()));
    let (token, route) = parse_ticket(&args.ticket)?;
    let not_good = |error: TicketError| Failure::unverified(error.to_string());
    let verified = keys.verify(&token, at).map_err(not_good)?;
    if let Some(route) = route {
        verified.ticket.step(&route).map_err(not_good)?;
    }
    text::print(&verified.ticket, Some(&verified.key), text::SignatureCheck::Good(at), args.json);
    Ok(())
}

/// The token of a ticket's target as depots log it: without its signature (`/lh2/0/HEADER.CLAIMS.../NAME`).
fn logged_ticket(text: &str) -> Option<String> {
    let from = text.find(PREFIX)? + PREFIX.len();
    let (_, rest) = text[from..].split_once('/')?;
    let (claims, _) = rest.split_once("...")?;
    Some(claims.to_owned())
}

/// The token, and the route if there is more than a token.
fn parse_ticket(text: &str) -> Result<(String, Option<TicketRoute>), Failure> {
    let text = if text == "-" { key_files::read_input()? } else { text.to_owned() };
    let text = text.trim();
    let target = match text.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => text,
    };
    if !target.contains('/') {
        return Ok((target.to_owned(), None));
    }
    let route: TicketRoute = target.parse().map_err(Failure::usage)?;
    Ok((route.token().to_owned(), Some(route)))
}
