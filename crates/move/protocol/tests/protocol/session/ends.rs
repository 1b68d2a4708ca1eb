// SPDX-License-Identifier: GPL-2.0-or-later
//! Two ends, and a network that is not kind to them.

use super::{below, bytes};
use longhaul_protocol::session::{
    Direction, Duplex, Event, Next, Output, Position, Prefix, ReceiveError, Receiving, Sending,
    SessionId, group_start,
    handshake::{Attach, Attaching, EARLY_LIMIT, Greeting, Hello, Terms, WholeDigest},
    record::RecordKind,
    seal_again, split_record,
};
use rand_core::Rng;

/// How often things go wrong.
#[derive(Debug, Clone, Copy)]
pub struct Network {
    /// One in `cut` steps breaks the connection; 0: never.
    cut: u64,
    /// One in `damage` bytes is changed; 0: none.
    damage: u64,
}

impl Network {
    /// One of several kinds.
    pub fn any(random: &mut impl Rng) -> Self {
        let one_of = |choices: [u64; 4], random: &mut _| choices[below(4, random) as usize];
        Self {
            cut: one_of([0, 5, 20, 100], random),
            damage: one_of([0, 0, 2_000_000, 300_000], random),
        }
    }
}

/// One end.
pub struct End {
    duplex: Option<Duplex>,
    direction: Direction,
    to_send: Vec<u8>,
    /// How much the application has written so far.
    available: usize,
    pub received: Vec<u8>,
    /// How many bytes have arrived that were there already.
    pub twice: u64,
    incoming: bytes::BytesMut,
    is_whole: bool,
}

/// Both ends.
pub struct Pair {
    ends: [End; 2],
    pub damaged: u64,
}

/// The further digest on which these ends have agreed.
fn sha256(bytes: &[u8]) -> Vec<u8> {
    aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes).as_ref().to_vec()
}

const SESSION: SessionId = SessionId([9; 16]);

impl End {
    fn new(direction: Direction, random: &mut impl Rng) -> Self {
        let length = [0, 1, 1 << 18, 1 << 19, below(3 << 19, random), below(3 << 20, random)];
        let length = length[below(6, random) as usize] as usize;
        let (to_send, incoming) = (bytes(length, random), bytes::BytesMut::new());
        let (duplex, received) = (None, Vec::new());
        Self {
            duplex,
            direction,
            to_send,
            available: 0,
            received,
            twice: 0,
            incoming,
            is_whole: false,
        }
    }

    fn duplex(&mut self) -> &mut Duplex {
        self.duplex.as_mut().expect("the ends have greeted each other")
    }

    /// Says something, if there is anything to say.
    fn speak(&mut self) -> Option<Vec<u8>> {
        let available = self.available as u64;
        let to_send = &self.to_send;
        let part = |range: std::ops::Range<u64>| &to_send[range.start as usize..range.end as usize];
        let duplex = self.duplex.as_mut().expect("the ends have greeted each other");
        Some(match duplex.next(available)? {
            Output::Record(record) => record,
            Output::Fin => duplex.fin(sha256(to_send)),
            Output::Data(Next::New(range)) => {
                let bytes = part(range);
                let head = duplex.seal(bytes);
                [&head.to_record(bytes.len())[..], bytes].concat()
            }
            Output::Data(Next::Again { group, range }) => {
                duplex.sent_again();
                let bytes = part(range.clone());
                let head = seal_again(range.start, part(group..range.start), bytes);
                [&head.to_record(bytes.len())[..], bytes].concat()
            }
        })
    }

