// SPDX-License-Identifier: GPL-2.0-or-later
//! Places in order of their last use: lists within one vector, so that a use costs the same however many places there are.

const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Link {
    previous: u32,
    next: u32,
}

/// Links of all places. Each place is in at most one list.
#[derive(Debug, Default)]
pub(super) struct Links(Vec<Link>);

/// Places, the one longest unused first.
#[derive(Debug, Clone, Copy)]
pub(super) struct List {
    first: u32,
    last: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { first: NONE, last: NONE }
    }
}

impl List {
    /// The place that is longest unused.
    pub(super) fn first(self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }
}

impl Links {
    /// Adds a place at the end of a list.
    pub(super) fn push(&mut self, list: &mut List, place: u32) {
        let needed = place as usize + 1;
        if self.0.len() < needed {
            self.0.resize(needed, Link { previous: NONE, next: NONE });
        }
        self.0[place as usize] = Link { previous: list.last, next: NONE };
        match list.last {
            NONE => list.first = place,
            last => self.0[last as usize].next = place,
        }
        list.last = place;
    }

    /// Takes a place out of the list that it is in.
    pub(super) fn remove(&mut self, list: &mut List, place: u32) {
        let Link { previous, next } = self.0[place as usize];
        match previous {
            NONE => list.first = next,
            previous => self.0[previous as usize].next = next,
        }
        match next {
            NONE => list.last = previous,
            next => self.0[next as usize].previous = previous,
        }
    }

    /// Moves a place to the end of the list that it is in.
    pub(super) fn touch(&mut self, list: &mut List, place: u32) {
        if list.last != place {
            self.remove(list, place);
            self.push(list, place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_in_order_of_their_last_use() {
        let (mut links, mut list) = (Links::default(), List::default());
        for place in 0..5 {
            links.push(&mut list, place);
        }
        links.touch(&mut list, 0);
        links.touch(&mut list, 3);
        links.remove(&mut list, 2);
        let mut order = Vec::new();
        while let Some(place) = list.first() {
            order.push(place);
            links.remove(&mut list, place);
        }
        assert_eq!(order, [1, 4, 0, 3]);
    }
}
