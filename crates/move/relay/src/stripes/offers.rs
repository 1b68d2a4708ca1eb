// SPDX-License-Identifier: GPL-2.0-or-later
//! Transfers that further connections may join, and by which token.

use crate::tcp::Connection;
use bytes::BytesMut;
use std::{
    collections::HashMap,
    fmt, io,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};
use tokio::sync::{mpsc, oneshot};

/// The unguessable token with which further connections join a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token(pub [u8; 16]);

impl fmt::Debug for Token {
    /// Logs must not contain it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// All transfers that may be joined.
#[derive(Debug, Default)]
pub struct Offers(Mutex<HashMap<Token, Offer>>);

/// For whom a transfer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asker {
    /// The address that has asked for it, and from which connections may join.
    pub peer: IpAddr,
    /// The client: the same, or the one for which a depot at that address asks.
    pub client: IpAddr,
}

#[derive(Debug)]
struct Offer {
    asker: Asker,
    /// How many more.
    left: u8,
    sender: mpsc::Sender<Joined>,
}

/// A connection that joins.
#[derive(Debug)]
pub struct Joined {
    /// The connection.
    pub stream: Connection,
    /// What has come on it behind the token.
    pub ahead: BytesMut,
    /// Dropped when the transfer is done with the connection, which tells the other end of this.
    pub over: oneshot::Sender<()>,
}

/// A transfer that may be joined for as long as this is there.
#[derive(Debug)]
pub struct Offered {
    /// By this token.
    pub token: Token,
    /// Those that have joined.
    joined: mpsc::Receiver<Joined>,
    /// How many more may.
    left: u8,
    offers: Arc<Offers>,
}

impl Offers {
    /// Lets `more` connections from the asker's address join its transfer.
    ///
    /// # Errors
    /// This host has no random bytes.
    pub fn offer(self: &Arc<Self>, asker: Asker, more: u8) -> io::Result<Offered> {
        let token = Token(host::random()?);
        let (sender, joined) = mpsc::channel(more.max(1).into());
        self.all().insert(token, Offer { asker, left: more, sender });
        Ok(Offered { token, joined, left: more, offers: Arc::clone(self) })
    }

    /// The client whose transfer a connection from `peer` would join by this token, if there is one.
    pub fn client(&self, token: Token, peer: IpAddr) -> Option<IpAddr> {
        let all = self.all();
        let asker = all.get(&token)?.asker;
        (asker.peer == peer).then_some(asker.client)
    }

    /// Takes a connection from `peer` into the transfer that this token opens; the connection where
    /// there is none.
    ///
    /// # Errors
    /// The connection, if no transfer waits for it.
    pub fn join(&self, token: Option<Token>, peer: IpAddr, joined: Joined) -> Result<(), Joined> {
        let mut all = self.all();
        let offer = token.and_then(|token| all.get_mut(&token));
        match offer.filter(|offer| offer.asker.peer == peer && offer.left > 0) {
            Some(offer) => {
                offer.left -= 1;
                offer.sender.try_send(joined).map_err(mpsc::error::TrySendError::into_inner)
            }
            None => Err(joined),
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Token, Offer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Offered {
    /// The next one; none when no more may join.
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Joined>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let joined = ready!(self.joined.poll_recv(context));
        self.left -= 1;
        Poll::Ready(joined)
    }

    /// Who has not come by now comes too late.
    pub(super) fn end(&mut self) {
        self.joined.close();
        while self.joined.try_recv().is_ok() {}
    }
}

impl Drop for Offered {
    fn drop(&mut self) {
        self.offers.all().remove(&self.token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::{TcpListener, TcpStream};

    async fn joined() -> (Joined, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stream = Connection::new(TcpStream::connect(address).await.unwrap(), address);
        (Joined { stream, ahead: BytesMut::new(), over: oneshot::channel().0 }, listener)
    }

    #[tokio::test]
    async fn unrequested_connection_cannot_join() {
        let offers = Arc::new(Offers::default());
        let peer: IpAddr = "192.0.2.1".parse().unwrap();
        let asker = Asker { peer, client: "198.51.100.7".parse().unwrap() };
        let mut offered = offers.offer(asker, 1).unwrap();
        let other = offers.offer(asker, 1).unwrap();
        assert_ne!(offered.token, other.token);
        let try_join = async |token, peer| {
            let (joined, _listener) = joined().await;
            offers.join(token, peer, joined).is_ok()
        };
        assert_eq!(offers.client(offered.token, peer), Some(asker.client));
        assert_eq!(offers.client(offered.token, asker.client), None, "it may not join");
        assert_eq!(offers.client(Token([0; 16]), peer), None);
        let (wrong, right) = (Some(Token([0; 16])), Some(offered.token));
        assert!(!try_join(None, peer).await);
        assert!(!try_join(wrong, peer).await);
        assert!(!try_join(right, "192.0.2.2".parse().unwrap()).await, "from elsewhere");
        assert!(try_join(right, peer).await);
        assert!(offered.joined.try_recv().is_ok());
        assert!(!try_join(right, peer).await, "one more than agreed");
        let over = Some(other.token);
        drop(other);
        assert!(!try_join(over, peer).await, "it is over");
        drop(offered);
        assert!(offers.all().is_empty());
    }
}
