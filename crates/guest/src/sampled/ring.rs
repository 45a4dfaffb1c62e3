//! The ring of one event: its records, and the kernel's part of their call paths (`perf_event_open(2)`).

use perf_event::Sampler;
use perf_event::data::Record;

/// Markers in a call path where the kernel's part or the program's begins (`include/uapi/linux/perf_event.h`).
const CONTEXT_KERNEL: u64 = -128_i64 as u64;
const FIRST_CONTEXT: u64 = -4095_i64 as u64;

/// One event on one CPU, with its ring.
pub(super) struct Ring(pub(super) Sampler);

impl std::fmt::Debug for Ring {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Ring({})", self.0.as_counter().id())
    }
}

impl Ring {
    /// Takes all records; returns how many of them cannot be read.
    pub(super) fn each_record(&mut self, mut handle: impl FnMut(Record<'_>)) -> u64 {
        let mut unread = 0;
        while let Some(record) = self.0.next_record() {
            match record.parse_record() {
                Ok(parsed) => handle(parsed),
                Err(_) => unread += 1,
            }
        }
        unread
    }
}

/// Addresses of the kernel in a call path, innermost first.
pub(super) fn kernel_part(callchain: &[u64]) -> Box<[u64]> {
    let addresses = callchain.iter().copied();
    addresses
        .skip_while(|address| *address != CONTEXT_KERNEL)
        .skip(1)
        .take_while(|address| *address < FIRST_CONTEXT)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_part_of_a_call_path_ends_where_the_programs_begins() {
        let user = -512_i64 as u64;
        let path = [CONTEXT_KERNEL, 3, 2, 1, user, 7, 8];
        assert_eq!(*kernel_part(&path), [3, 2, 1]);
        assert!(kernel_part(&[user, 7, 8]).is_empty());
        assert!(kernel_part(&[]).is_empty());
    }
}
