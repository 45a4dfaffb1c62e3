//! A fake guest under load for hours to days: each second is made when it is asked for, and told and kept as an agent tells and keeps it.

use std::collections::{BTreeMap, VecDeque};
use std::io::Cursor;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base::latency::Latency;
use plan::PlannedDisturbance;
use record::counters::{Counters, MEMORY_TOTAL, MEMORY_USED, SWAP_USED};
use record::defect::FoundDefect;
use record::disturbances;
use record::disturbances::{BegunDisturbance, DisturbanceRecord, Effect, SecondsAround};
use record::evidence::{Memory, Sample, ServiceUse};
use record::load::{Fault, LoadResult, Second, Tick};
use record::prng::SplitMix64;
use record::protocol::FromAgent;
use record::thinned::Thinned;

use super::truth::{Truth, done, results, sample};
use crate::guest::GuestEvent;

/// Seconds between two readings of counters.
const COUNTERS_S: u64 = 60;

/// Slab caches that only wander.
const CACHES: usize = 150;

/// Latencies that are drawn from.
const LATENCIES: usize = 4096;

/// How the guests of a machine are loaded for long.
#[derive(Debug, Clone)]
pub struct Soak {
    /// How long.
    pub window: Duration,
    /// Of its noise.
    pub seed: u64,
    /// Memory that the kernel loses in each hour, in bytes.
    pub leak_bytes_per_h: u64,
    /// Descriptors that the server loses in each hour.
    pub descriptors_per_h: u64,
    /// From when on, and for how long, the server answers nothing.
    pub outage: Option<(Duration, Duration)>,
    /// From then on the slowest two in a hundred take twice as long.
    pub slower_from: Option<Duration>,
    /// Then the guest falls silent.
    pub silent_from: Option<Duration>,
    /// Defects that its kernel or services tell of, and when.
    pub defects: Vec<(Duration, FoundDefect)>,
    /// A guest serves a quarter while it is disturbed, with 5 failures a second, and then for so long three fifths, with one; `None` where
    /// it feels nothing.
    pub recovers_after: Option<Duration>,
    /// Whether all messages are written and read as on a guest's line, rather than handed over.
    pub has_line: bool,
    /// Bytes that went over such lines, of all guests.
    pub told_bytes: Arc<AtomicU64>,
}

impl Soak {
    /// A load without events.
    pub fn calm(window: Duration) -> Self {
        Self {
            window,
            seed: 0,
            leak_bytes_per_h: 0,
            descriptors_per_h: 0,
            outage: None,
            slower_from: None,
            silent_from: None,
            defects: Vec::new(),
            recovers_after: None,
            has_line: false,
            told_bytes: Arc::default(),
        }
    }
}

/// A guest's load, as far as it has come.
pub(super) struct Load {
    soak: Soak,
    arm: String,
    rate_per_s: f64,
    allowance_bytes: u64,
    told_bytes: u64,
    random: SplitMix64,
    /// Caches, in their typical deviations.
    wandering: Vec<f64>,
    /// Ascending, in nanoseconds.
    latencies: Vec<u64>,
    second: u64,
    ok: u64,
    faults: u64,
    timeline: Thinned<Second>,
    latency: Latency,
    disturbances: Vec<PlannedDisturbance>,
    around: SecondsAround,
}

impl Load {
    pub(super) fn new(soak: &Soak, truth: &Truth<'_>, allowance_bytes: u64) -> Self {
        Self {
            soak: soak.clone(),
            arm: truth.arm.into(),
            rate_per_s: truth.rate_per_s,
            allowance_bytes,
            told_bytes: 0,
            random: SplitMix64::new(truth.rate_per_s.to_bits() ^ soak.seed),
            wandering: vec![0.0; CACHES],
            latencies: latencies(),
            second: 0,
            ok: 0,
            faults: 0,
            timeline: Thinned::default(),
            latency: Latency::new(),
            disturbances: Vec::new(),
            around: SecondsAround::default(),
        }
    }

