// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul depot transfers`, `end`, `deny`, `allow`, `denied`, `limit` and `limits`: commands to a running depot.

use super::cells::{age, rate, shorten, size};
use crate::{
    failure::Failure,
    print::{print_json_text, print_text},
};
use ::depot::{
    control::{self, Answer, Command, Denial, Limit, Limited, Policy, Shunned, Which},
    status::{Transfer, TransferLimit},
};
use clap::Args;
use ipnet::IpNet;
use protocol::ticket::UnixTime;
use serde_json::{Value, json};
use std::{collections::BTreeMap, net::IpAddr, path::PathBuf, str::FromStr, time::Duration};
use units::Rate;

const TRANSFERS_EXAMPLES: &str = "\
Examples:
  longhaul depot transfers
  longhaul depot transfers --client 192.0.2.0/24 --json";
const END_EXAMPLES: &str = "\
Examples:
  longhaul depot end --transfer 17
  longhaul depot end --client 192.0.2.7 --file set.tar";
const DENY_EXAMPLES: &str = "\
Examples:
  longhaul depot deny --client 192.0.2.7 --for 12h --why 'too many downloads'
  longhaul depot deny --ticket 5f0c7d2e9b3a41c6";
const ALLOW_EXAMPLES: &str = "\
Examples:
  longhaul depot allow --client 192.0.2.7
  longhaul depot allow --ticket 5f0c7d2e9b3a41c6";
const DENIED_EXAMPLES: &str = "\
Examples:
  longhaul depot denied
  longhaul depot denied --json";
const LIMIT_EXAMPLES: &str = "\
Examples:
  longhaul depot limit 100mbit --client 192.0.2.7
  longhaul depot limit none --ticket 5f0c7d2e9b3a41c6";
const LIMITS_EXAMPLES: &str = "\
Examples:
  longhaul depot limits
  longhaul depot limits --json";

/// Options of every command: how to reach the depot.
#[derive(Debug, Args)]
struct Reach {
    /// Control socket of the depot (`control.socket` in its configuration)
    #[arg(long, value_name = "PATH", default_value = "/run/longhaul-depot/control.sock")]
    socket: PathBuf,
    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

impl Reach {
    fn ask(&self, command: &Command) -> Result<Answer, Failure> {
        control::ask(&self.socket, command).map_err(Failure::failed)
    }

    fn unexpected(&self) -> Failure {
        let socket = self.socket.display();
        Failure::failed(format!(
            "{socket}: the depot sent an unexpected response. Restart the depot if it runs another version of longhaul"
        ))
    }

    fn print(&self, document: &Value, text: &str) {
        if self.json {
            print_json_text(&document.to_string());
        } else {
            print_text(text);
        }
    }
}

/// A client's address, or the network of several.
#[derive(Debug, Clone, Copy)]
struct ClientArg(IpNet);

impl FromStr for ClientArg {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let net = text.parse::<IpAddr>().map(IpNet::from).or_else(|_| text.parse());
        net.map(Self).map_err(|_| "expected an address or a network, as in 10.0.0.0/8".to_owned())
    }
}

/// Transfers that match every given condition.
#[derive(Debug, Args)]
struct WhichArgs {
    /// Transfers of this client or of a network's clients, of this depot or of one before it
    #[arg(long, value_name = "IP|NET")]
    client: Option<ClientArg>,
    /// Transfers with the ticket of this ID (the claim jti)
    #[arg(long, value_name = "JTI")]
    ticket: Option<String>,
    /// Transfers whose URL or target contains this text
    #[arg(long, value_name = "TEXT")]
    file: Option<String>,
    /// The transfer with this number, as `longhaul depot transfers` prints it
    #[arg(long, value_name = "N")]
    transfer: Option<u64>,
}

impl WhichArgs {
    fn which(&self) -> Which {
        Which {
            transfer: self.transfer,
            client: self.client.map(|client| client.0),
            ticket: self.ticket.clone(),
            file: self.file.clone(),
        }
    }
}

/// List open transfers.
#[derive(Debug, Args)]
#[command(after_help = TRANSFERS_EXAMPLES)]
pub struct TransfersArgs {
    #[command(flatten)]
    which: WhichArgs,
    #[command(flatten)]
    reach: Reach,
}

/// End open transfers: clients see a closed connection, or 403 before the response.
#[derive(Debug, Args)]
#[command(after_help = END_EXAMPLES)]
pub struct EndArgs {
    #[command(flatten)]
    which: WhichArgs,
    #[command(flatten)]
    reach: Reach,
}

