//! The standard tables of an SNMP agent: HOST-RESOURCES-MIB (RFC 2790), UCD-SNMP-MIB (net-snmp).

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use snmp2::{Oid, SyncSession, Value};

use super::{Boot, Reading};

/// Longest wait for one answer.
const PATIENCE: Duration = Duration::from_secs(5);

const SYS_DESCR: &[u64] = &[1, 3, 6, 1, 2, 1, 1, 1, 0];
const SYS_UP_TIME: &[u64] = &[1, 3, 6, 1, 2, 1, 1, 3, 0];
const HR_SYSTEM_UPTIME: &[u64] = &[1, 3, 6, 1, 2, 1, 25, 1, 1, 0];
const MEM_TOTAL_REAL: &[u64] = &[1, 3, 6, 1, 4, 1, 2021, 4, 5, 0];
const MEM_AVAIL_REAL: &[u64] = &[1, 3, 6, 1, 4, 1, 2021, 4, 6, 0];
/// `ssCpuRawUser`, `Nice`, `System`, `Idle`, `Wait`; ticks since boot. `System` has interrupts in it.
const CPU_BUSY: [&[u64]; 3] = [
    &[1, 3, 6, 1, 4, 1, 2021, 11, 50, 0],
    &[1, 3, 6, 1, 4, 1, 2021, 11, 51, 0],
    &[1, 3, 6, 1, 4, 1, 2021, 11, 52, 0],
];
const CPU_IDLE: [&[u64]; 2] = [
    &[1, 3, 6, 1, 4, 1, 2021, 11, 53, 0],
    &[1, 3, 6, 1, 4, 1, 2021, 11, 54, 0],
];
/// `memShared`, which is in the cached memory and in use all the same.
const MEM_SHARED: &[u64] = &[1, 3, 6, 1, 4, 1, 2021, 4, 13, 0];
/// `memBuffer` and `memCached`: what programs could have, so that it is not in use.
const CACHES: [&[u64]; 2] = [
    &[1, 3, 6, 1, 4, 1, 2021, 4, 14, 0],
    &[1, 3, 6, 1, 4, 1, 2021, 4, 15, 0],
];

/// Ticks of CPU time in a second (`USER_HZ`).
const TICKS_PER_S: f64 = 100.0;

pub(super) fn read(address: &str, community: &str) -> Result<Reading> {
    let address = if address.contains(':') {
        address.into()
    } else {
        format!("{address}:161")
    };
    let mut agent = Agent::open(&address, community)?;
    let system = agent.text(SYS_DESCR).with_context(|| {
        format!("no SNMP agent answers: {address} (does it run, and is the community right?)")
    })?;
    let up = match agent.number(HR_SYSTEM_UPTIME)? {
        Some(ticks) => Some(ticks),
        None => agent.number(SYS_UP_TIME)?,
    };
    let busy = agent.sum(&CPU_BUSY)?;
    let idle = agent.sum(&CPU_IDLE)?;
    let total = agent.number(MEM_TOTAL_REAL)?;
    let available = agent.number(MEM_AVAIL_REAL)?;
    let shared = agent.number(MEM_SHARED)?.unwrap_or(0.0);
    let caches = agent.sum(&CACHES)?.unwrap_or(0.0) - shared;
    let cpu = busy
        .zip(idle)
        .map(|(busy, idle)| (busy / TICKS_PER_S, idle / TICKS_PER_S));
    let up_s = up.map(|ticks| ticks / 100.0);
    Ok(Reading {
        system,
        boot: up_s.map(Boot::Since),
        cpu,
        cpus: cpu.zip(up_s).map(cpus),
        memory_bytes: total
            .zip(available)
            .map(|(total, free)| (total - free - caches).max(0.0) * 1024.0),
    })
}

/// CPUs of a system that does not count them: all have been busy or idle since it was started.
fn cpus(((busy, idle), up_s): ((f64, f64), f64)) -> f64 {
    ((busy + idle) / up_s).round().max(1.0)
}

struct Agent(SyncSession);

impl Agent {
    fn open(address: &str, community: &str) -> Result<Self> {
        let session = SyncSession::new_v2c(address, community.as_bytes(), Some(PATIENCE), 1)
            .with_context(|| {
                format!("cannot ask an SNMP agent: {address} (write HOST or HOST:PORT)")
            })?;
        Ok(Self(session))
    }

    /// A value; `None` where the agent has none.
    fn get<T>(
        &mut self,
        name: &[u64],
        take: impl Fn(&Value<'_>) -> Option<T>,
    ) -> Result<Option<T>> {
        let name = Oid::from(name).map_err(|why| anyhow!("{why:?}"))?;
        let answer = self.0.get(&name).map_err(|why| match why {
            snmp2::Error::Receive => anyhow!("no answer within {} s", PATIENCE.as_secs()),
            why => anyhow!("not an answer that can be read: {why}"),
        })?;
        let mut values = answer.varbinds;
        Ok(values.next().and_then(|(_, value)| take(&value)))
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

    /// The sum of those that the agent has; `None` where it has not the first.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_told_by_the_time_that_they_have_had() {
        assert!((cpus(((25.0, 95.0), 60.0)) - 2.0).abs() < 1e-9);
        // A counter that was sampled a little before the other one.
        assert!((cpus(((4.0, 0.2), 1.02)) - 4.0).abs() < 1e-9);
        assert!((cpus(((0.1, 0.2), 60.0)) - 1.0).abs() < 1e-9);
    }
}