    /// Reads what has arrived.
    fn listen(&mut self) -> Result<(), ReceiveError> {
        while let Some((kind, payload)) = split_record(&mut self.incoming)? {
            let before = self.duplex().receiving().received();
            let data = kind == Some(RecordKind::Data);
            if data && let Some(offset) = payload.first_chunk::<8>() {
                let end = u64::from_be_bytes(*offset).saturating_add(payload.len() as u64 - 40);
                self.twice += u64::from(end <= before) * (payload.len() as u64 - 40);
            }
            match self.duplex().receive(kind, payload)? {
                Event::Deliver(pieces) => self.deliver(&pieces),
                Event::Whole(pieces) => {
                    self.deliver(&pieces);
                    self.is_whole = true;
                    let digest = sha256(&self.received);
                    self.duplex().complete(&digest)?;
                }
                Event::Nothing | Event::Acknowledged => {}
                Event::Ended(end) => assert!(!end.is_proved, "neither end ended it: {end:?}"),
            }
        }
        Ok(())
    }

    fn deliver(&mut self, pieces: &[bytes::Bytes]) {
        for piece in pieces {
            self.received.extend_from_slice(piece);
            self.duplex().delivered(piece.len() as u64, false);
        }
        self.duplex().delivered(0, true);
    }
}

impl Pair {
    pub fn new(random: &mut impl Rng) -> Self {
        let both = [Direction::FromInitiator, Direction::FromAcceptor];
        let mut pair = Self { ends: both.map(|direction| End::new(direction, random)), damaged: 0 };
        pair.greet(random);
        pair
    }

    pub fn sent(&self) -> [&[u8]; 2] {
        [&self.ends[0].to_send, &self.ends[1].to_send]
    }

    /// Who has received what the first and the second have sent.
    pub fn received(&self) -> [&End; 2] {
        [&self.ends[1], &self.ends[0]]
    }

    fn greet(&mut self, random: &mut impl Rng) {
        let mut secret = [[0; 32]; 2];
        for bytes in &mut secret {
            random.fill_bytes(bytes);
        }
        let window = 1 << 16 << below(6, random);
        let terms = Terms { limit: window, note: b"note".to_vec() };
        let digest = Some(WholeDigest::Sha256);
        let greeting = Greeting::new(SESSION, secret[0], b"", &terms, digest);
        let hello = Hello::parse(greeting.hello()).expect("well formed");
        assert_eq!(hello.digest, digest);
        assert_eq!((&hello.terms, hello.session), (&terms, SESSION));
        let position = Prefix::default().position();
        let welcoming = hello.welcome(secret[1], b"", &terms, &position).expect("usable");
        let (agreed, confirm) = greeting.welcomed(&welcoming.payload).expect("proved");
        welcoming.confirmed(&confirm).expect("proved");
        assert_eq!(agreed.key, *welcoming.key());
        for end in &mut self.ends {
            let limit = if end.direction == Direction::FromInitiator {
                agreed.terms.limit.max(EARLY_LIMIT)
            } else {
                hello.terms.limit
            };
            let sending = Sending::new(end.direction, limit);
            let window = window.max(EARLY_LIMIT);
            let receiving = Receiving::new(end.direction.other(), Prefix::default(), window);
            end.duplex = Some(Duplex::new(end.direction, agreed.key.clone(), sending, receiving));
        }
    }

    /// Connects again.
    fn reattach(&mut self, random: &mut impl Rng) {
        let mut nonces = [[0; 32]; 2];
        for nonce in &mut nonces {
            random.fill_bytes(nonce);
        }
        let [one, two] = &mut self.ends;
        let of = |end: &mut End| {
            let duplex = end.duplex();
            let receiving = duplex.receiving();
            (duplex.key().clone(), receiving.limit(), receiving.position())
        };
        let (key, limit, position) = of(one);
        let attaching = Attaching::new(&key, SESSION, nonces[0], limit, &position);
        let (key, limit, position) = of(two);
        let attach = Attach::parse(attaching.attach()).expect("well formed");
        let reattaching = attach.attached(&key, nonces[1], limit, &position).expect("proved");
        let (limit, position, confirm) = attaching.attached(&reattaching.payload).expect("proved");
        reattaching.confirmed(&confirm).expect("proved");
        one.resume(position, limit);
        two.resume(attach.position, attach.limit);
    }

