// SPDX-License-Identifier: GPL-2.0-or-later
//! Answers to those who ask for a transfer's receipt, with those of the depots behind this one.
//!
//! Whoever has the token may ask: clients by ticket are not among `allow.clients`. A wrong one is 404.

use crate::{
    admission::verdict::Grant,
    client::Client,
    http::question,
    observe::Entry,
    state::RequestContext,
    upstream::{self, UpstreamConnection},
};
use health::BodyLimit;
use http::StatusCode;
use limits::DepotReceipt;
use protocol::{
    Fetch, MAX_DEPOTS,
    http::{
        Connection, Fault, ProxyError, RequestHead, own_answer,
        receipt::{MAX_RECEIPT_BODY, RECEIPTS},
        stripes::Token,
    },
};
use std::time::Duration;
use tokio::time::timeout;

/// How long the depots behind this one may take, for each of them.
const TIME: Duration = Duration::from_millis(500);

impl Client {
    /// Answers with the receipts of a transfer, this depot's first.
    pub(super) async fn receipt(
        &mut self,
        token: Option<Token>,
        (request, own): (&RequestHead, Connection),
        context: RequestContext<'_>,
    ) -> Connection {
        let found = token.and_then(|token| Some((token, context.observer.receipts.find(token)?)));
        let Some((token, receipt)) = found else {
            let mut shown = request.clone();
            // What opens a receipt is not for the log.
            RECEIPTS.clone_into(&mut shown.target);
            let mut entry = Entry::new(self.stream.peer(), context);
            entry.asked(&shown, context);
            let reason = "there is no such receipt: its token is wrong, or its time is over";
            let fault = Fault::new(StatusCode::NOT_FOUND, ProxyError::HttpRequestDenied, reason);
            let with_body = request.method.is_answered_with_body();
            self.refuse(entry, &fault, with_body, context).await;
            return Connection::Close;
        };
        let mut all = vec![receipt.told(&context.id)];
        if let Some((fetch, grant)) = receipt.next() {
            let time = TIME * u32::try_from(fetch.depots.clamp(1, MAX_DEPOTS)).unwrap_or(1);
            let behind = timeout(time, of_next(&fetch, grant, token, context)).await;
            all.extend(behind.ok().flatten().unwrap_or_default());
        }
        let text = serde_json::to_string(&all).unwrap_or_default() + "\n";
        self.answer(&own_answer("application/json", &text, request.method, own), own, context).await
    }
}

/// The receipts of the next depot and of those behind it. `None` if it does not answer as it should.
async fn of_next(
    fetch: &Fetch,
    grant: Grant,
    token: Token,
    context: RequestContext<'_>,
) -> Option<Vec<DepotReceipt>> {
    let (config, pool) = (context.config(), &context.next_hops.pool);
    let waiting = upstream::waiting(fetch.into(), grant, pool, config);
    if let Some(hop) = waiting
        && let Some(receipts) = ask(hop, fetch, token, context).await
    {
        return Some(receipts);
    }
    // The one that waited may have been closed.
    let hop = question::connected(fetch, grant, context.settings, context.shared()).await.ok()?;
    ask(hop, fetch, token, context).await
}

async fn ask(
    mut hop: UpstreamConnection,
    fetch: &Fetch,
    token: Token,
    context: RequestContext<'_>,
) -> Option<Vec<DepotReceipt>> {
    let text = format!("GET {RECEIPTS}{token} HTTP/1.1\r\nHost: {}\r\n\r\n", fetch.host);
    let limit = BodyLimit { document: MAX_RECEIPT_BODY, padding: 0 };
    let asked = question::ask::<Vec<DepotReceipt>>(&mut hop, &text, limit).await;
    let (mut receipts, fit) = asked.ok()?;
    upstream::Used { hop, fit }.settle().keep(&context.next_hops.pool, context.config());
    receipts.truncate(MAX_DEPOTS - 1);
    receipts.iter().all(DepotReceipt::is_sound).then_some(receipts)
}
