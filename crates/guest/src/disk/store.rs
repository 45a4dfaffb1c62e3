//! The content of a drive: kept in memory where it is not zero, up to a limit.

use std::collections::BTreeMap;

/// Memory is allocated in pieces of this size.
const PIECE: usize = 16 << 10;

/// A drive's content; what was never written is zero.
#[derive(Debug)]
pub(crate) struct Store {
    pieces: BTreeMap<u64, Box<[u8]>>,
    /// Most pieces.
    most: usize,
    size: u64,
}

/// Why nothing was read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Beyond the end of the drive.
    Beyond,
    /// The plan's limit of memory is reached; a part may have been written.
    Full,
}

impl Store {
    /// The store of a drive of `size` bytes, with at most `limit` bytes of memory.
    pub(crate) fn new(size: u64, limit: u64) -> Self {
        Self {
            pieces: BTreeMap::new(),
            most: (limit / PIECE as u64) as usize,
            size,
        }
    }

    pub(crate) fn read(&self, start: u64, into: &mut [u8]) -> Result<(), Refusal> {
        self.check(start, into.len())?;
        for (piece, offset, range) in parts(start, into.len()) {
            let into = &mut into[range];
            match self.pieces.get(&piece) {
                Some(bytes) => into.copy_from_slice(&bytes[offset..offset + into.len()]),
                None => into.fill(0),
            }
        }
        Ok(())
    }

    pub(crate) fn write(&mut self, start: u64, bytes: &[u8]) -> Result<(), Refusal> {
        self.check(start, bytes.len())?;
        for (piece, offset, range) in parts(start, bytes.len()) {
            let bytes = &bytes[range];
            if let Some(kept) = self.pieces.get_mut(&piece) {
                kept[offset..offset + bytes.len()].copy_from_slice(bytes);
                continue;
            }
            if bytes.iter().all(|byte| *byte == 0) {
                continue;
            }
            if self.pieces.len() >= self.most {
                return Err(Refusal::Full);
            }
            let mut kept = vec![0; PIECE].into_boxed_slice();
            kept[offset..offset + bytes.len()].copy_from_slice(bytes);
            self.pieces.insert(piece, kept);
        }
        Ok(())
    }

    /// Memory in use.
    pub(crate) fn kept_bytes(&self) -> u64 {
        (self.pieces.len() * PIECE) as u64
    }

    fn check(&self, start: u64, length: usize) -> Result<(), Refusal> {
        let end = start.checked_add(length as u64);
        end.filter(|end| *end <= self.size)
            .map(|_| ())
            .ok_or(Refusal::Beyond)
    }
}

/// The pieces that an extent touches: number, offset in the piece, and range of the extent's bytes.
fn parts(start: u64, length: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = start + done as u64;
        let offset = (at % PIECE as u64) as usize;
        let range = done..length.min(done + PIECE - offset);
        done = range.end;
        (!range.is_empty()).then_some((at / PIECE as u64, offset, range))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1_000_000_000;

    fn read(store: &Store, start: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![9; length];
        store.read(start, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn what_is_written_is_read_back_across_pieces() {
        let mut store = Store::new(80 * GB, 1 << 20);
        let bytes: Vec<u8> = (0..100_000u32).map(|n| (n % 251) as u8 + 1).collect();
        let start = 40 * GB + 12_345;
        store.write(start, &bytes).unwrap();
        assert_eq!(read(&store, start, bytes.len()), bytes);
        assert_eq!(read(&store, start + 5000, 40_000), bytes[5000..45_000]);
        // Around it nothing was written.
        assert_eq!(read(&store, start - 3, 5), [0, 0, 0, 1, 2]);
        let end = start + bytes.len() as u64;
        assert_eq!(read(&store, end - 1, 3), [*bytes.last().unwrap(), 0, 0]);
        store.write(start + 50_000, &[7; 3]).unwrap();
        assert_eq!(read(&store, start + 50_000, 3), [7; 3]);
        assert_eq!(read(&store, start + 49_999, 1), bytes[49_999..50_000]);
    }

    #[test]
    fn zeros_take_no_memory_and_undo_what_was_there() {
        let mut store = Store::new(GB, 1 << 20);
        store.write(0, &vec![0; 10 << 20]).unwrap();
        assert_eq!(store.kept_bytes(), 0);
        store.write(5000, b"text").unwrap();
        assert_eq!(store.kept_bytes(), PIECE as u64);
        store.write(5001, &[0; 2]).unwrap();
        assert_eq!(read(&store, 5000, 4), b"t\0\0t");
    }

    #[test]
    fn neither_the_limit_nor_the_end_is_passed() {
        let mut store = Store::new(GB, 4 * PIECE as u64);
        store.write(0, &vec![1; 4 * PIECE]).unwrap();
        assert_eq!(store.write(500_000_000, &[1]), Err(Refusal::Full));
        // What is there can still be written anew.
        store.write(PIECE as u64, &[2; PIECE]).unwrap();
        assert_eq!(read(&store, 500_000_000, 1), [0]);
        assert_eq!(store.write(GB - 1, &[1; 2]), Err(Refusal::Beyond));
        assert_eq!(store.read(u64::MAX, &mut [0; 2]), Err(Refusal::Beyond));
        store.read(GB - 2, &mut [0; 2]).unwrap();
    }
}
