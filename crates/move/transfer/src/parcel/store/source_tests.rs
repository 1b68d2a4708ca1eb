// SPDX-License-Identifier: GPL-2.0-or-later
//! Content that is sealed when it is read, also again and in any order.

use super::*;
use protocol::session::parcel::{ParcelHead, ParcelWriter, body_beginning};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

/// Content in memory, which can be changed.
#[derive(Debug)]
struct Memory(Mutex<Vec<u8>>);

impl Stored for Memory {
    fn length(&self) -> u64 {
        self.0.lock().unwrap().len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let from = offset as usize;
        buffer.copy_from_slice(&self.0.lock().unwrap()[from..from + buffer.len()]);
        Ok(())
    }
}

fn chunks(is_encrypted: bool) -> Chunks {
    Chunks::new(ParcelHead::new(is_encrypted, [3; 32]), &[4; 32])
}

fn source(is_encrypted: bool, content: &[u8]) -> (Arc<Memory>, ParcelSource) {
    let inner = Arc::new(Memory(Mutex::new(content.to_vec())));
    let beginning = body_beginning(b"note").unwrap();
    let stored = Arc::clone(&inner) as Arc<dyn Stored>;
    (inner, ParcelSource::new(stored, beginning, chunks(is_encrypted), Whole::default()))
}

fn written(is_encrypted: bool, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = ParcelWriter::begin(chunks(is_encrypted), b"note", &mut out).unwrap();
    writer.push(content, &mut out);
    writer.finish(&mut out);
    out
}

#[test]
fn any_reads_give_what_a_writer_gives() {
    const LENGTHS: [usize; 9] = {
        let block = BLOCK as usize;
        // The note, its length and the hash have 40 bytes of the body.
        [0, 1, 65_496, 65_497, block - 41, block - 40, block - 39, block - 8, 2 * block + 77]
    };
    let mut random = Pcg64::seed_from_u64(5);
    for (length, is_encrypted) in
        LENGTHS.iter().flat_map(|length| [(*length, true), (*length, false)])
    {
        let mut content = vec![0; length];
        random.fill_bytes(&mut content);
        let expected = written(is_encrypted, &content);
        let (_, source) = source(is_encrypted, &content);
        assert_eq!(source.length(), expected.len() as u64, "{length}");
        for _ in 0..8 {
            let [one, other] = [(); 2].map(|()| random.next_u64() % (source.length() + 1));
            let (from, to) = (one.min(other), one.max(other));
            let mut read = vec![0; (to - from) as usize];
            source.read_at(from, &mut read).unwrap();
            assert!(read == expected[from as usize..to as usize], "{length}: {from} to {to}");
        }
        let mut read = vec![0; expected.len()];
        source.read_at(0, &mut read).unwrap();
        assert!(read == expected, "{length}");
        let hash = *blake3::hash(&content).as_bytes();
        assert_eq!(source.whole.get(), Some(&(length as u64, hash)));
    }
}

#[test]
fn changed_content_is_not_sealed_a_second_time() {
    for is_encrypted in [true, false] {
        let (inner, source) = source(is_encrypted, &vec![7; 2 * BLOCK as usize]);
        let mut byte = [0];
        source.read_at(100, &mut byte).unwrap();
        source.read_at(source.length() - 1, &mut byte).unwrap();
        source.read_at(100, &mut byte).unwrap();
        // The first block is in memory: the change shows when it is read again.
        inner.0.lock().unwrap()[50] ^= 1;
        source.read_at(source.length() - 1, &mut byte).unwrap();
        let error = source.read_at(100, &mut byte).unwrap_err().to_string();
        assert!(error.contains("changed"), "{error}");
        inner.0.lock().unwrap()[50] ^= 1;
        source.read_at(100, &mut byte).unwrap();
    }
}
