//! Measurements of bakeoff's client alone: send delay, a stall of the server, slow lines, new
//! connections, memory over time.

use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use record::load::LoadResult;

use crate::child::{CLIENT_CPU, Runner, Usage};
use crate::client::{Engine, Part};
use crate::contest::{File, SCENES, Scene};
use crate::participants::Participants;
use crate::peers::Tool;
use crate::ratio;
use crate::rounds::Effort;
use crate::server::Server;

/// Rate of the open loop: keeps the client's core below 70 % busy.
const RATE_PER_S: f64 = 10_000.0;

/// Rate of the stall test, in which the server is stopped once.
const STALL_RATE_PER_S: f64 = 1000.0;
const STALL_SECONDS: u64 = 10;
const STALL_AFTER: Duration = Duration::from_secs(4);
const STALL: Duration = Duration::from_secs(1);

/// Speeds of three generations of modems.
const MODEMS: [u32; 3] = [28_800, 33_600, 56_000];
const SLOW_CLIENTS: u32 = 10_000;

const SOURCES: u8 = 16;

pub(crate) struct Bar {
    pub(crate) lateness: Vec<Lateness>,
    pub(crate) opening: Vec<Opening>,
    pub(crate) stall: Option<Stall>,
    pub(crate) slow: Option<Slow>,
    pub(crate) memory: Option<Memory>,
}

/// Send delay of an open loop.
pub(crate) struct Lateness {
    pub(crate) engine: Tool,
    /// One CPU, or both, where it may busy-wait.
    pub(crate) cpus: &'static str,
    /// Share of the window in which the client's thread was busy.
    pub(crate) busy: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) max_us: f64,
}

/// Connections per second of client CPU.
pub(crate) struct Opening {
    pub(crate) engine: Tool,
    pub(crate) per_cpu_s: f64,
    /// Microseconds of a connection's CPU spent in the kernel.
    pub(crate) kernel_us: f64,
    pub(crate) failed: u64,
}

/// Latencies in seconds at the 99th percentile and at most.
pub(crate) struct Stall {
    /// Theoretical values: requests that are due in the stall wait for its end.
    pub(crate) analytic: (f64, f64),
    pub(crate) bakeoff: (f64, f64),
    pub(crate) wrk: Option<(f64, f64)>,
    pub(crate) oha: Option<(f64, f64)>,
}

/// Slow lines: relative error of their speed, and cost.
pub(crate) struct Slow {
    pub(crate) clients: u32,
    pub(crate) answers: u64,
    pub(crate) failed: u64,
    pub(crate) p50_error: f64,
    pub(crate) p99_error: f64,
    pub(crate) max_error: f64,
    pub(crate) bytes_per_client: f64,
    pub(crate) cpu_s: f64,
}

/// Resident memory after a quarter of a run and at its end.
pub(crate) struct Memory {
    pub(crate) seconds: u64,
    pub(crate) early_kib: u64,
    pub(crate) last_kib: u64,
}

pub(crate) fn measure(runner: &Runner, participants: &Participants, effort: Effort) -> Result<Bar> {
    eprintln!(
        "open loop, new connections{}",
        if effort.long {
            ", stall, slow lines"
        } else {
            ""
        }
    );
    let engines = [Engine::Epoll, Engine::Uring];
    let mut lateness = Vec::new();
    for (engine, cpus) in engines
        .into_iter()
        .flat_map(|each| [(each, CLIENT_CPU), (each, "0,1")])
    {
        lateness.push(open_loop(runner, participants, engine, cpus)?);
    }
    let mut opening = Vec::new();
    for engine in engines {
        opening.push(open_connections(
            runner,
            participants,
            engine,
            effort.rounds,
        )?);
    }
    let (mut stall_seen, mut slow_seen, mut memory) = (None, None, None);
    if effort.long {
        stall_seen = Some(stall(runner, participants)?);
        slow_seen = Some(slow(runner, participants)?);
        memory = Some(stay(runner, participants)?);
    }
    Ok(Bar {
        lateness,
        opening,
        stall: stall_seen,
        slow: slow_seen,
        memory,
    })
}

