//! One load on several hosts: the part of each host, and the merged result.

use std::time::Duration;

use record::load::{LoadResult, Second};
use record::thinned::Thinned;
use record::trend::Trend;

use crate::part::Part;
use crate::schedule::{Arrivals, Schedule};
use crate::traffic::{End, Traffic};

/// One host's part of a load, and how long after the common start it begins.
///
/// Connections, requests and the rate are divided. Hosts with equally spaced arrivals start one gap
/// after the other, so all arrivals together are equally spaced too. Seeds differ.
pub fn host_part(traffic: &Traffic, part: Part) -> (Traffic, Duration) {
    let mut host = traffic.clone();
    let mut delay = Duration::ZERO;
    host.connections = part.size(traffic.connections.into()) as u32;
    host.rotate_servers(part.range(traffic.connections.into()).start);
    // Random streams of different hosts must differ, however many threads each has.
    host.seed = traffic.seed.wrapping_add(u64::from(part.index) << 40);
    if let End::Count(count) = traffic.end {
        host.end = End::Count(part.size(count));
    }
    if let Schedule::Open {
        rate_per_s,
        arrivals,
    } = traffic.schedule
    {
        host.schedule = Schedule::Open {
            rate_per_s: rate_per_s / f64::from(part.count),
            arrivals,
        };
        if arrivals == Arrivals::Constant {
            delay = Duration::from_secs_f64(f64::from(part.index) / rate_per_s);
        }
    }
    (host, delay)
}

/// Adds up results of simultaneous loads: counts are added and histograms merged.
pub fn merge(results: &[LoadResult]) -> LoadResult {
    let mut all = LoadResult::default();
    for result in results {
        all.add(result);
    }
    all
}

/// Adds up successive runs, such as the steps of a ramp. Their windows are joined, and the number
/// of connections is the maximum of all runs.
pub fn chain(results: &[LoadResult]) -> LoadResult {
    let mut all = LoadResult::default();
    let mut timeline = Thinned::default();
    for result in results {
        let mut part = result.clone();
        let seconds = std::mem::take(&mut part.timeline);
        let cpu_ns = std::mem::take(&mut part.client_cpu_ns);
        let wait_ns = std::mem::take(&mut part.client_wait_ns);
        let LoadResult {
            window_ns,
            connections_asked,
            connections_held,
            ..
        } = all;
        all.add(&part);
        all.window_ns = window_ns + part.window_ns;
        // Trends of different runs have different origins and cannot be added.
        all.trend = Trend::default();
        all.connections_asked = connections_asked.max(part.connections_asked);
        all.connections_held = connections_held.max(part.connections_held);
        for second in seconds {
            timeline.push(Second {
                at_ms: second.at_ms + window_ns / 1_000_000,
                ..second
            });
        }
        add_threads(&mut all.client_cpu_ns, &cpu_ns);
        add_threads(&mut all.client_wait_ns, &wait_ns);
    }
    all.timeline = timeline.into_vec();
    all
}

