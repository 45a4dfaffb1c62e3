//! Each piece of work runs many times, and the quickest counts: whatever disturbs it makes it slower.

use std::arch::asm;
use std::hint::black_box;
use std::time::{Duration, Instant};

use super::StringCost;

/// Bytes that fit into the nearest cache of any x86-64 CPU, twice.
const CACHED: usize = 8 << 10;

/// Bytes beyond all caches but the largest servers'.
const IN_MEMORY: usize = 256 << 20;

/// A copy that is nothing but its start.
const SHORT: usize = 1;

const TRIES: usize = 30;

/// Rounds of a chain in a try.
const ROUNDS: usize = 64;

/// Measures for about a second.
pub(super) fn measure() -> StringCost {
    let chain = Chain::new();
    let instruction_ns = quickest(|| {
        for _ in 0..ROUNDS {
            black_box(plain(black_box(&chain)));
        }
    }) / (ROUNDS * PLAIN_INSTRUCTIONS * chain.0.len()) as f64;
    let (from, mut to) = (vec![1_u8; IN_MEMORY], vec![2_u8; IN_MEMORY]);
    let mut copy = |bytes: usize, times: usize| {
        let whole = quickest(|| {
            for _ in 0..times {
                copy(black_box(&from[..bytes]), black_box(&mut to[..bytes]));
            }
        });
        whole / times as f64
    };
    let (short, cached) = (copy(SHORT, 4096), copy(CACHED, 256));
    let memory = copy(IN_MEMORY, 1);
    StringCost {
        instruction_ns,
        cached_byte: (cached - short) / (CACHED - SHORT) as f64 / instruction_ns,
        memory_byte: memory / IN_MEMORY as f64 / instruction_ns,
        start: short / instruction_ns,
    }
}

/// Nanoseconds of the quickest try.
fn quickest(mut work: impl FnMut()) -> f64 {
    let tries = (0..TRIES).map(|_| {
        let began = Instant::now();
        work();
        began.elapsed()
    });
    tries.min().unwrap_or(Duration::ZERO).as_nanos() as f64
}

/// Places of a table, each with the next one to look at: all of them, one after the other.
struct Chain(Vec<u64>);

impl Chain {
    fn new() -> Self {
        Self((0..LINKS).map(|at| (5 * at + 1) % LINKS).collect())
    }
}

const LINKS: u64 = 1 << 10;

/// Instructions of a link.
const PLAIN_INSTRUCTIONS: usize = 5;

/// Loads that wait for each other, about an instruction a cycle, as code of servers and kernels runs.
#[expect(unsafe_code, reason = "a loop of known instructions over a slice")]
fn plain(chain: &Chain) -> u64 {
    let chain = &chain.0;
    let mut sum: u64 = 0;
    // SAFETY: each link is a place in the table, and one is taken for each that the table has.
    unsafe {
        asm!(
            "2:",
            "mov {at}, qword ptr [{chain} + 8*{at}]",
            "xor {sum}, {at}",
            "add {sum}, 3",
            "sub {left}, 1",
            "jne 2b",
            at = inout(reg) 0_u64 => _,
            sum = inout(reg) sum,
            chain = in(reg) chain.as_ptr(),
            left = inout(reg) chain.len() => _,
            options(nostack, readonly),
        );
    }
    sum
}

/// Copies by one string instruction.
#[expect(unsafe_code, reason = "the instruction that is measured")]
fn copy(from: &[u8], to: &mut [u8]) {
    debug_assert_eq!(from.len(), to.len());
    // SAFETY: it copies as many bytes as either slice has, forwards, as the ABI has the direction flag.
    unsafe {
        asm!(
            "rep movsb",
            inout("rcx") to.len() => _,
            inout("rsi") from.as_ptr() => _,
            inout("rdi") to.as_mut_ptr() => _,
            options(nostack, preserves_flags),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_instruction_copies_what_it_is_asked_for() {
        let (from, mut to) = ([1_u8, 2, 3, 4], [0_u8; 4]);
        copy(&from, &mut to);
        assert_eq!(to, from);
        // 0 -> 1 -> 0: each is added to the sum without carry, and 3 is added.
        assert_eq!(plain(&Chain(vec![1, 0])), (1 + 3) + 3);
        let mut seen = Chain::new().0;
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..LINKS), "each link is looked at once");
    }
}