/// The client or ticket that is denied or allowed.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct WhoArgs {
    /// This client, or a network's clients
    #[arg(long, value_name = "IP|NET")]
    client: Option<ClientArg>,
    /// The ticket of this ID (the claim jti)
    #[arg(long, value_name = "JTI")]
    ticket: Option<String>,
}

impl WhoArgs {
    fn who(&self) -> Shunned {
        match (self.client, &self.ticket) {
            (Some(client), _) => Shunned::Client(client.0),
            (None, ticket) => Shunned::Ticket(ticket.clone().unwrap_or_default()),
        }
    }
}

/// Deny a client or a ticket for a time, and end its transfers.
///
/// The denial outlasts reloads, takeovers and, with `control.state`, a restart or crash of the depot. For permanent
/// denials, change allow.clients or trust.revoked.
#[derive(Debug, Args)]
#[command(after_help = DENY_EXAMPLES)]
pub struct DenyArgs {
    #[command(flatten)]
    who: WhoArgs,
    /// How long to deny it, as in 10min or 12h
    #[arg(long = "for", value_name = "TIME", default_value = "1h")]
    time: units::Duration,
    /// Reason, which the client is told: one line of at most 200 bytes
    #[arg(long, value_name = "TEXT", default_value = "")]
    why: String,
    #[command(flatten)]
    reach: Reach,
}

/// Allow a denied client or ticket again.
#[derive(Debug, Args)]
#[command(after_help = ALLOW_EXAMPLES)]
pub struct AllowArgs {
    #[command(flatten)]
    who: WhoArgs,
    #[command(flatten)]
    reach: Reach,
}

/// Limit the total rate of a client's, ticket's, key's or all transfers, or the rate of one transfer.
///
/// The limit applies immediately and replaces `limits.client_rate` and the ticket's total rate, until it is removed.
/// With `control.state` it outlasts a restart or crash of the depot. A transfer's limit ends with the transfer.
///
/// With `--policy`, a transfer or session shares the rates that it has in common with others: twice a share (high), an
/// equal one (fair), or what others leave, and at least `--minimum` (low). RATE is its target, which it does not exceed.
#[derive(Debug, Args)]
#[command(after_help = LIMIT_EXAMPLES)]
pub struct LimitArgs {
    /// Rate, as in 100mbit, or none to remove the limit
    #[arg(value_name = "RATE|none", value_parser = rate_or_none)]
    rate: RateArg,
    #[command(flatten)]
    whose: WhoseArgs,
    /// How a transfer or session shares rates with others
    #[arg(long, value_name = "POLICY", conflicts_with_all = ["client", "ticket", "key", "depot"])]
    policy: Option<PolicyArg>,
    /// Rate that `--policy low` has at least, if an equal share is not less
    #[arg(long, value_name = "RATE", requires = "policy")]
    minimum: Option<Rate>,
    #[command(flatten)]
    reach: Reach,
}

/// A policy, as data movers name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum PolicyArg {
    /// The target rate whatever the congestion; depots refuse it, as TCP gives way to congestion
    Fixed,
    /// Twice the share of a fair one
    High,
    /// An equal share
    Fair,
    /// What others leave
    Low,
}

/// The transfers whose rate is limited.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct WhoseArgs {
    /// All transfers of the client with this address
    #[arg(long, value_name = "IP")]
    client: Option<IpAddr>,
    /// All transfers with tickets of this ID (the claim jti)
    #[arg(long, value_name = "JTI")]
    ticket: Option<String>,
    /// All transfers with tickets that the key of this name (kid) has signed
    #[arg(long, value_name = "KID")]
    key: Option<String>,
    /// All transfers of the depot
    #[arg(long)]
    depot: bool,
    /// The transfer with this number, as `longhaul depot transfers` prints it
    #[arg(long, value_name = "N")]
    transfer: Option<u64>,
    /// The session of this name, 32 hexadecimal digits
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

impl WhoseArgs {
    fn limited(&self) -> Limited {
        match self {
            Self { client: Some(address), .. } => Limited::Client(*address),
            Self { ticket: Some(id), .. } => Limited::Ticket(id.clone()),
            Self { key: Some(id), .. } => Limited::Key(id.clone()),
            Self { session: Some(id), .. } => Limited::Session(id.clone()),
            Self { depot: true, .. } => Limited::Depot,
            Self { transfer, .. } => Limited::Transfer(transfer.unwrap_or_default()),
        }
    }
}