fn result(usage: &Usage) -> Result<LoadResult> {
    serde_json::from_str(&usage.stdout).context("unexpected output of the client")
}

fn tool(engine: Engine) -> Tool {
    match engine {
        Engine::Epoll => Tool::Epoll,
        Engine::Uring => Tool::Uring,
    }
}

fn open_loop(
    runner: &Runner,
    participants: &Participants,
    engine: Engine,
    cpus: &'static str,
) -> Result<Lateness> {
    let part = Part {
        rate_per_s: Some(RATE_PER_S),
        warmup_ms: 200,
        window_ms: 2000,
        ..participants.part(&SCENES[0], engine)
    };
    let result = result(&runner.run_on(cpus, &participants.client_command(&part), &mut || {})?)?;
    let cpu_ns = result.client_cpu_ns.iter().sum::<u64>();
    let us = |ns: u64| ns as f64 / 1e3;
    Ok(Lateness {
        engine: tool(engine),
        cpus,
        busy: cpu_ns as f64 / result.window_ns as f64,
        p50_us: us(result.lateness.quantile_ns(0.5)),
        p99_us: us(result.lateness.quantile_ns(0.99)),
        max_us: us(result.lateness.max_ns()),
    })
}

fn open_connections(
    runner: &Runner,
    participants: &Participants,
    engine: Engine,
    rounds: u32,
) -> Result<Opening> {
    let part = Part {
        keep_alive: false,
        sources: SOURCES,
        ..participants.part(&SCENES[0], engine)
    };
    let (mut rates, mut kernel_us, mut failed) = (Vec::new(), Vec::new(), 0);
    for _ in 0..rounds.min(3) {
        let usage = runner.run(&participants.client_command(&part))?;
        let result = result(&usage)?;
        let opened = result.connections_opened as f64;
        rates.push(opened / usage.cpu.as_secs_f64());
        kernel_us.push(usage.kernel.as_secs_f64() * 1e6 / opened);
        failed += result.fault_count();
    }
    Ok(Opening {
        engine: tool(engine),
        per_cpu_s: ratio::median(&rates).middle,
        kernel_us: ratio::median(&kernel_us).middle,
        failed,
    })
}