    /// What its job has done to it.
    pub(super) fn disturb(&mut self, planned: &[PlannedDisturbance]) {
        self.disturbances = planned.to_vec();
        self.around = SecondsAround::new(planned);
    }

    /// Of its requests how many it serves in a second, and how many fail.
    fn disturbed(&self, now: Duration) -> (f64, u64) {
        let Some(recovers_after) = self.soak.recovers_after else {
            return (1.0, 0);
        };
        let mut left = (1.0, 0);
        for (begin, end) in self.disturbances.iter().flat_map(spans) {
            if begin <= now && now < end {
                return (0.25, 5);
            }
            if end <= now && now < end + recovers_after {
                left = (0.6, 1);
            }
        }
        left
    }

    /// What happens in the next second; nothing once the guest is silent or has told its result.
    pub(super) fn next(&mut self) -> VecDeque<(Duration, GuestEvent)> {
        let now = Duration::from_secs(self.second);
        if self.soak.silent_from.is_some_and(|from| from <= now) {
            return VecDeque::new();
        }
        if now > self.soak.window {
            return VecDeque::new();
        }
        if now == self.soak.window {
            self.second += 1;
            return self.result();
        }
        let second = self.serve(now);
        self.second += 1;
        self.around.take(&second);
        self.timeline.push(second.clone());
        let progress = FromAgent::Tick(Tick {
            second: self.second as u32,
            ok: self.ok,
            faults: self.faults,
            ended: vec![second],
            ..Tick::default()
        });
        let sample = FromAgent::Sample(Box::new(self.sample()));
        let counters = self.counters().map(Box::new).map(FromAgent::Counters);
        let counters = counters.map(|counters| (Duration::ZERO, self.say(counters)));
        let (progress, sample) = (self.say(progress), self.say(sample));
        // A defect is told before its second has ended.
        let due = self.soak.defects.iter().filter(|(at, _)| *at == now);
        let due: Vec<_> = due.map(|(_, defect)| defect.clone()).collect();
        let mut events: VecDeque<_> = due
            .into_iter()
            .map(|mut defect| {
                defect.first.window_ms = Some(now.as_millis() as u64);
                defect.last = defect.first;
                (
                    Duration::ZERO,
                    self.say(FromAgent::Defect(Box::new(defect))),
                )
            })
            .collect();
        events.extend(self.tell_disturbances(now));
        events.extend([(Duration::from_secs(1), progress), (Duration::ZERO, sample)]);
        events.extend(counters);
        events
    }

    /// Those that begin or end in this second.
    fn tell_disturbances(&mut self, now: Duration) -> Vec<(Duration, GuestEvent)> {
        let second = now..now + Duration::from_secs(1);
        let ms = |at: Duration| at.as_millis() as u64;
        let mut words = Vec::new();
        for planned in &self.disturbances {
            for (begin, end) in spans(planned) {
                let word = |end_ms| BegunDisturbance {
                    name: planned.name.clone(),
                    begin_ms: ms(begin),
                    end_ms,
                };
                words.extend(second.contains(&begin).then(|| word(None)));
                words.extend(second.contains(&end).then(|| word(Some(ms(end)))));
            }
        }
        let messages = words.into_iter().map(FromAgent::Disturbance);
        messages
            .map(|word| (Duration::ZERO, self.say(word)))
            .collect()
    }

    fn serve(&mut self, now: Duration) -> Second {
        let is_slower = self.soak.slower_from.is_some_and(|from| from <= now);
        let slow_from = LATENCIES / 100 * 98;
        let is_out = |(from, length): (Duration, Duration)| from <= now && now < from + length;
        let is_out = self.soak.outage.is_some_and(is_out);
        let (left, faults) = self.disturbed(now);
        let ok = if is_out {
            0
        } else {
            (self.rate_per_s * left) as u64
        };
        let mut latency = Latency::coarse();
        for _ in 0..ok {
            let rank = self.random.below(LATENCIES as u64) as usize;
            let slower = if is_slower && rank >= slow_from { 2 } else { 1 };
            latency.record(slower * self.latencies[rank]);
        }
        self.ok += ok;
        self.faults += faults;
        self.latency.merge(&latency);
        Second {
            at_ms: self.second * 1000,
            ok,
            faults,
            body_bytes: ok * 1000,
            latency: latency.pack(),
            ..Second::default()
        }
    }

