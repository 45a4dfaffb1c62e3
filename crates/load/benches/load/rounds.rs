//! The runs: rounds of all clients in random order, then the extra runs that would disturb a
//! measured one.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use record::prng::SplitMix64;

use crate::child::Cage;
use crate::contest::{Contest, Entry, SCENES, Scene};
use crate::field::Field;
use crate::peers::{self, Count, Tool};

/// How much is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Effort {
    pub(crate) rounds: u32,
    /// Whether the runs of many seconds are done.
    pub(crate) long: bool,
}

impl Effort {
    pub(crate) const FULL: Self = Self {
        rounds: 10,
        long: true,
    };
    pub(crate) const QUICK: Self = Self {
        rounds: 1,
        long: false,
    };
}

pub(crate) fn run_all(cage: &Cage, field: &Field, effort: Effort) -> Result<Vec<Contest>> {
    let mut prng = SplitMix64::new(1);
    let mut contests = Vec::new();
    for (number, scene) in SCENES.iter().enumerate() {
        eprintln!(
            "{}/{}: {}, {} rounds",
            number + 1,
            SCENES.len(),
            scene.title,
            effort.rounds
        );
        let mut contest = hold(cage, field, scene, effort.rounds, &mut prng)?;
        for entry in &mut contest.entries {
            entry.calls = count_calls(cage, field, scene, entry.tool)?;
            if effort.long && number == 0 {
                entry.instructions = count_instructions(cage, field, scene, entry.tool)?;
            }
        }
        contests.push(contest);
    }
    Ok(contests)
}

fn hold(
    cage: &Cage,
    field: &Field,
    scene: &Scene,
    rounds: u32,
    prng: &mut SplitMix64,
) -> Result<Contest> {
    let here = scene
        .tools
        .iter()
        .filter(|tool| field.words(**tool, scene).is_some());
    let mut entries: Vec<Entry> = here.map(|tool| Entry::new(*tool)).collect();
    for _ in 0..rounds {
        let mut order: Vec<usize> = (0..entries.len()).collect();
        prng.shuffle(&mut order);
        for index in order {
            let entry = &mut entries[index];
            let words = field
                .words(entry.tool, scene)
                .expect("only clients that are here take part");
            let spent = cage.run_on(scene.cpu, &words, &mut || {})?;
            let count = read(entry.tool, &spent.said)?;
            let per_request_us = |time: Duration| time.as_secs_f64() * 1e6 / count.requests as f64;
            entry.cpu_us.push(per_request_us(spent.cpu));
            entry.kernel_us.push(per_request_us(spent.kernel));
            entry.per_s.push(count.per_s);
            entry.peak_kib = entry.peak_kib.max(spent.peak_kib);
            entry.failed += count.failed;
        }
    }
    Ok(Contest {
        scene: *scene,
        entries,
    })
}

/// Reads a summary that must tell of requests.
fn read(tool: Tool, said: &str) -> Result<Count> {
    let count = tool.count(said)?;
    ensure!(
        count.requests > 0,
        "client did nothing: {} said {said:?}",
        tool.name()
    );
    Ok(count)
}

/// System calls per request: counted by the kernel's own trace point where `perf` may, which costs
/// the client little, else by `strace`, which slows it.
fn count_calls(cage: &Cage, field: &Field, scene: &Scene, tool: Tool) -> Result<Option<f64>> {
    let place = field.server.file("calls");
    let log = place.to_str().context("temporary path is not UTF-8")?;
    let with_perf = [
        "perf",
        "stat",
        "-x",
        ",",
        "-e",
        "raw_syscalls:sys_enter",
        "-o",
        log,
        "--",
    ];
    let with_strace = ["strace", "-f", "-c", "-q", "-o", log, "--"];
    let words = field
        .words(tool, scene)
        .expect("only clients that are here take part");
    let (before, is_perf) = match (works(&with_perf), works(&with_strace)) {
        (true, _) => (&with_perf[..], true),
        (false, true) => (&with_strace[..], false),
        (false, false) => return Ok(None),
    };
    let all = before
        .iter()
        .map(|word| (*word).to_owned())
        .chain(words)
        .collect::<Vec<_>>();
    let spent = cage.run_on(scene.cpu, &all, &mut || {})?;
    let requests = read(tool, &spent.said)?.requests;
    let text = std::fs::read_to_string(&place)?;
    let calls = if is_perf {
        perf_total(&text)
    } else {
        strace_total(&text)
    };
    Ok(calls.map(|calls| calls as f64 / requests as f64))
}

fn works(before: &[&str]) -> bool {
    let run = Command::new(before[0])
        .args(&before[1..])
        .arg("true")
        .output();
    run.is_ok_and(|run| run.status.success())
}

/// The count in `perf stat -x ,`.
pub(crate) fn perf_total(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find(|line| line.contains("raw_syscalls:sys_enter"))?;
    line.split(',').next()?.parse().ok()
}

/// The count in the last line of `strace -c`: share, seconds, microseconds per call, calls, perhaps
/// errors.
pub(crate) fn strace_total(text: &str) -> Option<u64> {
    let line = text.lines().rfind(|line| line.ends_with(" total"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

/// Instructions in user space per request, from two runs of different length so that starting up
/// cancels out. Clients that valgrind cannot run, or whose thousands of requests it stretches too
/// far, have none.
fn count_instructions(
    cage: &Cage,
    field: &Field,
    scene: &Scene,
    tool: Tool,
) -> Result<Option<f64>> {
    // Not tried: io_uring, whose rings valgrind must know of, and oha.
    let fit = matches!(tool, Tool::Epoll | Tool::Wrk | Tool::H2load | Tool::Ab);
    let place = field.server.file("instructions");
    let log = format!("--log-file={}", place.display());
    let before = [
        "valgrind",
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
        log.as_str(),
    ];
    if !fit || !works(&before) {
        return Ok(None);
    }
    let mut points = Vec::new();
    for seconds in [2, 5] {
        let scene = Scene { seconds, ..*scene };
        let words = field
            .words(tool, &scene)
            .expect("only clients that are here take part");
        let all = before.iter().map(|word| (*word).to_owned()).chain(words);
        let Ok(spent) = cage.run(&all.collect::<Vec<_>>()) else {
            return Ok(None);
        };
        let requests = read(tool, &spent.said)?.requests;
        let text = std::fs::read_to_string(&place)?;
        points.push((requests as f64, peers::after::<f64>(&text, "Collected :")?));
    }
    let [(few, less), (many, more)] = points[..] else {
        unreachable!("two runs give two points");
    };
    Ok((many > few).then(|| (more - less) / (many - few)))
}
