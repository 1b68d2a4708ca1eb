// SPDX-License-Identifier: GPL-2.0-or-later
//! What each side intends, written down before it does it, and what was found to be wrong.

use super::content::Content;
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    time::Instant,
};

/// A request as its client means it.
#[derive(Debug)]
pub struct Asked {
    pub method: &'static str,
    pub http10: bool,
    /// Whether it may reach an origin: what cannot be read as one request must not.
    pub legal: bool,
    /// How long its body is to be.
    pub upload: Option<usize>,
    /// Whether the client sends all of that.
    pub whole: bool,
    /// When its first byte was about to be sent.
    pub started: OnceLock<Instant>,
    /// Whether it met bytes that were sent unasked when it was on its way: no depot can tell them from
    /// its answer.
    pub excused: AtomicBool,
}

/// An answer as its origin means it.
#[derive(Debug, Clone)]
pub struct Answer {
    pub id: u64,
    /// To which request of the conversation.
    pub request: usize,
    pub status: u16,
    pub content: Content,
    /// How long the body is that it belongs to.
    pub length: usize,
    /// Whether its head comes whole and can be read in one way only.
    pub readable: bool,
    /// Whether all of it is sent, well framed, and no digest contradicts it.
    pub whole: bool,
}

/// One client's connection, and its state.
pub struct Conversation {
    /// Unlike that of any other.
    pub number: u64,
    /// By which it is drawn, with its place in the run.
    pub seed: u64,
    pub index: u64,
    pub requests: Vec<Asked>,
    /// How many of the requests have begun.
    pub begun: AtomicUsize,
    answers: Mutex<Vec<Answer>>,
    transcript: Mutex<Vec<(Instant, String)>>,
}

impl Conversation {
    pub fn new(number: u64, index: u64, seed: u64, requests: Vec<Asked>) -> Self {
        let (begun, answers, transcript) = Default::default();
        Self { number, seed, index, requests, begun, answers, transcript }
    }

    /// The token in a request's path.
    pub fn token(&self, request: usize) -> String {
        format!("c{}-{request}", self.number)
    }

    /// The key of a request's body.
    pub fn uploaded(&self, request: usize) -> Content {
        Content::Noise(super::dice::mix(&[self.number, request as u64, 7]))
    }

    pub fn note(&self, text: String) {
        self.transcript.lock().unwrap().push((Instant::now(), text));
    }

    pub fn intend(&self, answer: Answer) {
        self.note(format!("origin intends {answer:?}"));
        self.answers.lock().unwrap().push(answer);
    }

    pub fn answer(&self, id: u64) -> Option<Answer> {
        self.answers.lock().unwrap().iter().find(|answer| answer.id == id).cloned()
    }

    pub fn attempts(&self, request: usize) -> usize {
        self.answers.lock().unwrap().iter().filter(|answer| answer.request == request).count()
    }

    pub fn is_excused(&self) -> bool {
        self.requests.iter().any(|asked| asked.excused.load(SeqCst))
    }

    pub fn transcript(&self) -> String {
        let notes = self.transcript.lock().unwrap();
        let Some((start, _)) = notes.first() else { return String::new() };
        let line = |(at, text): &(Instant, String)| {
            format!("{:9.3} ms  {text}\n", at.duration_since(*start).as_secs_f64() * 1e3)
        };
        notes.iter().map(line).collect()
    }
}

/// All that is under way.
#[derive(Default)]
pub struct Ledger {
    open: Mutex<HashMap<u64, Arc<Conversation>>>,
    ids: AtomicU64,
    violations: Mutex<Vec<String>>,
    pub counts: Counts,
}

/// What became of it all.
#[derive(Debug, Default)]
pub struct Counts {
    pub requests: AtomicU64,
    pub whole: AtomicU64,
    pub parts: AtomicU64,
    pub refused: AtomicU64,
    pub interims: AtomicU64,
    pub late: AtomicU64,
    pub excused: AtomicU64,
    pub uploads: AtomicU64,
    pub unasked: AtomicU64,
}

pub fn count(counter: &AtomicU64) {
    counter.fetch_add(1, SeqCst);
}

impl Ledger {
    pub fn open(&self, conversation: &Arc<Conversation>) {
        self.open.lock().unwrap().insert(conversation.number, Arc::clone(conversation));
    }

    pub fn close(&self, conversation: &Conversation) {
        self.open.lock().unwrap().remove(&conversation.number);
    }

    /// Whose request has this token in its path.
    pub fn find(&self, path: &str) -> Option<(Arc<Conversation>, usize)> {
        let token = path.strip_prefix("/c")?.split('/').next()?;
        let (number, request) = token.split_once('-')?;
        let conversation = self.open.lock().unwrap().get(&number.parse().ok()?).cloned()?;
        let request: usize = request.parse().ok()?;
        (request < conversation.requests.len()).then_some((conversation, request))
    }

    pub fn id(&self) -> u64 {
        self.ids.fetch_add(1, SeqCst)
    }

    /// Something is wrong.
    pub fn violated(&self, what: &str, conversation: Option<&Conversation>) {
        let of = conversation.map_or_else(String::new, |it| {
            format!(
                " in conversation {} (LONGHAUL_CONVERSATION={})\n{}",
                it.number,
                it.index,
                it.transcript()
            )
        });
        self.violations.lock().unwrap().push(format!("{what}{of}"));
    }

    pub fn violations(&self) -> Vec<String> {
        self.violations.lock().unwrap().clone()
    }
}