/// A rate, or none.
#[derive(Debug, Clone, Copy)]
struct RateArg(Option<Rate>);

fn rate_or_none(text: &str) -> Result<RateArg, String> {
    match text {
        "none" => Ok(RateArg(None)),
        text => text
            .parse()
            .map(|rate| RateArg(Some(rate)))
            .map_err(|_| "expected a rate, as in 100mbit or 2gbit, or none".to_owned()),
    }
}

/// List the rate limits that `longhaul depot limit` has set.
#[derive(Debug, Args)]
#[command(after_help = LIMITS_EXAMPLES)]
pub struct LimitsArgs {
    #[command(flatten)]
    reach: Reach,
}

/// List denied clients and tickets, with the end and reason of each denial.
#[derive(Debug, Args)]
#[command(after_help = DENIED_EXAMPLES)]
pub struct DeniedArgs {
    #[command(flatten)]
    reach: Reach,
}

pub fn transfers(args: &TransfersArgs) -> Result<(), Failure> {
    let reach = &args.reach;
    let Answer::Transfers { transfers, more } =
        reach.ask(&Command::Transfers(args.which.which()))?
    else {
        return Err(reach.unexpected());
    };
    let mut text = table(&transfers);
    if more > 0 {
        text += &format!("and {more} more\n");
    }
    reach.print(&json!({ "transfers": transfers, "more": more }), &text);
    Ok(())
}

pub fn end(args: &EndArgs) -> Result<(), Failure> {
    let which = args.which.which();
    if which.is_all() {
        let text = "no transfers named: add --client, --ticket, --file or --transfer. List them: longhaul \
                    depot transfers";
        return Err(Failure::usage(text));
    }
    ended(&args.reach, &Command::End(which))
}

pub fn deny(args: &DenyArgs) -> Result<(), Failure> {
    let seconds = Duration::from(args.time).as_secs();
    let (who, why) = (args.who.who(), args.why.clone());
    ended(&args.reach, &Command::Deny { who, seconds, why })
}

fn ended(reach: &Reach, command: &Command) -> Result<(), Failure> {
    let Answer::Ended(ended) = reach.ask(command)? else { return Err(reach.unexpected()) };
    let noun = if ended == 1 { "transfer" } else { "transfers" };
    reach.print(&json!({ "ended": ended }), &format!("{ended} {noun} ended\n"));
    Ok(())
}

pub fn allow(args: &AllowArgs) -> Result<(), Failure> {
    let reach = &args.reach;
    let Answer::Allowed { was_denied } = reach.ask(&Command::Allow { who: args.who.who() })? else {
        return Err(reach.unexpected());
    };
    let text = if was_denied { "allowed again\n" } else { "it was not denied\n" };
    reach.print(&json!({ "was_denied": was_denied }), text);
    Ok(())
}

pub fn denied(args: &DeniedArgs) -> Result<(), Failure> {
    let reach = &args.reach;
    let Answer::Denied(list) = reach.ask(&Command::Denied)? else { return Err(reach.unexpected()) };
    let text = if list.is_empty() {
        "no client or ticket is denied\n".to_owned()
    } else {
        list.iter().map(line).collect()
    };
    reach.print(&json!({ "denied": list }), &text);
    Ok(())
}

pub fn limit(args: &LimitArgs) -> Result<(), Failure> {
    let (reach, whose) = (&args.reach, args.whose.limited());
    let rate_bps = args.rate.0.map(Rate::bps);
    if let Some(policy) = args.policy {
        return set_policy(args, whose, policy, rate_bps);
    }
    let Answer::Limited { is_there } = reach.ask(&Command::Limit { whose, rate_bps })? else {
        return Err(reach.unexpected());
    };
    if !is_there {
        return Err(Failure::failed(
            "no transfer has this number or name. List them: longhaul depot transfers",
        ));
    }
    let text =
        rate_bps.map_or_else(|| "limit removed\n".to_owned(), |bps| format!("{}\n", rate(bps)));
    reach.print(&json!({ "rate_bps": rate_bps }), &text);
    Ok(())
}

