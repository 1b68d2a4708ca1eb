// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul session list`, `extend` and `drop`: one's sessions that a depot keeps.

use crate::{
    depot::cells::{shorten, size},
    failure::Failure,
    parcel::{OwnerArgs, date},
    print::{print_json, print_text},
    text_table::TextTable,
    via,
};
use clap::Args;
use protocol::session::{SessionId, request::StoredSession};
use serde_json::json;
use session::{Options, Route};
use std::{future::Future, path::PathBuf};
use transfer::{
    Error,
    parcel::{CodeError, StoreClient, StoredCode},
    run_until_signal,
};

const LIST_EXAMPLES: &str = "\
Examples:
  longhaul session list --via depot.example.org
  longhaul session list --via near.example.org,depot.example.org --json";

/// List the sessions that a depot keeps for this user.
///
/// They are known by the key with which longhaul send --detach has left them.
#[derive(Args)]
#[command(after_help = LIST_EXAMPLES)]
pub struct ListArgs {
    #[command(flatten)]
    store: StoreArgs,
}

const EXTEND_EXAMPLES: &str = "\
Examples:
  longhaul session extend 5f0c9a3e7d1b4826af30c2d9e8b74615 --via depot.example.org --keep 72h
  longhaul session extend k3v9-x2mq-7f4t-pd8w-z0y1 --via depot.example.org --keep 72h";

/// Have a depot keep a session until this long from now.
///
/// The depot has a maximum, counted from when the session was left.
#[derive(Args)]
#[command(after_help = EXTEND_EXAMPLES)]
pub struct ExtendArgs {
    /// The session, as longhaul session list shows it, or its code
    #[arg(value_name = "ID|CODE")]
    session: String,
    /// How long from now, as in 90min or 72h
    #[arg(long, value_name = "TIME")]
    keep: units::Duration,
    #[command(flatten)]
    store: StoreArgs,
}

const DROP_EXAMPLES: &str = "\
Examples:
  longhaul session drop 5f0c9a3e7d1b4826af30c2d9e8b74615 --via depot.example.org
  longhaul session drop k3v9-x2mq-7f4t-pd8w-z0y1 --via depot.example.org --json";

/// Remove a session from a depot.
#[derive(Args)]
#[command(after_help = DROP_EXAMPLES)]
pub struct DropArgs {
    /// The session, as longhaul session list shows it, or its code
    #[arg(value_name = "ID|CODE")]
    session: String,
    #[command(flatten)]
    store: StoreArgs,
}

/// Options of all three.
#[derive(Args)]
struct StoreArgs {
    /// Depots of a route, the one nearest this machine first and the one that keeps sessions last; repeat for alternatives
    #[arg(long, value_name = "[https:]HOST[:PORT],...", required = true)]
    via: Vec<String>,
    #[command(flatten)]
    owner: OwnerArgs,
    /// Give up after this time without a connection
    #[arg(long, value_name = "TIME", default_value = "30s")]
    patience: units::Duration,
    /// Also trust the certificate authorities in this PEM file
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// A session by its name, or by the code from which the name is derived.
fn named(text: &str) -> Result<SessionId, Failure> {
    let by_code = |code: StoredCode| code.keys().session;
    text.parse().or_else(|_| text.parse().map(by_code)).map_err(|_: CodeError| {
        Failure::usage(format_args!(
            "{text:?} is not a session: expected a name of 32 hexadecimal digits, as longhaul session list --via DEPOT shows it, \
             or a code of 20 characters"
        ))
    })
}

impl StoreArgs {
    fn client(&self) -> Result<StoreClient, Failure> {
        let routes = via::routes(&self.via)?;
        let store = |depots: &Vec<_>| Route::store(depots).map_err(|error| via::malformed(&error));
        let routes = routes.iter().map(store).collect::<Result<_, _>>()?;
        let options =
            Options { patience: self.patience.into(), ca: self.ca.clone(), ..Options::default() };
        Ok(StoreClient { routes, options })
    }
}

/// Asks until there is an answer or a signal.
fn ask<T>(asked: impl Future<Output = Result<T, Error>>) -> Result<T, Failure> {
    let ran = run_until_signal(|stop| async move { (stop.during(asked).await, stop.signal()) });
    match ran {
        Err(error) => Err(Failure::failed(format!("cannot start the runtime: {error}"))),
        Ok((Err(Error::Stopped), Some(signal))) => {
            Err(Failure::failed("stopped").with_exit_code(signal.exit_code()))
        }
        Ok((answer, _)) => Ok(answer?),
    }
}

pub fn list(args: &ListArgs) -> Result<(), Failure> {
    let (client, owner) = (args.store.client()?, args.store.owner.key()?);
    let sessions = ask(client.list(&owner))?;
    if args.store.json {
        print_json(&json!({ "sessions": sessions }));
    } else {
        print_text(&table(&sessions));
    }
    Ok(())
}

pub fn extend(args: &ExtendArgs) -> Result<(), Failure> {
    let session = named(&args.session)?;
    let (client, owner) = (args.store.client()?, args.store.owner.key()?);
    let extended = client.extend(session, args.keep.into(), &owner);
    let now = ask(extended)?;
    if args.store.json {
        print_json(&now);
    } else {
        outln!("{}: stored until {}", now.session, date(now.expires_s));
    }
    Ok(())
}

pub fn remove(args: &DropArgs) -> Result<(), Failure> {
    let session = named(&args.session)?;
    let (client, owner) = (args.store.client()?, args.store.owner.key()?);
    let now = ask(client.drop_session(session, &owner))?;
    if args.store.json {
        print_json(&now);
    } else {
        outln!("{}: removed", now.session);
    }
    Ok(())
}

fn table(sessions: &[StoredSession]) -> String {
    if sessions.is_empty() {
        return "no sessions of this key\n".to_owned();
    }
    let mut table = TextTable::default();
    table.left("session", 32);
    table.right("size", 9);
    table.left("state", 8);
    table.left("since", 20);
    table.left("until", 20);
    for kept in sessions {
        let state = match (&kept.damage, kept.complete) {
            (Some(_), _) => "damaged",
            (None, true) => "complete",
            (None, false) => "arriving",
        };
        let cells = vec![
            kept.session.to_string(),
            size(kept.bytes),
            state.to_owned(),
            date(kept.created_s),
            date(kept.expires_s),
        ];
        let damage = kept.damage.as_ref().map(|damage| format!(" {}", shorten(damage, 100)));
        table.row(cells, damage.unwrap_or_default());
    }
    table.text()
}
