// SPDX-License-Identifier: GPL-2.0-or-later
//! A request that goes on: relayed, settled with its client, logged, and its connections kept.

use crate::{
    client::Client,
    http::{
        body::Broken,
        exchange::Exchange,
        outcome::{Answer, End, Outcome},
        plan::Plan,
    },
    observe::{Entry, Live, Withdrawal},
    state::RequestContext,
};
use ::protocol::{
    Fetch,
    http::{Connection, Fault, Framing, ProxyError, RequestHead, receipt},
};
use http::StatusCode;
use relay::{copy::CopyError, tcp::info::reset_on_close};
use std::sync::Arc;

impl Client {
    /// Relays a request and its response.
    pub(super) async fn fetch(
        &mut self,
        mut entry: Entry,
        request: &RequestHead,
        plan: &Plan,
        fetch: &Fetch,
        context: RequestContext<'_>,
    ) -> Connection {
        let config = context.config();
        let detours =
            context
                .next_hops
                .detours
                .routes(fetch, config, plan.ticket().is_none(), || plan.straight(fetch));
        let routes = detours.as_deref().unwrap_or(std::slice::from_ref(fetch));
        let trace = entry.trace(request, context);
        let live = entry.fetching(&routes[0].next, &self.stream);
        if let Some(token) = receipt::wanted(request) {
            let receipt = Arc::clone(live.receipt());
            context.observer.receipts.keep(token, self.asker().client, receipt);
        }
        let (client, allowance) = (self.stream.peer(), plan.allowance());
        let pacing = context.admission.rates.begin(live.number, client.ip(), allowance.limits());
        let exchange = Exchange {
            context,
            request,
            request_route: plan.request_route(),
            vouched: plan.vouched(),
            trace: &trace,
            grant: plan.grant,
            allowance,
            site: plan.site.as_ref(),
            proxied: plan.is_proxied(),
            tunnel: plan.tunnel.as_ref(),
            pacing: &pacing,
            asked: &fetch.next,
            routes,
            live: &live,
            client,
            asker: self.asker(),
        };
        let mut outcome = exchange.run(self).await;
        entry.answer(outcome.answer.as_ref());
        let then = self.settle(&mut outcome, context).await;
        self.conclude(entry, (request, &live), &outcome, context).await;
        // Before another transfer has the connection, which is then held to that one's rate.
        drop(pacing);
        if let Some(used) = outcome.upstream {
            used.keep(&context.next_hops.pool, config);
        }
        then
    }

    /// Waits until the client has a whole response, if one was relayed. Returns whether it may send another request.
    async fn settle(&mut self, outcome: &mut Outcome, context: RequestContext<'_>) -> Connection {
        if self.interims.is_cut() {
            reset_on_close(self.stream.tcp(), true);
        }
        if !matches!(outcome.end, End::Complete) {
            return Connection::Close;
        }
        let keeps = outcome.answer.as_ref().is_some_and(|answer| answer.keeps_client);
        let settled = if keeps { self.settled(context).await } else { self.close(context).await };
        match settled {
            Ok(true) if keeps => Connection::Keep,
            Ok(_) => Connection::Close,
            Err(broken) => {
                outcome.end = End::Broken(broken);
                Connection::Close
            }
        }
    }

    /// Logs how an exchange ended, and tells a client that has no answer.
    async fn conclude(
        &mut self,
        entry: Entry,
        (request, live): (&RequestHead, &Live),
        outcome: &Outcome,
        context: RequestContext<'_>,
    ) {
        let with_body = request.method.is_answered_with_body();
        let answer = outcome.answer.as_ref();
        let refusal = answer.and_then(|answer| answer.refusal.as_deref());
        match &outcome.end {
            End::Unanswered(unanswered) => {
                self.refuse(entry, &unanswered.fault, with_body, context).await;
            }
            End::Abandoned(error) => entry.abandoned(error),
            End::RequestBroken(broken) => match request_fault(broken, context) {
                Some(fault) if !self.interims.is_cut() => {
                    self.refuse(entry, &fault, with_body, context).await;
                }
                _ => entry.request_broken(broken),
            },
            End::Broken(broken) => {
                self.break_off(broken, answer);
                entry.relayed(&outcome.end, refusal);
            }
            End::Withdrawn(why) => self.withdraw(entry, (why, live), with_body, context).await,
            // An exchange does not end before it is carried.
            End::Complete | End::NotCarried => entry.relayed(&outcome.end, refusal),
        }
    }

    /// Ends a transfer that was withdrawn: with an answer if it had none, or with a reset.
    async fn withdraw(
        &mut self,
        entry: Entry,
        (why, live): (&Withdrawal, &Live),
        with_body: bool,
        context: RequestContext<'_>,
    ) {
        if live.status().is_none() && !self.interims.is_cut() {
            let (status, error) = (StatusCode::FORBIDDEN, ProxyError::HttpRequestDenied);
            let fault = Fault::new(status, error, why.told());
            return self.refuse(entry, &fault, with_body, context).await;
        }
        reset_on_close(self.stream.tcp(), true);
        entry.withdrawn(why);
    }

    /// Leaves the connection in the state that tells the client the truth when it is closed.
    fn break_off(&self, broken: &Broken, answer: Option<&Answer>) {
        let until_close = answer.is_some_and(|answer| answer.framing == Framing::UntilClose);
        let reset = match broken {
            Broken::Copy(CopyError::SinkGone(_) | CopyError::SinkStalled | CopyError::SinkSlow) => {
                true
            }
            // With a length or chunks an early close shows, and leaves the client what it has.
            _ => until_close,
        };
        reset_on_close(self.stream.tcp(), reset);
    }
}

/// What to tell a client whose request's body broke off, if it waits for an answer.
fn request_fault(broken: &Broken, context: RequestContext<'_>) -> Option<Fault> {
    match broken {
        Broken::Malformed(error) => Some(error.in_request()),
        Broken::Differs(fault) => Some(fault.clone()),
        Broken::Copy(CopyError::SourceStalled) => {
            let time = context.config().timeouts.idle;
            let reason = format!("nothing of the request's body came for {time}");
            Some(Fault::new(StatusCode::REQUEST_TIMEOUT, ProxyError::HttpRequestError, reason))
        }
        Broken::Copy(_) => None,
    }
}
