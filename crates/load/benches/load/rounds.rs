//! Runs rounds of all clients in random order, then extra runs whose tools would disturb a measured
//! one.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use record::prng::SplitMix64;

use crate::child::Runner;
use crate::contest::{Contest, Entry, SCENES, Scene};
use crate::participants::Participants;
use crate::peers::{self, Count, Tool};

/// Extent of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Effort {
    pub(crate) rounds: u32,
    /// Whether to include long runs.
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

pub(crate) fn run_all(
    runner: &Runner,
    participants: &Participants,
    effort: Effort,
) -> Result<Vec<Contest>> {
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
        let mut contest = run_contest(runner, participants, scene, effort.rounds, &mut prng)?;
        for entry in &mut contest.entries {
            entry.calls = count_calls(runner, participants, scene, entry.tool)?;
            if effort.long && number == 0 {
                entry.instructions = count_instructions(runner, participants, scene, entry.tool)?;
            }
        }
        contests.push(contest);
    }
    Ok(contests)
}

fn run_contest(
    runner: &Runner,
    participants: &Participants,
    scene: &Scene,
    rounds: u32,
    prng: &mut SplitMix64,
) -> Result<Contest> {
    let here = scene
        .tools
        .iter()
        .filter(|tool| participants.command_line(**tool, scene).is_some());
    let mut entries: Vec<Entry> = here.map(|tool| Entry::new(*tool)).collect();
    for _ in 0..rounds {
        let mut order: Vec<usize> = (0..entries.len()).collect();
        prng.shuffle(&mut order);
        for index in order {
            let entry = &mut entries[index];
            let words = participants
                .command_line(entry.tool, scene)
                .expect("only installed clients take part");
            let usage = runner.run_on(scene.cpu, &words, &mut || {})?;
            let count = read(entry.tool, &usage.stdout)?;
            let per_request_us = |time: Duration| time.as_secs_f64() * 1e6 / count.requests as f64;
            entry.cpu_us.push(per_request_us(usage.cpu));
            entry.kernel_us.push(per_request_us(usage.kernel));
            entry.per_s.push(count.per_s);
            entry.peak_kib = entry.peak_kib.max(usage.peak_kib);
            entry.failed += count.failed;
        }
    }
    Ok(Contest {
        scene: *scene,
        entries,
    })
}

/// Reads a summary, which must have requests.
fn read(tool: Tool, stdout: &str) -> Result<Count> {
    let count = tool.count(stdout)?;
    ensure!(
        count.requests > 0,
        "client did nothing: {} printed {stdout:?}",
        tool.name()
    );
    Ok(count)
}

/// System calls per request, counted by `perf` with little cost, or else by `strace`, which slows
/// the client down.
fn count_calls(
    runner: &Runner,
    participants: &Participants,
    scene: &Scene,
    tool: Tool,
) -> Result<Option<f64>> {
    let place = participants.server.file("calls");
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
    let words = participants
        .command_line(tool, scene)
        .expect("only installed clients take part");
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
    let usage = runner.run_on(scene.cpu, &all, &mut || {})?;
    let requests = read(tool, &usage.stdout)?.requests;
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

/// Instructions in user space per request, from two runs of different length, so that start-up
/// cancels out. `None` if valgrind cannot run the client.
fn count_instructions(
    runner: &Runner,
    participants: &Participants,
    scene: &Scene,
    tool: Tool,
) -> Result<Option<f64>> {
    // Valgrind was not tried with io_uring, whose rings it must know, nor with oha.
    let fit = matches!(tool, Tool::Epoll | Tool::Wrk | Tool::H2load | Tool::Ab);
    let place = participants.server.file("instructions");
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
        let words = participants
            .command_line(tool, &scene)
            .expect("only installed clients take part");
        let all = before.iter().map(|word| (*word).to_owned()).chain(words);
        let Ok(usage) = runner.run(&all.collect::<Vec<_>>()) else {
            return Ok(None);
        };
        let requests = read(tool, &usage.stdout)?.requests;
        let text = std::fs::read_to_string(&place)?;
        points.push((requests as f64, peers::after::<f64>(&text, "Collected :")?));
    }
    let [(few, less), (many, more)] = points[..] else {
        unreachable!("two runs give two points");
    };
    Ok((many > few).then(|| (more - less) / (many - few)))
}
