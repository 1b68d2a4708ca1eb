// SPDX-License-Identifier: GPL-2.0-or-later
//! A stream hashed as it grows: BLAKE3 over groups of 256 KiB (docs/lsl.md, section 8).
//!
//! ```text
//!            root                 values: left of the last group, one for each bit set in the number of
//!          /      \               groups there (complete subtrees, largest first)
//!       [4 groups]  \             last: the group that contains the last byte, complete or not
//!       /  |  |  \   group 4
//! ```
//! The last group stays apart even if it is complete, because only the end of the stream tells whether its
//! value is merged as root. Source: the BLAKE3 paper, section 2.4; `blake3::hazmat`.

use crate::session::fields::Malformed;
use blake3::{
    Hasher,
    hazmat::{HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root},
};

/// Bytes that are verified together.
pub const GROUP: u64 = 256 << 10;
/// The longest stream in bytes: its positions fit into 1 KB.
pub const MAX_STREAM: u64 = 1 << 47;

/// A BLAKE3 chaining value, or the hash of a whole stream.
pub type Value = [u8; 32];

/// The proof that two ends mean the same beginning of a stream (rule 8.4).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Position {
    /// How many bytes.
    pub offset: u64,
    /// Their chaining values.
    pub values: Vec<Value>,
}

impl Position {
    /// Reads offset and values.
    ///
    /// # Errors
    /// The number of values is not that of the offset.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let wrong = Malformed("a position has the wrong number of values");
        let (offset, values) = bytes.split_first_chunk::<8>().ok_or(wrong)?;
        let values = values.chunks(32).map(TryInto::try_into).collect::<Result<_, _>>();
        let values = values.map_err(|_| wrong)?;
        let position = Self { offset: u64::from_be_bytes(*offset), values };
        if position.is_well_formed() { Ok(position) } else { Err(wrong) }
    }

    /// Offset and values.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.offset.to_be_bytes().into_iter().chain(self.values.iter().flatten().copied()).collect()
    }

    /// Whether the number of values is that of this offset.
    fn is_well_formed(&self) -> bool {
        let expected = match self.offset.checked_sub(1) {
            None => 0,
            Some(last) => (last / GROUP).count_ones() as usize + 1,
        };
        self.offset <= MAX_STREAM && self.values.len() == expected
    }
}

/// Everything up to some offset of a stream, as BLAKE3 knows it.
#[derive(Debug, Clone)]
pub struct Prefix {
    length: u64,
    subtrees: Vec<Value>,
    last: LastGroup,
}

#[derive(Debug, Clone)]
enum LastGroup {
    /// Its bytes were hashed here.
    Hashed(Box<Hasher>),
    /// It is complete, and only its value is known.
    Known(Value),
}

impl Default for Prefix {
    fn default() -> Self {
        Self { length: 0, subtrees: Vec::new(), last: LastGroup::at(0) }
    }
}

impl LastGroup {
    /// An empty group at this offset.
    fn at(offset: u64) -> Self {
        let mut hasher = Hasher::new();
        hasher.set_input_offset(offset);
        Self::Hashed(Box::new(hasher))
    }

    fn value(&self) -> Value {
        match self {
            Self::Hashed(hasher) => hasher.finalize_non_root(),
            Self::Known(value) => *value,
        }
    }
}

impl Prefix {
    /// Restores a tree from a position and the bytes of its last group, which are read again. `None` if the
    /// position is malformed or those bytes are not the ones that it proves.
    pub fn reopen(position: &Position, last_group: &[u8]) -> Option<Self> {
        if !position.is_well_formed() {
            return None;
        }
        let Some((value, subtrees)) = position.values.split_last() else {
            return Some(Self::default());
        };
        let group = group_start(position.offset - 1);
        if group + last_group.len() as u64 != position.offset {
            return None;
        }
        let mut last = Hasher::new();
        last.set_input_offset(group).update(last_group);
        if last.finalize_non_root() != *value {
            return None;
        }
        let (subtrees, last) = (subtrees.to_vec(), LastGroup::Hashed(Box::new(last)));
        Some(Self { length: position.offset, subtrees, last })
    }

    /// The same without the means to hash a last group on, which takes less room. `None` unless it ends a group, and
    /// not the first one, whose hash as a whole would be unknown.
    pub(super) fn snapshot(&self) -> Option<Self> {
        let ends_group = self.length.is_multiple_of(GROUP) && self.length > GROUP;
        ends_group.then(|| Self {
            length: self.length,
            subtrees: self.subtrees.clone(),
            last: LastGroup::Known(self.last.value()),
        })
    }