fn set_policy(
    args: &LimitArgs,
    whose: Limited,
    policy: PolicyArg,
    rate_bps: Option<u64>,
) -> Result<(), Failure> {
    let reach = &args.reach;
    let policy = match (policy, args.minimum) {
        (PolicyArg::Low, Some(minimum)) => Policy::Low { minimum_bps: minimum.bps() },
        (PolicyArg::Low, None) => {
            return Err(Failure::usage("--policy low needs --minimum RATE, as in --minimum 1mbit"));
        }
        (_, Some(_)) => return Err(Failure::usage("--minimum is for --policy low")),
        (PolicyArg::Fixed, None) => Policy::Fixed,
        (PolicyArg::High, None) => Policy::High,
        (PolicyArg::Fair, None) => Policy::Fair,
    };
    let command = Command::Policy { whose, policy, rate_bps };
    let Answer::Policy { transfers, sharing } = reach.ask(&command)? else {
        return Err(reach.unexpected());
    };
    if transfers == 0 {
        return Err(Failure::failed(
            "no transfer has this number or name. List them: longhaul depot transfers",
        ));
    }
    let mut text = "policy set\n".to_owned();
    if sharing < transfers && policy != Policy::Fair {
        text += "it shares no rate with others now, so this changes nothing yet. Set one: longhaul depot limit RATE --depot\n";
    }
    reach.print(&json!({ "transfers": transfers, "sharing": sharing }), &text);
    Ok(())
}

pub fn limits(args: &LimitsArgs) -> Result<(), Failure> {
    let reach = &args.reach;
    let Answer::Limits(list) = reach.ask(&Command::Limits)? else { return Err(reach.unexpected()) };
    let text = if list.is_empty() {
        "no rate limit is set\n".to_owned()
    } else {
        list.iter().map(limit_line).collect()
    };
    reach.print(&json!({ "limits": list }), &text);
    Ok(())
}

fn limit_line(limit: &Limit) -> String {
    let whose = match &limit.whose {
        Limited::Client(address) => format!("client {address}"),
        Limited::Ticket(id) => format!("ticket {}", shorten(id, 128)),
        Limited::Key(id) => format!("key {}", shorten(id, 128)),
        Limited::Depot => "depot".to_owned(),
        Limited::Transfer(number) => format!("transfer {number}"),
        Limited::Session(id) => format!("session {}", shorten(id, 32)),
    };
    format!("{whose:<44} {}\n", rate(limit.rate_bps))
}

fn line(denial: &Denial) -> String {
    let who = match &denial.who {
        Shunned::Client(net) => format!("client {net}"),
        Shunned::Ticket(id) => format!("ticket {}", shorten(id, 128)),
    };
    let until = UnixTime::try_from(denial.until_unix_s).map(|time| time.to_string());
    let line =
        format!("{who:<44} until {}  {}", until.unwrap_or_default(), shorten(&denial.why, 1000));
    format!("{}\n", line.trim_end())
}

/// What has limited a transfer, as in `client congestion 82 %`.
fn limit_text(limit: TransferLimit) -> String {
    format!("{limit} {:.0} %", limit.share * 100.0)
}

fn table(transfers: &[Transfer]) -> String {
    if transfers.is_empty() {
        return "no open transfers\n".to_owned();
    }
    let mut text = format!(
        "{:>8} {:<24} {:<32} {:>7} {:>10} {:>12} {:<30} {}\n",
        "number", "client", "ticket or user", "age", "bytes", "rate", "limited by", "asks for"
    );
    for transfer in transfers {
        let client = transfer.asked_for.as_deref().unwrap_or(&transfer.client);
        let ticket = transfer.ticket.as_ref().map(|ticket| ticket.id.as_str());
        let leave = ticket.or(transfer.user.as_deref()).unwrap_or("-");
        text += &format!(
            "{:>8} {:<24} {:<32} {:>7} {:>10} {:>12} {:<30} {}\n",
            transfer.number,
            shorten(client, 24),
            shorten(leave, 32),
            age(transfer.age_s),
            size(transfer.up_bytes + transfer.down_bytes),
            rate(transfer.up_bps + transfer.down_bps),
            transfer.limited_by.map_or_else(|| "-".to_owned(), limit_text),
            shorten(transfer.url.as_deref().unwrap_or(&transfer.target), 80),
        );
    }
    let mut draining = BTreeMap::<u32, usize>::new();
    for process in transfers.iter().filter_map(|transfer| transfer.process) {
        *draining.entry(process).or_default() += 1;
    }
    for (process, count) in draining {
        text += &format!("{count} of them in process {process}, from before the takeover\n");
    }
    text
}
