//! Random changes of input from outside: from a guest, a server or a file. No input may crash this program.
//!
//! Each target takes bytes and asserts what must hold for any bytes. Rounds and seed are fixed, so ordinary tests repeat exactly
//! and take seconds. `make test-all` runs `all_targets_for_longer` with a new seed each time. To fuzz even longer:
//! ```text
//! BAKEOFF_FUZZ_ROUNDS=1000000 SEED=7 cargo test -p bakeoff --test it fuzz::targets -- --nocapture
//! ```
//! Input that fails is written to the target directory, and its path is printed. For each such input, add a test to the crate
//! with the fault, and a file to `corpus/TARGET/`. The target reads that file first, and changes it like its other inputs.

mod targets;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;

use record::prng::SplitMix64;
use rustix::time::{ClockId, clock_gettime};

/// Environment variable for the rounds of every target.
const ROUNDS: &str = "BAKEOFF_FUZZ_ROUNDS";

/// Rounds of every target in `make test-all`.
const MANY_ROUNDS: u64 = 300_000;

/// Limit of CPU time for one input, in seconds.
const MAX_SECONDS: i64 = 2;

/// Limit of memory for all targets in `all_targets_for_longer`, in KiB.
const MAX_KIB: u64 = 2 << 20;

/// Maximum number of changes to one input.
const MAX_CHANGES: u64 = 6;

/// Maximum length of an input, in bytes.
const MAX_LENGTH: usize = 64 << 10;

/// Numbers at the limits of number types.
const LIMIT_NUMBERS: [&str; 14] = [
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

/// Start data of a target.
struct Corpus {
    /// Valid inputs, which are changed.
    inputs: Vec<Vec<u8>>,
    /// Words of the format, which are inserted anywhere.
    words: &'static [&'static str],
}

/// Runs a target on its inputs and then on changed ones, one a round.
fn fuzz(name: &str, rounds: u64, mut corpus: Corpus, target: impl Fn(&[u8])) {
    corpus.inputs.extend(stored_inputs(name));
    let rounds = rounds_from_env().unwrap_or(rounds);
    let mut noise = Noise(SplitMix64::new(base::skip::seed(1)));
    for input in &corpus.inputs {
        run(name, input, &target);
    }
    for _ in 0..rounds {
        let input = corpus.change(&mut noise);
        run(name, &input, &target);
    }
}

/// The inputs that failed earlier.
fn stored_inputs(name: &str) -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/fuzz/corpus");
    let files = fs::read_dir(dir.join(name)).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = files.map(|file| file.path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

fn rounds_from_env() -> Option<u64> {
    let text = std::env::var(ROUNDS).ok()?;
    Some(text.parse().expect("a whole number"))
}

#[test]
#[ignore = "fuzzes for minutes: make test-all"]
fn all_targets_for_longer() {
    let rounds = rounds_from_env().unwrap_or(MANY_ROUNDS).to_string();
    let mut targets = Command::new("sh");
    targets.args(["-c", "ulimit -v $1; exec $0 fuzz::targets"]);
    targets.arg(std::env::current_exe().unwrap());
    targets.arg(MAX_KIB.to_string()).env(ROUNDS, rounds);
    assert!(targets.status().unwrap().success());
}

fn run(name: &str, input: &[u8], target: &impl Fn(&[u8])) {
    let cpu_seconds = || clock_gettime(ClockId::ThreadCPUTime).tv_sec;
    let timed = || {
        let begin = cpu_seconds();
        target(input);
        assert!(cpu_seconds() - begin <= MAX_SECONDS, "too slow");
    };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(timed)) {
        let path = store_input(name, input);
        let text = String::from_utf8_lossy(input);
        eprintln!("{name} fails on {}:\n{text}", path.display());
        std::panic::resume_unwind(panic);
    }
}

fn store_input(name: &str, input: &[u8]) -> PathBuf {
    let sha = record::hash::sha256(input);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{name}-{sha:.12}"));
    fs::write(&path, input).unwrap();
    path
}

impl Corpus {
    fn change(&self, noise: &mut Noise) -> Vec<u8> {
        let mut input = self.inputs[noise.below(self.inputs.len())].clone();
        for _ in 0..=noise.next() % MAX_CHANGES {
            self.change_once(&mut input, noise);
        }
        input.truncate(MAX_LENGTH);
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
            3 => replace_number(input, at, LIMIT_NUMBERS[noise.below(LIMIT_NUMBERS.len())]),
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
    let Some(start) = input[at..].iter().position(u8::is_ascii_digit) else {
        return;
    };
    let start = at + start;
    let length = input[start..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit() || b".-+eE".contains(*byte))
        .count();
    input.splice(start..start + length, number.bytes());
}

/// Random numbers, which are the same for the same seed.
struct Noise(SplitMix64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0.bits()
    }

    /// A random number from 0 to `limit` - 1.
    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}