/// Adds times thread by thread. Runs with few connections may have fewer threads.
fn add_threads(sums: &mut Vec<u64>, more: &[u64]) {
    sums.resize(sums.len().max(more.len()), 0);
    for (sum, ns) in sums.iter_mut().zip(more) {
        *sum += ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::Exchange;
    use crate::expect::Expect;
    use crate::traffic::Mix;
    use record::load::Fault;

    fn traffic() -> Traffic {
        let get = Exchange::get("/", Expect::status(200));
        Traffic {
            schedule: Schedule::Open {
                rate_per_s: 300.0,
                arrivals: Arrivals::Constant,
            },
            connections: 10,
            end: End::Count(100),
            ..Traffic::plain(([127, 0, 0, 1], 80).into(), Mix::Round(vec![get]))
        }
    }

    #[test]
    fn parts_add_up_to_the_whole() {
        let host_part = |index| host_part(&traffic(), Part { index, count: 3 });
        let parts: Vec<_> = (0..3).map(host_part).collect();
        let connections: Vec<_> = parts.iter().map(|(part, _)| part.connections).collect();
        assert_eq!(connections, [3, 3, 4]);
        let ends: Vec<_> = parts.iter().map(|(part, _)| part.end).collect();
        assert_eq!(ends, [33, 33, 34].map(End::Count));
        let rate = |part: &Traffic| match part.schedule {
            Schedule::Open { rate_per_s, .. } => rate_per_s,
            Schedule::Closed { .. } => 0.0,
        };
        assert!(
            parts
                .iter()
                .all(|(part, _)| (rate(part) - 100.0).abs() < 1e-9)
        );
        let gaps: Vec<_> = parts.iter().map(|(_, delay)| delay.as_micros()).collect();
        assert_eq!(gaps, [0, 3333, 6666]);
    }

    #[test]
    fn server_addresses_have_the_same_connections_as_on_one_host() {
        let mut traffic = traffic();
        traffic.more_servers = [81, 82, 83]
            .map(|port| ([127, 0, 0, 1], port).into())
            .into();
        let mut connections = std::collections::BTreeMap::<u16, u32>::new();
        for index in 0..6 {
            let (host, _) = host_part(&traffic, Part { index, count: 6 });
            let servers: Vec<_> = host.servers().collect();
            for server in servers.iter().cycle().take(host.connections as usize) {
                *connections.entry(server.port()).or_default() += 1;
            }
        }
        assert_eq!(connections, [(80, 3), (81, 3), (82, 2), (83, 2)].into());
    }

    #[test]
    fn percentiles_are_those_of_all_latencies_together() {
        let result = |low: u64, high: u64| {
            let mut result = LoadResult {
                planned: high - low + 1,
                ok: high - low,
                faults: [(Fault::Reset, 1)].into(),
                engine: "epoll".into(),
                timeline: vec![Second::default(); low as usize % 3],
                ..LoadResult::default()
            };
            (low..high).for_each(|value| result.latency.record(value * 1000));
            result
        };
        let merged = merge(&[result(1, 901), result(901, 1001)]);
        let mut expected = base::latency::Latency::new();
        (1..1001).for_each(|value| expected.record(value * 1000));
        assert_eq!(merged.latency, expected);
        // The mean of the two medians would be 700 µs.
        let p50 = merged.latency.quantile_ns(0.5) as f64;
        assert!((p50 / 500_000.0 - 1.0).abs() < 0.01, "{p50}");
        assert_eq!(
            (merged.planned, merged.ok, merged.fault_count()),
            (1002, 1000, 2)
        );
        assert_eq!(
            (merged.engine.as_str(), merged.timeline.len()),
            ("epoll", 1)
        );
    }

    #[test]
    fn long_windows_of_several_hosts_add_up_where_their_minutes_differ() {
        let result = |length: u64, ok| {
            let mut timeline = Thinned::default();
            for second in 0..length {
                timeline.push(Second {
                    at_ms: second * 1000,
                    ok,
                    ..Second::default()
                });
            }
            LoadResult {
                timeline: timeline.into_vec(),
                ..LoadResult::default()
            }
        };
        // The second host's load lasted a minute longer, so more of its seconds are joined.
        let merged = merge(&[result(7200, 3), result(7270, 4)]);
        let timeline = &merged.timeline;
        let ok = |timeline: &[Second]| timeline.iter().map(|second| second.ok).sum::<u64>();
        assert_eq!(ok(timeline), 7200 * 3 + 7270 * 4);
        assert!(timeline.is_sorted_by_key(|second| second.at_ms));
        let minute = timeline[5].joined.unwrap();
        assert_eq!((timeline[5].ok, minute.length_ms), (420, 60_000));
        assert_eq!((minute.least_ok, minute.most_ok), (7, 7));
        let chained = chain(&[result(7200, 3), result(7270, 4)]);
        assert_eq!(ok(&chained.timeline), 7200 * 3 + 7270 * 4);
    }
}