/// The server is stopped for a second in ten. At a constant rate, requests due in that second wait
/// for its end, so the quantile `q` of latency is `stall - (1 - q) * run`.
fn stall(runner: &Runner, participants: &Participants) -> Result<Stall> {
    let part = Part {
        rate_per_s: Some(STALL_RATE_PER_S),
        window_ms: STALL_SECONDS * 1000,
        ..participants.part(&SCENES[0], Engine::Uring)
    };
    let (usage, freeze_s) = frozen(runner, participants, &participants.client_command(&part))?;
    let result = result(&usage)?;
    let seconds = |ns: u64| ns as f64 / 1e9;
    let bakeoff = (
        seconds(result.latency.quantile_ns(0.99)),
        seconds(result.latency.max_ns()),
    );
    let wrk = participants
        .program(Tool::Wrk)
        .map(|command| -> Result<(f64, f64)> {
            let line = format!(
                "{command} -t1 -c64 -d{STALL_SECONDS}s --latency {}",
                participants.url(File::Tiny)
            );
            let stdout = frozen(runner, participants, &words(&line))?.0.stdout;
            wrk_tail(&stdout)
                .with_context(|| format!("cannot read the latencies of wrk: {stdout:?}"))
        });
    let oha = participants.program(Tool::Oha).map(|command| -> Result<(f64, f64)> {
        let line = format!(
            "{command} --no-tui --output-format json --latency-correction -q {STALL_RATE_PER_S} -c 64 \
             -z {STALL_SECONDS}s {}",
            participants.url(File::Tiny)
        );
        let stdout = frozen(runner, participants, &words(&line))?.0.stdout;
        oha_tail(&stdout).with_context(|| format!("cannot read the latencies of oha: {stdout:?}"))
    });
    Ok(Stall {
        analytic: (freeze_s - 0.01 * STALL_SECONDS as f64, freeze_s),
        bakeoff,
        wrk: wrk.transpose()?,
        oha: oha.transpose()?,
    })
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// Runs a client while the server is stopped for a while. Also returns the actual length, in
/// seconds.
fn frozen(runner: &Runner, participants: &Participants, words: &[String]) -> Result<(Usage, f64)> {
    let (pid, mut freezer) = (participants.server.pid(), None);
    let usage = runner.run_on(CLIENT_CPU, words, &mut || {
        freezer = Some(thread::spawn(move || {
            thread::sleep(STALL_AFTER);
            Server::freeze(pid, STALL)
        }));
    });
    let freezer = freezer.context("client did not start")?;
    let freeze = freezer.join().expect("freezing does not panic");
    Ok((usage?, freeze.as_secs_f64()))
}

/// 99th percentile and maximum that wrk prints, in seconds.
pub(crate) fn wrk_tail(text: &str) -> Option<(f64, f64)> {
    let p99 = text
        .lines()
        .find(|line| line.trim_start().starts_with("99%"))?;
    let all = text
        .lines()
        .find(|line| line.trim_start().starts_with("Latency  "))?;
    let at = |line: &str, place: usize| seconds(line.split_whitespace().nth(place)?);
    Some((at(p99, 1)?, at(all, 3)?))
}

fn seconds(text: &str) -> Option<f64> {
    let unit = text.trim_start_matches(|each: char| each.is_ascii_digit() || each == '.');
    let number: f64 = text.strip_suffix(unit)?.parse().ok()?;
    match unit {
        "us" => Some(number / 1e6),
        "ms" => Some(number / 1e3),
        "s" => Some(number),
        _ => None,
    }
}

/// 99th percentile and maximum that oha prints, in seconds.
pub(crate) fn oha_tail(text: &str) -> Option<(f64, f64)> {
    let stdout: serde_json::Value = serde_json::from_str(text).ok()?;
    Some((
        stdout["latencyPercentiles"]["p99"].as_f64()?,
        stdout["summary"]["slowest"].as_f64()?,
    ))
}

fn slow(runner: &Runner, participants: &Participants) -> Result<Slow> {
    let scene = Scene {
        file: File::Image,
        ..SCENES[0]
    };
    let part = Part {
        connections: SLOW_CLIENTS,
        bits_per_s: MODEMS.to_vec(),
        window_ms: 4000,
        ..participants.part(&scene, Engine::Epoll)
    };
    // The same program with few connections, to subtract its base memory.
    let few = Part {
        connections: 3,
        window_ms: 1000,
        ..part.clone()
    };
    let few = runner.run(&participants.client_command(&few))?;
    let usage = runner.run(&participants.client_command(&part))?;
    let result = result(&usage)?;
    // From the first byte to the last: the wait for the first one depends on the server.
    let error = |share| result.speed_error_ppm.quantile_ns(share) as f64 / 1e6;
    Ok(Slow {
        clients: result.connections_held as u32,
        answers: result.ok,
        failed: result.fault_count() + result.unsent,
        p50_error: error(0.5),
        p99_error: error(0.99),
        max_error: error(1.0),
        bytes_per_client: usage.peak_kib.saturating_sub(few.peak_kib) as f64 * 1024.0
            / f64::from(SLOW_CLIENTS),
        cpu_s: usage.cpu.as_secs_f64(),
    })
}

fn stay(runner: &Runner, participants: &Participants) -> Result<Memory> {
    let seconds = 6;
    let scene = Scene {
        seconds,
        ..SCENES[0]
    };
    let usage =
        runner.run(&participants.client_command(&participants.part(&scene, Engine::Uring)))?;
    let resident = &usage.resident_kib;
    let early_kib = *resident
        .get(resident.len() / 4)
        .context("client ended at once")?;
    // The last sample may be taken at the end of the process, when its memory is being freed.
    let last_kib = resident
        .iter()
        .rev()
        .take(3)
        .max()
        .copied()
        .unwrap_or(early_kib);
    Ok(Memory {
        seconds,
        early_kib,
        last_kib,
    })
}