    /// As much as a sample of a real guest has in it.
    fn sample(&mut self) -> Sample {
        let leaked_bytes = self.soak.leak_bytes_per_h * self.second / 3600;
        let slab_bytes = (64 << 20) + leaked_bytes + self.random.below(1 << 16);
        let counters = |names: &[&str]| {
            let counter = |name: &&str| (name.to_string(), 1000 + self.second % 1000);
            names.iter().map(counter).collect()
        };
        let service = |name: &str| ServiceUse {
            service: name.into(),
            processes: 4,
            threads: 60,
            user_ms: 150 + self.second % 50,
            system_ms: 250,
            rss_bytes: 80 << 20,
        };
        Sample {
            at_ms: (self.second * 1000).cast_signed(),
            memory: Memory {
                total_bytes: 1 << 30,
                available_bytes: (1_u64 << 29).saturating_sub(leaked_bytes),
                slab_bytes,
                ..Memory::default()
            },
            context_switches: 4000 + self.second % 1000,
            interrupts: 3000 + self.second % 1000,
            runnable: self.second % 7,
            softirqs: counters(&["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "SCHED", "RCU"]),
            tcp: counters(&[
                "TcpActiveOpens",
                "TcpPassiveOpens",
                "TcpInSegs",
                "TcpOutSegs",
                "TcpRetransSegs",
                "TcpExtTCPHPHits",
                "TcpExtTCPPureAcks",
                "TcpExtDelayedACKs",
            ]),
            services: vec![service("apache2"), service("clients")],
            cost_us: 120,
            ..sample(0)
        }
    }

    /// Once a minute, as many as a real guest has; most of them wander, some as if each reading hung on the one before.
    fn counters(&mut self) -> Option<Counters> {
        let second = self.second;
        if !second.is_multiple_of(COUNTERS_S) {
            return None;
        }
        let leaked_bytes = self.soak.leak_bytes_per_h * second / 3600;
        let mut values = BTreeMap::new();
        for (index, now) in self.wandering.iter_mut().enumerate() {
            let keeps = [0.0, 0.9, 0.99][index % 3];
            let fresh = f64::sqrt(1.0 - keeps * keeps);
            let noise = (0..4).map(|_| self.random.unit()).sum::<f64>() - 2.0;
            *now = keeps * *now + fresh * noise;
            let group = if index % 5 == 0 { "cache" } else { "slab" };
            let bytes = (1.0 + 0.02 * *now) * f64::from(256 << (index % 14));
            values.insert(format!("{group}:simulated_cache_{index}"), bytes as u64);
        }
        let leaking = (1 << 20) + leaked_bytes + self.random.below(1 << 14);
        let unreclaimable = (48 << 20) + leaked_bytes + self.random.below(1 << 16);
        let used = (512 << 20) + leaked_bytes + self.random.below(1 << 20);
        let lost = self.soak.descriptors_per_h * second / 3600;
        let more = [
            ("slab:skbuff_head_cache", leaking),
            ("memory:slab-unreclaimable", unreclaimable),
            (MEMORY_USED, used),
            (SWAP_USED, 0),
            ("kernel:threads", 140 + self.random.below(5)),
            ("tcp:established", 4),
            ("service-files:apache2", 200 + lost + self.random.below(8)),
            (
                "service-rss:apache2",
                (80 << 20) + self.random.below(1 << 18),
            ),
        ];
        values.extend(more.map(|(name, value)| (name.to_string(), value)));
        let limits = [
            (MEMORY_TOTAL, 1 << 30),
            ("service-files:apache2", 4 * 65_536),
            ("kernel:threads", 8000),
        ];
        let limits = limits.map(|(name, limit)| (name.to_string(), limit));
        Some(Counters {
            at_ms: (second * 1000).cast_signed(),
            values,
            limits: limits
                .into_iter()
                .filter(|_| second == COUNTERS_S)
                .collect(),
            joined: None,
        })
    }

    fn result(&mut self) -> VecDeque<(Duration, GuestEvent)> {
        let truth = Truth {
            arm: &self.arm,
            counters: None,
            rate_per_s: self.rate_per_s,
            steal_ms: 0,
        };
        let mut result = done(&truth);
        result.measurement.load = Some(LoadResult {
            window_ns: self.soak.window.as_nanos() as u64,
            planned: self.ok + self.faults,
            ok: self.ok,
            ok_in_window: self.ok,
            body_bytes: self.ok * 1000,
            connections_asked: 1,
            connections_opened: 1,
            latency: std::mem::take(&mut self.latency),
            timeline: std::mem::take(&mut self.timeline).into_vec(),
            faults: [(Fault::Reset, self.faults)]
                .into_iter()
                .filter(|(_, count)| *count > 0)
                .collect(),
            client_cpu_ns: vec![100_000_000],
            engine: "fake".into(),
            ..LoadResult::default()
        });
        let mut records: Vec<_> = self.disturbances.iter().flat_map(records).collect();
        records.sort_by_key(|record| record.begin_ms);
        self.around.tell(&mut records);
        result
            .measurement
            .figures
            .extend(disturbances::figures(&records));
        result.measurement.disturbances = records;
        let events: Vec<_> = results(result).collect();
        let events = events.into_iter().map(|(delay, event)| match event {
            GuestEvent::Said(message) => (delay, self.say(*message)),
            other => (delay, other),
        });
        events.collect()
    }

    /// What arrives of a message.
    fn say(&mut self, message: FromAgent) -> GuestEvent {
        if !self.soak.has_line {
            return GuestEvent::Said(Box::new(message));
        }
        let mut line = Vec::new();
        let read = record::protocol::send(&mut line, &message)
            .and_then(|()| record::protocol::receive::<FromAgent>(&mut Cursor::new(&line)));
        self.told_bytes += line.len() as u64;
        self.soak
            .told_bytes
            .fetch_add(line.len() as u64, Ordering::Relaxed);
        match read {
            Ok(_) if self.told_bytes > self.allowance_bytes => {
                GuestEvent::Refused("more said than a trial can have".into())
            }
            Ok(message) => GuestEvent::Said(Box::new(message)),
            Err(why) => GuestEvent::Refused(why.to_string()),
        }
    }
}

/// When something is done, each time.
fn spans(planned: &PlannedDisturbance) -> impl Iterator<Item = (Duration, Duration)> {
    let length = Duration::from_millis(planned.length_ms);
    let begins = planned.at_ms.iter().map(|at| Duration::from_millis(*at));
    begins.map(move |begin| (begin, begin + length))
}

/// What a guest says of it: it always took effect.
fn records(planned: &PlannedDisturbance) -> impl Iterator<Item = DisturbanceRecord> {
    spans(planned).map(|(begin, end)| DisturbanceRecord {
        name: planned.name.clone(),
        begin_ms: begin.as_millis() as u64,
        end_ms: end.as_millis() as u64,
        effect: Effect::Took {
            counts: [("lost".to_string(), 7)].into(),
        },
        service: None,
    })
}

/// Of a server that mostly takes a millisecond, and seldom a hundred.
fn latencies() -> Vec<u64> {
    let share = |rank: usize| (rank as f64 + 0.5) / LATENCIES as f64;
    let tail = |share: f64| (1.0 - share).powf(-0.5);
    let ns = |rank| 1e6 * tail(share(rank));
    (0..LATENCIES).map(|rank| ns(rank) as u64).collect()
}