    /// How many bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Appends the next bytes.
    pub fn extend(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.length > 0 && self.length.is_multiple_of(GROUP) {
                self.close_last();
            }
            let room = GROUP - self.length % GROUP;
            let (now, rest) = bytes.split_at(bytes.len().min(room as usize));
            if let LastGroup::Hashed(hasher) = &mut self.last {
                hasher.update(now);
            }
            self.length += now.len() as u64;
            bytes = rest;
        }
    }

    /// Merges the complete last group into the subtrees, and begins another one.
    fn close_last(&mut self) {
        let mut value = self.last.value();
        // It merges with as many earlier subtrees of equal size as its index has trailing ones.
        let index = self.length / GROUP - 1;
        for _ in 0..index.trailing_ones() {
            let left = self.subtrees.pop().expect("a subtree for each bit");
            value = merge_subtrees_non_root(&left, &value, Mode::Hash);
        }
        self.subtrees.push(value);
        self.last = LastGroup::at(self.length);
    }

    /// The chaining value of the last group so far (rule 8.2). Not for an empty prefix.
    pub fn check(&self) -> Value {
        self.last.value()
    }

    /// The proof of it.
    pub fn position(&self) -> Position {
        if self.length == 0 {
            return Position::default();
        }
        let mut values = self.subtrees.clone();
        values.push(self.last.value());
        Position { offset: self.length, values }
    }

    /// The BLAKE3 hash of the stream if it ends here.
    pub fn root(&self) -> Value {
        let Some((first, others)) = self.subtrees.split_first() else {
            return match &self.last {
                LastGroup::Hashed(hasher) => hasher.finalize().into(),
                LastGroup::Known(_) => unreachable!("a known group has others before it"),
            };
        };
        let merged = others.iter().rfold(self.last.value(), |right, left| {
            merge_subtrees_non_root(left, &right, Mode::Hash)
        });
        merge_subtrees_root(first, &merged, Mode::Hash).into()
    }
}

/// The bytes of one group from its beginning, which are hashed as they come.
#[derive(Debug)]
pub(super) struct GroupBytes {
    bytes: Vec<u8>,
    hasher: Hasher,
}

impl GroupBytes {
    /// None yet of the group that begins at this offset.
    pub(super) fn at(group: u64) -> Self {
        let mut hasher = Hasher::new();
        hasher.set_input_offset(group);
        Self { bytes: Vec::new(), hasher }
    }

    pub(super) fn length(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Appends bytes if `check` is the chaining value with them.
    pub(super) fn extend(&mut self, bytes: &[u8], check: &Value) -> bool {
        let mut with = self.hasher.clone();
        with.update(bytes);
        let is_right = with.finalize_non_root() == *check;
        if is_right {
            self.hasher = with;
            self.bytes.extend_from_slice(bytes);
        }
        is_right
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// The chaining value of bytes that begin a group at this offset.
pub(super) fn value_of(group: u64, bytes: &[u8]) -> Value {
    let mut hasher = Hasher::new();
    hasher.set_input_offset(group).update(bytes);
    hasher.finalize_non_root()
}

/// Where the group of this byte begins.
pub fn group_start(offset: u64) -> u64 {
    offset - offset % GROUP
}

/// Where the group of this byte ends.
pub fn group_end(offset: u64) -> u64 {
    group_start(offset) + GROUP
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    fn bytes(length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        Pcg64Mcg::seed_from_u64(length as u64).fill_bytes(&mut bytes);
        bytes
    }

    #[test]
    fn root_is_the_blake3_hash_at_every_number_of_groups() {
        const SIZE: usize = GROUP as usize;
        let all = bytes(17 * SIZE + 5);
        let lengths = (0..=17).flat_map(|n| [n * SIZE, n * SIZE + 1, (n * SIZE).saturating_sub(1)]);
        for length in lengths {
            let mut prefix = Prefix::default();
            // Pieces that neither divide a group nor a chunk.
            all[..length].chunks(100_003).for_each(|piece| prefix.extend(piece));
            let hash: Value = blake3::hash(&all[..length]).into();
            assert_eq!(prefix.root(), hash, "{length} bytes");
            let position = prefix.position();
            assert!(position.is_well_formed(), "{length}");
            let last_group = &all[group_start(length.saturating_sub(1) as u64) as usize..length];
            let reopened = Prefix::reopen(&position, last_group).expect("the same bytes");
            for mut resumed in [Some(reopened), prefix.snapshot()].into_iter().flatten() {
                assert_eq!(resumed.root(), hash);
                resumed.extend(&all[length..]);
                assert_eq!(resumed.root(), Value::from(blake3::hash(&all)), "from {length}");
            }
            if let [first, ..] = *last_group {
                let other = [&[!first], &last_group[1..]].concat();
                assert!(Prefix::reopen(&position, &other).is_none());
                assert!(Prefix::reopen(&position, &last_group[1..]).is_none());
            }
        }
    }

    #[test]
    fn the_longest_stream_has_a_position_under_1_kb() {
        let position = Position { offset: MAX_STREAM, values: vec![[0; 32]; 30] };
        assert!(position.is_well_formed());
        let most = (0..MAX_STREAM / GROUP).rev().take(1000).map(u64::count_ones).max();
        assert_eq!(most, Some(29), "and one for the last group");
        let beyond = Position { offset: MAX_STREAM + 1, values: vec![[0; 32]; 2] };
        assert!(!beyond.is_well_formed());
    }

    #[test]
    fn check_is_the_value_of_the_group_so_far() {
        let all = bytes(GROUP as usize + 3000);
        let mut prefix = Prefix::default();
        prefix.extend(&all);
        assert_eq!(prefix.check(), value_of(GROUP, &all[GROUP as usize..]));
        assert_eq!(prefix.position().values[0], value_of(0, &all[..GROUP as usize]));
    }
}
