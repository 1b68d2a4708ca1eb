// SPDX-License-Identifier: GPL-2.0-or-later
//! What limits a transfer: the causes, the rules that tell them apart, and receipts.
//!
//! ```text
//! limit      why a sender does not send at this moment: one table of rules, for simulated and real senders
//! sender     the same for the time between two looks at a kernel's sender (TCP_INFO)
//! receiver   why nothing comes, as far as the receiving end can see it
//! cause      the causes of a receipt: those above in the words of a user, and what only programs know
//! receipt    for each second of a transfer, the time of each cause on both sides of one machine
//! chain      the receipts of a client and its depots as one table, with the hop to blame
//! ```
//! No I/O and no clock: the caller looks at sockets and passes the time.

mod cause;
mod chain;
mod limit;
mod receipt;
mod receiver;
mod relay;
mod sender;

pub use cause::{Cause, CauseTimes};
pub use chain::{Blame, Chain, Flow, Remedy};
pub use limit::{Limit, LimitShares, LimitTimes, SenderState};
pub use receipt::{DepotReceipt, Limited, MOST_ROWS, Receipt, Row};
pub use receiver::{Arrivals, ReceiverSample};
pub use relay::{RelayClock, RelaySample, SocketSample};
pub use sender::{SenderInterval, SenderSample};
