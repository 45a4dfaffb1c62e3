//! What comes from outside - a guest, a server, a file - changed at random. Nothing of it may end this program.
//!
//! Each target takes bytes and asserts what must hold whatever they are. Rounds and seed are fixed, so a run of the
//! ordinary tests is the same everywhere and takes seconds. `all_targets_for_longer` is run by `make test-all`, with a seed that
//! changes. To go on for longer yet:
//! ```text
//! BAKEOFF_FUZZ_ROUNDS=1000000 SEED=7 cargo test -p bakeoff --test it fuzz::targets -- --nocapture
//! ```
//! Bytes that fail are written to the target directory, and their place is named. Each find becomes a test of the room that
//! was wrong, and a file of `corpus/TARGET/`, which the target reads first and changes like its other inputs.

mod targets;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;

use record::prng::SplitMix64;
use rustix::time::{ClockId, clock_gettime};

/// Rounds of every target, where they are asked for.
const ROUNDS: &str = "BAKEOFF_FUZZ_ROUNDS";

/// Rounds of every target in `make test-all`.
const MANY_ROUNDS: u64 = 300_000;

/// CPU time that one input may take, in seconds.
const MOST_SECONDS: i64 = 2;

/// Memory that all targets may take together where they are run for longer, in KiB.
const MOST_KIB: u64 = 2 << 20;

/// Changes to one input at the most.
const CHANGES: u64 = 6;

/// Longest input, in bytes.
const LONGEST: usize = 64 << 10;

/// Numbers on the borders of what numbers are.
const NUMBERS: [&str; 14] = [
    "0",
    "-1",
    "1e999",
    "-1e308",
    "1e-320",
    "NaN",
    "null",
    "2147483648",
    "4294967296",
    "9007199254740993",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "0.30000000000000004",
];

/// What a target begins with.
struct Corpus {
    /// Good inputs, which are changed.
    inputs: Vec<Vec<u8>>,
    /// Words of the format, which are put anywhere.
    words: &'static [&'static str],
}

/// Gives a target changed inputs, so many as asked for.
fn fuzz(name: &str, rounds: u64, mut corpus: Corpus, target: impl Fn(&[u8])) {
    corpus.inputs.extend(kept(name));
    let rounds = asked_rounds().unwrap_or(rounds);
    let mut noise = Noise(SplitMix64::new(base::skip::seed(1)));
    for input in &corpus.inputs {
        run(name, input, &target);
    }
    for _ in 0..rounds {
        let input = corpus.change(&mut noise);
        run(name, &input, &target);
    }
}

/// What was found before.
fn kept(name: &str) -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/fuzz/corpus");
    let files = fs::read_dir(dir.join(name)).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = files.map(|file| file.path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

fn asked_rounds() -> Option<u64> {
    let text = std::env::var(ROUNDS).ok()?;
    Some(text.parse().expect("a whole number"))
}

#[test]
#[ignore = "fuzzes for minutes: make test-all"]
fn all_targets_for_longer() {
    let rounds = asked_rounds().unwrap_or(MANY_ROUNDS).to_string();
    let mut targets = Command::new("sh");
    targets.args(["-c", "ulimit -v $1; exec $0 fuzz::targets"]);
    targets.arg(std::env::current_exe().unwrap());
    targets.arg(MOST_KIB.to_string()).env(ROUNDS, rounds);
    assert!(targets.status().unwrap().success());
}

fn run(name: &str, input: &[u8], target: &impl Fn(&[u8])) {
    let cpu_seconds = || clock_gettime(ClockId::ThreadCPUTime).tv_sec;
    let timed = || {
        let begin = cpu_seconds();
        target(input);
        assert!(cpu_seconds() - begin <= MOST_SECONDS, "too slow");
    };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(timed)) {
        let kept = keep(name, input);
        let text = String::from_utf8_lossy(input);
        eprintln!("{name} fails on {}:\n{text}", kept.display());
        std::panic::resume_unwind(panic);
    }
}

fn keep(name: &str, input: &[u8]) -> PathBuf {
    let sha = record::hash::sha256(input);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{name}-{sha:.12}"));
    fs::write(&path, input).unwrap();
    path
}

impl Corpus {
    fn change(&self, noise: &mut Noise) -> Vec<u8> {
        let mut input = self.inputs[noise.below(self.inputs.len())].clone();
        for _ in 0..=noise.next() % CHANGES {
            self.change_once(&mut input, noise);
        }
        input.truncate(LONGEST);
        input
    }

    fn change_once(&self, input: &mut Vec<u8>, noise: &mut Noise) {
        let at = noise.below(input.len() + 1);
        let end = at + noise.below((input.len() - at).min(64) + 1);
        match noise.next() % 8 {
            0 if at < input.len() => input[at] ^= 1 << noise.below(8),
            1 if at < input.len() => input[at] = noise.next() as u8,
            2 => insert(
                input,
                at,
                self.words[noise.below(self.words.len())].as_bytes(),
            ),
            3 => replace_number(input, at, NUMBERS[noise.below(NUMBERS.len())]),
            4 => {
                input.drain(at..end);
            }
            5 => {
                let piece = input[at..end].to_vec();
                insert(input, at, &piece.repeat(1 + noise.below(8)));
            }
            6 => {
                let other = &self.inputs[noise.below(self.inputs.len())];
                let from = noise.below(other.len() + 1);
                let to = from + noise.below((other.len() - from).min(256) + 1);
                insert(input, at, &other[from..to]);
            }
            7 if noise.next().is_multiple_of(8) => input.truncate(at),
            _ => {}
        }
    }
}

fn insert(input: &mut Vec<u8>, at: usize, piece: &[u8]) {
    input.splice(at..at, piece.iter().copied());
}

/// Replaces the next number after `at`.
fn replace_number(input: &mut Vec<u8>, at: usize, number: &str) {
    let is_part = |byte: &u8| byte.is_ascii_digit() || b".-+eE".contains(byte);
    let Some(start) = input[at..].iter().position(u8::is_ascii_digit) else {
        return;
    };
    let start = at + start;
    let length = input[start..]
        .iter()
        .take_while(|byte| is_part(byte))
        .count();
    input.splice(start..start + length, number.bytes());
}

/// The same changes for the same seed.
struct Noise(SplitMix64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0.bits()
    }

    /// One of the numbers from 0 up to this one, which is left out.
    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}
