//! The standard tables of an SNMP agent: HOST-RESOURCES-MIB (RFC 2790), UCD-SNMP-MIB (net-snmp).

mod snapshots;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use snmp2::{Oid, SyncSession, Value};
use workload::Timing;

use self::snapshots::{LEAD, POLL_INTERVAL, SHORTEST_WINDOW, Snapshots, TAIL, Ticks};
use super::{Boot, Reading, wait_until};

/// Longest wait for one answer.
const TIMEOUT: Duration = Duration::from_secs(5);

const SYS_DESCR: &[u64] = &[1, 3, 6, 1, 2, 1, 1, 1, 0];
const SYS_UP_TIME: &[u64] = &[1, 3, 6, 1, 2, 1, 1, 3, 0];
const HR_SYSTEM_UPTIME: &[u64] = &[1, 3, 6, 1, 2, 1, 25, 1, 1, 0];
const MEM_TOTAL_REAL: &[u64] = &[1, 3, 6, 1, 4, 1, 2021, 4, 5, 0];
const MEM_AVAIL_REAL: &[u64] = &[1, 3, 6, 1, 4, 1, 2021, 4, 6, 0];
/// `hrProcessorFrwID`, which has a row for each CPU.
const PROCESSORS: &[u64] = &[1, 3, 6, 1, 2, 1, 25, 3, 3, 1, 1];
/// `ssCpuRawUser`, `Nice`, `System`, `Interrupt`, `SoftIRQ`; ticks since boot.
const CPU_BUSY: [&[u64]; 5] = [
    &[1, 3, 6, 1, 4, 1, 2021, 11, 50, 0],
    &[1, 3, 6, 1, 4, 1, 2021, 11, 51, 0],
    &[1, 3, 6, 1, 4, 1, 2021, 11, 52, 0],
    &[1, 3, 6, 1, 4, 1, 2021, 11, 56, 0],
    &[1, 3, 6, 1, 4, 1, 2021, 11, 61, 0],
];
/// `ssCpuRawIdle`, `Wait`, `Steal`: not busy, as for an exporter.
const CPU_IDLE: [&[u64]; 3] = [
    &[1, 3, 6, 1, 4, 1, 2021, 11, 53, 0],
    &[1, 3, 6, 1, 4, 1, 2021, 11, 54, 0],
    &[1, 3, 6, 1, 4, 1, 2021, 11, 64, 0],
];
/// `memShared`, which is in use, but counted as cached.
const MEM_SHARED: &[u64] = &[1, 3, 6, 1, 4, 1, 2021, 4, 13, 0];
/// `memBuffer` and `memCached`: reclaimable, so not in use.
const CACHES: [&[u64]; 2] = [
    &[1, 3, 6, 1, 4, 1, 2021, 4, 14, 0],
    &[1, 3, 6, 1, 4, 1, 2021, 4, 15, 0],
];

/// Most CPUs that are counted.
const MOST_CPUS: u64 = 4096;

pub(super) fn read(address: &str, community: &str) -> Result<Reading> {
    let mut agent = Agent::open(address, community)?;
    let system = agent.text(SYS_DESCR).with_context(|| {
        format!("no SNMP agent answers: {address} (does it run, and is the community right?)")
    })?;
    let up_ticks = match agent.number(HR_SYSTEM_UPTIME)? {
        Some(ticks) => Some(ticks),
        None => agent.number(SYS_UP_TIME)?,
    };
    let boot = up_ticks.map(|ticks| Boot::Since {
        ticks: ticks as u32,
        at: Instant::now(),
    });
    let total = agent.number(MEM_TOTAL_REAL)?;
    let available = agent.number(MEM_AVAIL_REAL)?;
    let shared = agent.number(MEM_SHARED)?.unwrap_or(0.0);
    let caches = agent.sum(&CACHES)?.unwrap_or(0.0) - shared;
    Ok(Reading {
        system,
        boot,
        cpu: None,
        cpus: None,
        memory_bytes: total
            .zip(available)
            .map(|(total, free)| (total - free - caches).max(0.0) * 1024.0),
    })
}

