// SPDX-License-Identifier: GPL-2.0-or-later
//! Blocks of striped streams on malformed input: a bounded number of mutations of the files in `corpus/`, the
//! same for the same seed. `LONGHAUL_SEED` replays a run, `LONGHAUL_FUZZ_INPUTS` makes it longer.

use longhaul_relay::stripes::blocks as stripes;

#[test]
fn blocks_of_any_bytes_are_refused_or_read_back() {
    testkit::fuzz::run("blocks", 200_000, blocks);
}

/// Blocks that are taken are those that are written again, each behind the one before it, however
/// their bytes come.
fn blocks(input: &[u8]) -> bool {
    let whole = in_blocks(input, usize::MAX / 2);
    for part in [1, 3, 17] {
        assert_eq!(in_blocks(input, part), whole, "in parts of {part}");
    }
    let Some((blocks, total)) = whole else { return false };
    let (mut again, mut at) = (Vec::new(), 0);
    for (offset, data) in &blocks {
        assert!(*offset >= at && !data.is_empty() && data.len() <= stripes::MAX_BLOCK_DATA);
        at = offset + data.len() as u64;
        stripes::put_head(*offset, data.len() as u32, &mut again);
        again.extend_from_slice(data);
    }
    assert!(total >= at);
    stripes::put_end(total, &mut again);
    assert!(input.starts_with(&again), "what is read is what was written");
    true
}

/// A piece of a body and where it belongs.
type Block = (u64, Vec<u8>);

/// A body's blocks and its length, parsed from `part` bytes at a time. `None` if it does not end.
fn in_blocks(input: &[u8], part: usize) -> Option<(Vec<Block>, u64)> {
    let (mut reader, mut blocks) = (stripes::Blocks::default(), Vec::<Block>::new());
    let (mut at, mut come, mut begins) = (0, 0, false);
    loop {
        let (head, next) = reader.next(&input[at..come]).ok()?;
        at += head;
        begins |= head > 0;
        match next {
            stripes::Next::End(total) => return Some((blocks, total)),
            stripes::Next::Data { offset, length } if come > at => {
                let taken = (length as usize).min(come - at);
                let data = &input[at..at + taken];
                match blocks.last_mut() {
                    Some((_, before)) if !begins => before.extend_from_slice(data),
                    _ => blocks.push((offset, data.to_vec())),
                }
                begins = false;
                reader.moved(taken as u32);
                at += taken;
            }
            _ if come == input.len() => return None,
            _ => come = input.len().min(come.saturating_add(part)),
        }
    }
}