    /// Plays the session to its end.
    pub fn run(&mut self, network: Network, random: &mut impl Rng, context: &str) {
        for step in 0.. {
            assert!(step < 200_000, "{context}: it does not come to an end");
            if self.ends.iter_mut().all(|end| end.is_whole && end.duplex().is_over()) {
                return;
            }
            if network.cut > 0 && below(network.cut, random) == 0 {
                self.reattach(random);
            }
            if self.step(network.damage, random).is_err() {
                assert!(self.damaged > 0, "{context}: nothing was damaged");
                self.reattach(random);
            }
        }
    }

    /// One end writes and speaks, the other one listens to some or all of it.
    fn step(&mut self, damage: u64, random: &mut impl Rng) -> Result<(), ReceiveError> {
        let speaker = below(2, random) as usize;
        let end = &mut self.ends[speaker];
        let rest = end.to_send.len() - end.available;
        end.available +=
            below([100, 1 << 20][below(2, random) as usize], random).min(rest as u64) as usize;
        if end.available == end.to_send.len() {
            end.duplex().finish();
        }
        let mut said = Vec::new();
        for _ in 0..=below(8, random) {
            said.extend(end.speak().unwrap_or_default());
        }
        if damage > 0 && below(damage, random) < said.len() as u64 {
            let at = below(said.len() as u64, random) as usize;
            said[at] ^= 1 << below(8, random);
            self.damaged += 1;
        }
        let listener = &mut self.ends[1 - speaker];
        listener.incoming.extend_from_slice(&said);
        listener.listen()
    }

    /// Has the first end send this much and end with another digest than that of it; with what the second end says to that.
    pub fn fin_with_digest(&mut self, content: &[u8], digest: &[u8]) -> ReceiveError {
        self.ends[0].to_send = content.to_vec();
        self.ends[0].available = content.len();
        self.ends[0].duplex().finish();
        let duplex = self.ends[0].duplex();
        let Some(Output::Data(Next::New(_))) = duplex.next(content.len() as u64) else {
            panic!("there is more to send")
        };
        let head = duplex.seal(content).to_record(content.len());
        assert_eq!(duplex.next(content.len() as u64), Some(Output::Fin));
        let fin = duplex.fin(digest.to_vec());
        assert_eq!(duplex.next(content.len() as u64), None, "FIN is not repeated");
        self.ends[1].incoming.extend_from_slice(&[&head[..], content, &fin].concat());
        self.ends[1].listen().expect_err("the digest is another one")
    }

    /// Plays until an end gives up, because something changes a group each time.
    pub fn run_with_group_always_damaged(&mut self, random: &mut impl Rng) -> ReceiveError {
        self.ends[0].to_send = bytes(3 << 18, random);
        self.ends[0].available = 3 << 18;
        loop {
            let mut said = self.ends[0].speak().expect("there is more");
            let second = said.len() > 1000 && said[4..12] == group_start(1 << 18).to_be_bytes();
            if second {
                said[500] ^= 1;
            }
            self.ends[1].incoming.extend_from_slice(&said);
            if let Err(error) = self.ends[1].listen() {
                return error;
            }
            while let Some(said) = self.ends[1].speak() {
                self.ends[0].incoming.extend_from_slice(&said);
            }
            self.ends[0].listen().expect("nothing is damaged on the way back");
        }
    }
}

impl End {
    /// Goes on at the other end's position.
    fn resume(&mut self, position: Position, limit: u64) {
        self.incoming.clear();
        let available = self.to_send.len() as u64;
        let mut check = self.duplex().sending().check(position, 0, available).expect("kept");
        while let Some(range) = check.next() {
            check.feed(&self.to_send[range.start as usize..range.end as usize]);
        }
        self.duplex().reattach(check, limit).expect("the same beginning");
    }
}
