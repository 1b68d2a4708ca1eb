// SPDX-License-Identifier: GPL-2.0-or-later
//! The count of uses.

use super::{NOW, at, ticket};
use longhaul_protocol::{
    http::Fault,
    ticket::{LEEWAY_S, Replays, Ticket, TicketError, Verified},
};
use rand_core::{Rng, SeedableRng};
use std::{collections::HashMap, num::NonZeroUsize};

fn verified(id: &str, key: &str, uses: u32, expires: u64) -> Verified {
    let ticket = Ticket {
        id: id.to_owned(),
        uses: uses.try_into().ok(),
        expires: at(expires),
        ..ticket("http://o/f")
    };
    Verified { ticket, key: key.to_owned() }
}

fn replays(most: usize) -> Replays {
    Replays::new(NonZeroUsize::new(most).unwrap())
}

#[test]
fn a_ticket_is_used_as_often_as_it_may() {
    let mut replays = replays(10);
    let twice = verified("a", "k", 2, NOW + 60);
    assert_eq!(replays.count(&twice, at(NOW)), Ok(()));
    assert_eq!(replays.count(&twice, at(NOW)), Ok(()));
    let error = replays.count(&twice, at(NOW)).unwrap_err();
    assert_eq!(error, TicketError::UsedUp { id: "a".to_owned(), uses: 2 });
    assert_eq!(Fault::from(error).status, 403);
    // Of the same name, by another signer: another ticket.
    assert_eq!(replays.count(&verified("a", "l", 2, NOW + 60), at(NOW)), Ok(()));
    assert_eq!(replays.len(), 2);
    // Without a limit there is nothing to count.
    for _ in 0..100 {
        assert_eq!(replays.count(&verified("b", "k", 0, NOW + 60), at(NOW)), Ok(()));
    }
    assert_eq!(replays.len(), 2);
}

#[test]
fn full_replay_count_forgets_only_expired_tickets() {
    let mut replays = replays(2);
    assert!(replays.is_empty());
    assert_eq!(replays.count(&verified("a", "k", 1, NOW + 10), at(NOW)), Ok(()));
    assert_eq!(replays.count(&verified("b", "k", 1, NOW + 20), at(NOW)), Ok(()));
    let third = verified("c", "k", 1, NOW + 90);
    let error = replays.count(&third, at(NOW)).unwrap_err();
    assert_eq!(error, TicketError::NoRoom(2));
    assert_eq!(Fault::from(error).status, 503);
    // As long as a depot would take the ticket, it is remembered.
    let last = NOW + 10 + u64::from(LEEWAY_S);
    assert_eq!(replays.count(&third, at(last)), Err(TicketError::NoRoom(2)));
    assert_eq!(replays.count(&third, at(last + 1)), Ok(()));
    assert!(replays.count(&verified("b", "k", 1, NOW + 20), at(last + 1)).is_err());
}

#[test]
fn clock_set_back_allows_no_second_use() {
    let mut replays = replays(10);
    let once = verified("a", "k", 1, NOW + 10);
    assert_eq!(replays.count(&once, at(NOW)), Ok(()));
    // An hour later it is forgotten.
    assert_eq!(replays.count(&verified("b", "k", 1, NOW + 7200), at(NOW + 3600)), Ok(()));
    assert_eq!(replays.len(), 1);
    let error = replays.count(&once, at(NOW)).unwrap_err();
    let (id, at_, now) = ("a".to_owned(), at(NOW + 10), at(NOW));
    assert_eq!(error, TicketError::ClockSetBack { id, at: at_, now });
    assert_eq!(Fault::from(error).status, 403);
    // Of one that expires later nothing was forgotten.
    assert_eq!(replays.count(&verified("c", "k", 1, NOW + 11), at(NOW)), Ok(()));
}

/// Against a count that forgets nothing.
#[test]
fn no_ticket_is_used_more_often_than_it_may() {
    let seed = std::env::var("LONGHAUL_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    println!("LONGHAUL_SEED={seed}");
    let mut random = rand_pcg::Pcg64::seed_from_u64(seed);
    let mut draw = |below: u32| random.next_u32() % below;
    let (mut replays, mut all, mut now) = (replays(20), HashMap::<String, u32>::new(), NOW);
    let (mut taken, mut refused, mut full) = (0, 0, 0);
    for _ in 0..20_000 {
        now += u64::from(draw(2));
        // The same name stands for the same ticket; it is asked for only while it is valid.
        let start = now - now % 50;
        let id = format!("{start}-{}", draw(12));
        let count = all.entry(id.clone()).or_default();
        match replays.count(&verified(&id, "k", 3, start + 50), at(now)) {
            Ok(()) => {
                *count += 1;
                taken += 1;
                assert!(*count <= 3, "{id} used {count} times");
            }
            Err(TicketError::UsedUp { .. }) => {
                refused += 1;
                assert_eq!(*count, 3, "{id} refused too soon");
            }
            Err(error) => {
                full += 1;
                assert_eq!((error, *count), (TicketError::NoRoom(20), 0), "{id}");
            }
        }
        assert!(replays.len() <= 20);
    }
    assert!(taken > 1000 && refused > 1000 && full > 100, "{taken} {refused} {full}");
}

#[test]
fn uses_pass_to_another_process_and_add_up() {
    let mut before = replays(10);
    for (id, uses) in [("a", 2), ("b", 1), ("late", 1)] {
        let expires = if id == "late" { NOW + 600 } else { NOW + 60 };
        before.count(&verified(id, "k", uses, expires), at(NOW)).unwrap();
    }
    let told = serde_json::to_string(&before.so_far()).unwrap();
    let mut after = replays(10);
    after.count(&verified("c", "k", 1, NOW + 60), at(NOW)).unwrap();
    after.add(serde_json::from_str(&told).unwrap());
    assert_eq!(after.len(), 4);
    assert!(after.count(&verified("b", "k", 1, NOW + 60), at(NOW)).is_err());
    assert!(after.count(&verified("a", "k", 2, NOW + 60), at(NOW)).is_ok());
    assert!(after.count(&verified("a", "k", 2, NOW + 60), at(NOW)).is_err());
    // Without room, a ticket that is not counted cannot be used.
    let mut small = replays(1);
    small.add(serde_json::from_str(&told).unwrap());
    for id in ["a", "b", "late"] {
        let expires = if id == "late" { NOW + 600 } else { NOW + 60 };
        assert!(small.count(&verified(id, "k", 1, expires), at(NOW)).is_err(), "{id}");
    }
}
