//! The kinds of disturbances, their keys, and the machines that support them.

use super::{DisturbContext, DisturbanceKind};
use crate::fields::Fields;
use crate::{Clock, MachineKind};
use base::input::problem::remedy_among;
use base::input::units;
use strum::VariantNames;

/// Longest step of the clock, in milliseconds: a day.
const MOST_STEP_MS: i64 = 24 * 3600 * 1000;

/// Reads a kind with its keys, and refuses one that the machine does not support.
pub(super) fn read_kind(
    table: &Fields<'_>,
    context: &DisturbContext<'_>,
) -> Option<DisturbanceKind> {
    if !table.has("kind") {
        table.missing("kind", "\"loss\"");
    }
    let word = table.text("kind")?;
    let share = || required_share(table);
    let kind = match word {
        "loss" => DisturbanceKind::Loss { share: share()? },
        "duplicate" => DisturbanceKind::Duplicate { share: share()? },
        "corrupt" => DisturbanceKind::Corrupt { share: share()? },
        "reorder" => DisturbanceKind::Reorder {
            share: share()?,
            delay_ms: required_delay(table)?,
        },
        "delay" => read_delay(table)?,
        "link-down" => DisturbanceKind::LinkDown,
        "disk-full" => DisturbanceKind::DiskFull,
        "memory" => read_memory(table, context)?,
        "cpu-offline" => read_cpu(table, context)?,
        "clock-step" => read_step(table)?,
        "kill-worker" => DisturbanceKind::KillWorker,
        "syn-flood" => DisturbanceKind::SynFlood {
            rate_per_s: required_count(table, "rate", "1000", 1_000_000)?,
        },
        "slow-clients" => DisturbanceKind::SlowClients {
            connections: required_count(table, "connections", "50", 10_000)?,
        },
        "descriptors" => DisturbanceKind::Descriptors,
        _ => {
            let remedy = remedy_among(word, DisturbanceKind::VARIANTS);
            let what = format!("unknown kind of disturbance: {word:?}");
            table.wrong("kind", what, remedy);
            return None;
        }
    };
    check_machine(table, &kind, context.machine.kind);
    Some(kind)
}

/// Refuses disturbances that outlive the agent, or affect other programs, except in guests.
fn check_machine(table: &Fields<'_>, kind: &DisturbanceKind, machine: MachineKind) {
    match machine {
        MachineKind::Local | MachineKind::Ssh if !kind.affects_only_trial() => {
            let what = format!(
                "disturbance on a machine of kind \"{}\": {}",
                machine.word(),
                kind.word()
            );
            let remedy =
                "write kind = \"qemu\" in [machine]: it would be felt by more than the trial";
            table.wrong("kind", what, remedy);
        }
        // `check_context` refuses systems on the network.
        MachineKind::Qemu | MachineKind::Local | MachineKind::Ssh | MachineKind::Url => {}
    }
}

fn required_share(table: &Fields<'_>) -> Option<f64> {
    if !table.has("share") {
        table.missing("share", "\"1%\"");
    }
    table.share("share", 0.0, 1.0)
}

fn required_count(table: &Fields<'_>, key: &str, example: &str, most: u64) -> Option<u32> {
    if !table.has(key) {
        table.missing(key, example);
    }
    table.count(key, 1..=most).map(|count| count as u32)
}

fn read_ms(table: &Fields<'_>, key: &str) -> Option<u64> {
    let delay = table.read(key, units::duration)?;
    let ms = delay.as_millis() as u64;
    if !(1..=60_000).contains(&ms) {
        let what = format!("{key} out of range: {}", units::show_duration(delay));
        table.wrong(key, what, "write \"1ms\" to \"1m\"");
        return None;
    }
    Some(ms)
}

fn required_delay(table: &Fields<'_>) -> Option<u64> {
    if !table.has("delay") {
        table.missing("delay", "\"50ms\"");
    }
    read_ms(table, "delay")
}

fn read_delay(table: &Fields<'_>) -> Option<DisturbanceKind> {
    let delay_ms = required_delay(table)?;
    let jitter_ms = if table.has("jitter") {
        read_ms(table, "jitter")?
    } else {
        0
    };
    Some(DisturbanceKind::Delay {
        delay_ms,
        jitter_ms,
    })
}

fn read_memory(table: &Fields<'_>, context: &DisturbContext<'_>) -> Option<DisturbanceKind> {
    if !table.has("size") {
        table.missing("size", "\"256MiB\"");
    }
    let bytes = table.read("size", units::bytes)?;
    let memory_bytes = context.machine.memory_bytes;
    if bytes == 0 || (bytes >= memory_bytes && context.machine.kind == MachineKind::Qemu) {
        let what = format!("size out of range: {}", units::show_bytes(bytes));
        let remedy = format!(
            "write more than 0 and less than the guest has, {}",
            units::show_bytes(memory_bytes)
        );
        table.wrong("size", what, remedy);
        return None;
    }
    Some(DisturbanceKind::Memory { bytes })
}

/// Reads the CPU to take offline. Each arm must have it, and CPU 0, which stays online.
fn read_cpu(table: &Fields<'_>, context: &DisturbContext<'_>) -> Option<DisturbanceKind> {
    let arm_cpus = context.arms.iter().filter_map(|arm| arm.cpus);
    let fewest = arm_cpus.min().unwrap_or(context.machine.cpus);
    if context.machine.kind == MachineKind::Qemu && fewest < 2 {
        let what = format!("cpu-offline with so few CPUs: {fewest}");
        let remedy = match context.machine.clock {
            Clock::Instructions => "remove it: counted instructions need one CPU",
            Clock::Auto | Clock::Wall => "write cpus = 2 in [machine], or remove it",
        };
        table.wrong("kind", what, remedy);
        // Read, so that it is not reported as unknown.
        let _ = table.count("cpu", 0..=u64::MAX);
        return None;
    }
    let last = u64::from(fewest.saturating_sub(1)).max(1);
    let cpu = if table.has("cpu") {
        table.count("cpu", 1..=last)?
    } else {
        last
    };
    Some(DisturbanceKind::CpuOffline { cpu: cpu as u32 })
}

fn read_step(table: &Fields<'_>) -> Option<DisturbanceKind> {
    if !table.has("step") {
        table.missing("step", "\"+30s\"");
    }
    let step_ms = table.read("step", parse_step)?;
    Some(DisturbanceKind::ClockStep { step_ms })
}

/// Parses a duration with an optional sign, in milliseconds.
fn parse_step(text: &str) -> Result<i64, String> {
    let (sign, length) = match text.strip_prefix('-') {
        Some(length) => (-1, length),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let wrong =
        || format!("not a step: {text:?}, write it like \"+30s\" or \"-1h\", a day at the most");
    let length = units::duration(length).map_err(|_| wrong())?;
    let ms = i64::try_from(length.as_millis()).map_err(|_| wrong())?;
    if !(1..=MOST_STEP_MS).contains(&ms) {
        return Err(wrong());
    }
    Ok(sign * ms)
}