/// Average of busy CPUs in a window. `None` if the agent does not count them, or renews its counters too rarely for
/// this window.
pub(super) fn busy_cpus(
    address: &str,
    community: &str,
    begun: Instant,
    Timing { warmup, window }: Timing,
) -> Option<f64> {
    if window < SHORTEST_WINDOW {
        return None;
    }
    let close = warmup + window;
    let mut snapshots = Snapshots::new(warmup.saturating_sub(LEAD));
    let mut agent = Agent::open(address, community).ok()?;
    wait_until(begun, warmup.saturating_sub(LEAD * 2));
    let cpus = agent.cpus();
    loop {
        let asked = begun.elapsed();
        if asked >= close {
            break;
        }
        let ticks = agent.ticks();
        let answered = begun.elapsed();
        // A missing answer is a gap, in which the counters may have been renewed.
        if let Ok(ticks) = ticks
            && answered <= close
        {
            snapshots.add(asked, answered, ticks);
        }
        let next = if snapshots.has_first() && answered + TAIL < close {
            close.saturating_sub(TAIL)
        } else {
            answered + POLL_INTERVAL
        };
        wait_until(begun, next.min(close));
    }
    snapshots.busy_cpus(cpus)
}

struct Agent(SyncSession);

impl Agent {
    fn open(address: &str, community: &str) -> Result<Self> {
        let address = if address.contains(':') {
            address.into()
        } else {
            format!("{address}:161")
        };
        let session = SyncSession::new_v2c(&address, community.as_bytes(), Some(TIMEOUT), 1)
            .with_context(|| {
                format!("cannot ask an SNMP agent: {address} (write HOST or HOST:PORT)")
            })?;
        Ok(Self(session))
    }

    /// A value; `None` if the agent has none.
    fn get<T>(
        &mut self,
        name: &[u64],
        take: impl Fn(&Value<'_>) -> Option<T>,
    ) -> Result<Option<T>> {
        let name = Oid::from(name).map_err(|why| anyhow!("{why:?}"))?;
        let answer = self.0.get(&name).map_err(|why| match why {
            snmp2::Error::Receive => anyhow!("no answer within {} s", TIMEOUT.as_secs()),
            why => anyhow!("not an answer that can be read: {why}"),
        })?;
        let mut values = answer.varbinds;
        Ok(values.next().and_then(|(_, value)| take(&value)))
    }

    /// Ticks of all states in one query, so that they are of one instant; 0 for a state that the agent does not have, or
    /// has not read yet.
    fn ticks(&mut self) -> Result<Ticks> {
        let names = CPU_BUSY.iter().chain(&CPU_IDLE);
        let names: Vec<Oid<'_>> = names
            .map(|name| Oid::from(name).map_err(|why| anyhow!("{why:?}")))
            .collect::<Result<_>>()?;
        let names: Vec<&Oid<'_>> = names.iter().collect();
        let answer = self.0.get_many(&names);
        let answer = answer.map_err(|why| anyhow!("not an answer that can be read: {why}"))?;
        let mut ticks = Ticks::default();
        for (state, (_, value)) in ticks.0.iter_mut().zip(answer.varbinds) {
            *state = number(&value).map_or(0, |number| number as u64 as u32);
        }
        Ok(ticks)
    }

    /// Number of the system's CPUs; `None` if it does not list them.
    fn cpus(&mut self) -> Option<u64> {
        let table = Oid::from(PROCESSORS).ok()?;
        let mut last = table.to_owned();
        let mut cpus = 0;
        while cpus < MOST_CPUS {
            let answer = self.0.getnext(&last).ok()?;
            let mut values = answer.varbinds;
            match values.next() {
                Some((name, _)) if name.starts_with(&table) && name != last => {
                    last = name.to_owned();
                }
                Some(_) | None => break,
            }
            cpus += 1;
        }
        (cpus > 0).then_some(cpus)
    }

    fn number(&mut self, name: &[u64]) -> Result<Option<f64>> {
        self.get(name, number)
    }

    fn text(&mut self, name: &[u64]) -> Result<Option<String>> {
        self.get(name, |value| match value {
            Value::OctetString(bytes) => Some(String::from_utf8_lossy(bytes).trim().to_string()),
            _ => None,
        })
    }

    /// The sum of the values that the agent has; `None` if it lacks the first.
    fn sum(&mut self, names: &[&[u64]]) -> Result<Option<f64>> {
        let mut sum = None;
        for name in names {
            match (self.number(name)?, sum) {
                (None, None) => return Ok(None),
                (value, before) => sum = Some(before.unwrap_or(0.0) + value.unwrap_or(0.0)),
            }
        }
        Ok(sum)
    }
}

fn number(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Integer(value) => Some(*value as f64),
        Value::Counter32(value) | Value::Unsigned32(value) | Value::Timeticks(value) => {
            Some(f64::from(*value))
        }
        Value::Counter64(value) => Some(*value as f64),
        _ => None,
    }
}
