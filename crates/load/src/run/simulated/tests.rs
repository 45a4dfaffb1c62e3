//! Deadlines, think times, stalls and rates, exact in simulated time.

use std::collections::BTreeMap;

use record::incidents::Incidents;
use record::load::Fault;

use super::*;
use crate::client_limits::{self, Pace, falls_behind, late_count, pace};
use crate::merge;
use crate::schedule::{Arrivals, Schedule, Think};
use crate::script::Script;
use crate::traffic::Mix;

const MS: Duration = Duration::from_millis(1);

fn at_rate(rate_per_s: f64) -> Traffic {
    Traffic {
        schedule: Schedule::Open {
            rate_per_s,
            arrivals: Arrivals::Constant,
        },
        warmup: 100 * MS,
        end: End::After(2000 * MS),
        ..traffic()
    }
}

fn near(seen: Duration, wanted: Duration, slack: Duration) -> bool {
    wanted <= seen && seen <= wanted + slack
}

fn ns(duration_ns: u64) -> Duration {
    Duration::from_nanos(duration_ns)
}

#[test]
fn latency_is_the_servers_service_time() {
    let result = run(&traffic(), &Server::new(4, 20 * MS));
    assert_eq!((result.ok, result.connections_opened), (40, 4));
    assert_eq!(result.latency.quantile_ns(0.5) / 100_000, 200);
    // Clients start 50 µs apart, and each sends ten requests.
    assert_eq!(ns(result.window_ns), 200 * MS + ns(150_000));
}

// envoyproxy/envoy#5788
#[test]
fn a_connection_that_the_server_leaves_open_costs_no_time() {
    let server = Server {
        behaviour: Behaviour::LeavesOpen,
        ..Server::new(4, 20 * MS)
    };
    let result = run(&traffic(), &server);
    assert_eq!((result.ok, result.connections_opened), (40, 40));
    // As with a server that keeps its connections.
    assert_eq!(ns(result.window_ns), 200 * MS + ns(150_000));
    let result = run(&at_rate(150.0), &server);
    assert_eq!((result.planned, result.ok), (300, 300));
    assert!(near(ns(result.latency.max_ns()), 20 * MS, MS), "{result:?}");
}

/// All forty requests fail in this way, each after its deadline of 100 ms.
fn check_time_out(behaviour: Behaviour, fault: Fault) {
    let traffic = Traffic {
        deadline: 100 * MS,
        ..traffic()
    };
    let result = run(&traffic, &Server::with_behaviour(behaviour));
    assert_eq!(
        result.faults,
        BTreeMap::from([(fault, 40)]),
        "{behaviour:?}"
    );
    assert!(near(ns(result.window_ns), 1000 * MS, 30 * MS), "{result:?}");
}

#[test]
fn a_time_out_is_classified_by_the_phase_of_the_request() {
    check_time_out(Behaviour::Silent, Fault::FirstByteTimeout);
    check_time_out(Behaviour::Half, Fault::WholeTimeout);
    check_time_out(Behaviour::Drips, Fault::WholeTimeout);
}

#[test]
fn a_full_backlog_times_out_in_connecting() {
    let traffic = Traffic {
        deadline: 100 * MS,
        ..traffic()
    };
    let result = run(&traffic, &Server::with_behaviour(Behaviour::NeverAccepts));
    assert_eq!(result.faults, BTreeMap::from([(Fault::ConnectTimeout, 40)]));
    // Clients do not try again at once.
    assert!(result.window_ns >= 1_000_000_000, "{result:?}");
}

#[test]
fn a_refused_connection_is_tried_again_every_100_ms() {
    let result = run(&traffic(), &Server::with_behaviour(Behaviour::Refuses));
    assert_eq!(result.faults, BTreeMap::from([(Fault::ConnectFailed, 40)]));
    assert_eq!(ns(result.window_ns), 900 * MS + ns(150_000));
}

#[test]
fn a_server_that_stalls_pays_for_every_request_that_it_kept_waiting() {
    let server = Server {
        stall: 600 * MS..1600 * MS,
        ..Server::new(4, Duration::from_micros(1))
    };
    let result = run(&at_rate(500.0), &server);
    assert_eq!((result.planned, result.ok), (1000, 1000));
    // 500 of 1000 requests wait, from 1 s for the first to 0 for the last. A closed loop would have
    // seen four slow requests.
    for (quantile, analytic_ms) in [(0.6, 200.0), (0.75, 500.0), (0.9, 800.0), (0.99, 980.0)] {
        let seen_ms = result.latency.quantile_ns(quantile) as f64 / 1e6;
        assert!(
            (seen_ms / analytic_ms - 1.0).abs() < 0.02,
            "{quantile}: {seen_ms} ms"
        );
    }
    // Only four requests were under way, so only four had a long service time. The client was never
    // late.
    assert!(result.service.quantile_ns(0.995) < 10_000);
    assert!(result.service.max_ns() > 990_000_000);
    assert_eq!(result.lateness.max_ns(), 0);
}

#[test]
fn requests_beyond_their_deadline_are_counted_as_unsent() {
    let traffic = Traffic {
        connections: 1,
        deadline: 50 * MS,
        warmup: Duration::ZERO,
        end: End::After(400 * MS),
        ..at_rate(4000.0)
    };
    let result = run(&traffic, &Server::with_behaviour(Behaviour::Silent));
    // The only connection is busy for 50 ms. Then waiting requests get it in turn, each for the
    // rest of its deadline, while the deadlines of others pass.
    assert_eq!((result.planned, result.ok), (1600, 0));
    assert!(result.unsent >= 400, "{result:?}");
}

#[test]
fn clients_think_between_requests() {
    let traffic = Traffic {
        schedule: Schedule::Closed {
            think: Think::always(50 * MS),
        },
        end: End::Count(20),
        ..traffic()
    };
    let result = run(&traffic, &Server::new(4, MS));
    assert_eq!((result.ok, result.lateness.count()), (20, 20));
    assert_eq!(result.lateness.max_ns(), 0);
    // Five requests of each client with four think times between them. Clients start within one
    // think time.
    let took = ns(result.window_ns);
    assert!(205 * MS <= took && took <= 256 * MS, "{took:?}");
}

#[test]
fn a_stalled_server_times_out_every_client_once() {
    let traffic = Traffic {
        deadline: 100 * MS,
        end: End::After(50 * MS),
        ..traffic()
    };
    let result = run(&traffic, &Server::with_behaviour(Behaviour::Silent));
    assert_eq!(
        result.faults,
        BTreeMap::from([(Fault::FirstByteTimeout, 4)])
    );
}

#[test]
fn a_run_that_the_user_ends_is_right_for_its_time() {
    let endless = Traffic {
        end: End::After(Duration::from_secs(60)),
        ..traffic()
    };
    let (result, _) = run_until(&endless, &Server::new(4, MS), 300 * MS);
    assert_eq!(ns(result.window_ns), 300 * MS);
    assert_eq!((result.planned, result.withdrawn), (result.ok, 0));
    // 4 clients, 1 ms per request: 300 requests each, and one that began at the very end.
    assert!((1196..=1201).contains(&result.ok), "{}", result.ok);
    // The responses to the last four requests came after the window.
    let shown: u64 = result.timeline.iter().map(|second| second.ok).sum();
    assert!(result.ok - 4 <= shown && shown <= result.ok);
}

#[test]
fn a_hanging_request_is_withdrawn_when_the_user_ends_the_run() {
    let endless = Traffic {
        deadline: Duration::from_secs(60),
        end: End::After(Duration::from_secs(60)),
        ..traffic()
    };
    let (result, took) = run_until(
        &endless,
        &Server::with_behaviour(Behaviour::Silent),
        100 * MS,
    );
    assert_eq!((result.planned, result.withdrawn), (0, 4));
    assert!(took <= 200 * MS, "{took:?}");
}

/// An open loop with a server that answers at most 200 requests per second. Also returns whether it
/// fell behind.
fn at_rate_for(rate_per_s: f64, seconds: u64, arrivals: Arrivals) -> (LoadResult, bool) {
    let traffic = Traffic {
        schedule: Schedule::Open {
            rate_per_s,
            arrivals,
        },
        warmup: 1000 * MS,
        deadline: Duration::from_secs(60),
        end: End::After(Duration::from_secs(seconds)),
        ..traffic()
    };
    let result = run(&traffic, &Server::new(4, 20 * MS));
    let is_behind = falls_behind(&result, &traffic);
    (result, is_behind)
}

#[test]
fn throughput_past_saturation_is_what_the_server_does_and_the_rest_waits() {
    let (result, is_behind) = at_rate_for(280.0, 10, Arrivals::Constant);
    // All are answered within 4 s after the window.
    assert_eq!((result.planned, result.ok), (2800, 2800));
    assert_eq!(result.ok_per_s().round() as u64, 200);
    assert_eq!(result.backlog_growth_per_s().round() as u64, 80);
    assert!(result.backlog_open.abs_diff(80) <= 4, "{result:?}");
    assert!(is_behind);
    // The last request of the window waits for 880 others.
    let longest = ns(result.latency.max_ns());
    assert!(near(longest, 4350 * MS, 100 * MS), "{longest:?}");
    let shown: u64 = result.timeline.iter().map(|second| second.ok).sum();
    assert_eq!(result.ok_in_window, shown);
}

#[test]
fn a_server_that_keeps_up_has_no_growing_backlog() {
    for (rate_per_s, arrivals) in [
        (100.0, Arrivals::Constant),
        (199.0, Arrivals::Constant),
        (100.0, Arrivals::Poisson),
        (190.0, Arrivals::Poisson),
    ] {
        let (result, is_behind) = at_rate_for(rate_per_s, 60, arrivals);
        assert!(!is_behind, "{rate_per_s} {arrivals:?}: {result:?}");
        let off = result.ok_per_s() / (result.planned as f64 / 60.0) - 1.0;
        assert!(off.abs() < 0.02, "{rate_per_s} {arrivals:?}: {off}");
    }
}

#[test]
fn a_slight_overload_is_detected_in_a_long_run() {
    for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
        let (result, is_behind) = at_rate_for(210.0, 60, arrivals);
        assert!(is_behind, "{arrivals:?}: {result:?}");
    }
}

#[test]
fn a_queue_limited_by_deadlines_means_falling_behind() {
    let hasty = Traffic {
        deadline: 500 * MS,
        warmup: 5000 * MS,
        end: End::After(Duration::from_secs(10)),
        ..at_rate(280.0)
    };
    let result = run(&hasty, &Server::new(4, 20 * MS));
    // The queue no longer grows, because requests beyond their deadline are not sent.
    assert!(result.backlog_growth_per_s().abs() < 5.0, "{result:?}");
    assert!(late_count(&result) > 100 && falls_behind(&result, &hasty));
}

#[test]
fn a_run_that_the_user_ends_is_over_at_once_despite_many_due_requests() {
    for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
        let flood = Traffic {
            schedule: Schedule::Open {
                rate_per_s: 1e6,
                arrivals,
            },
            warmup: Duration::ZERO,
            deadline: Duration::from_secs(60),
            end: End::After(Duration::from_secs(60)),
            ..traffic()
        };
        let (result, took) = run_until(
            &flood,
            &Server::with_behaviour(Behaviour::Silent),
            3000 * MS,
        );
        assert_eq!((result.ok, result.withdrawn), (0, 4));
        let due = result.unsent as f64 / 3e6;
        assert!((due - 1.0).abs() < 0.002, "{arrivals:?}: {due}");
        assert_eq!(result.backlog_close, result.unsent + 4);
        assert!(took < 3100 * MS, "{took:?}");
    }
}

#[test]
fn refused_connections_of_an_open_loop_have_an_outcome_each() {
    let result = run(
        &at_rate(1000.0),
        &Server::with_behaviour(Behaviour::Refuses),
    );
    assert_eq!(
        result.faults,
        BTreeMap::from([(Fault::ConnectFailed, 2000)])
    );
}

#[test]
fn visitors_arrive_at_a_rate_independently_of_each_other() {
    let text = "visit /\nthink 500ms\nvisit /next\n";
    let mut script = Script::read("shop", text).unwrap();
    for path in ["/", "/next"] {
        script.expect(path, &Expect::body(BODY));
    }
    let visits = Traffic {
        mix: Mix::Sessions(script),
        connections: 100,
        warmup: 1000 * MS,
        end: End::After(Duration::from_secs(10)),
        ..at_rate(20.0)
    };
    let result = run(&visits, &Server::new(100, 10 * MS));
    // Twenty visitors per second with two requests each. Think time is not part of the latency.
    assert!(result.planned.abs_diff(400) <= 1, "{result:?}");
    assert_eq!(result.planned, result.ok);
    assert!(result.sessions.abs_diff(200) <= 1, "{result:?}");
    assert!(result.sessions_begun.abs_diff(200) <= 1, "{result:?}");
    assert_eq!(pace(&result, &visits, 0), Pace::Kept);
    assert!(near(ns(result.latency.max_ns()), 10 * MS, MS), "{result:?}");
    assert_eq!(result.lateness.max_ns(), 0);
    // Five connections for half a second each serve ten visitors per second; the others wait.
    let few = Traffic {
        connections: 5,
        deadline: Duration::from_secs(60),
        ..visits.clone()
    };
    let result = run(&few, &Server::new(100, 10 * MS));
    assert!(result.sessions_begun.abs_diff(100) <= 5, "{result:?}");
    // The server takes only 10 ms of a visit, so it is not the bottleneck.
    assert_eq!(
        pace(&result, &few, 0),
        Pace::TooFewConnections,
        "{result:?}"
    );
    assert!(ns(result.latency.max_ns()) > 4000 * MS, "{result:?}");
    // With enough connections and a server for ten visits per second, it is.
    let result = run(&visits, &Server::new(1, 50 * MS));
    assert_eq!(pace(&result, &visits, 0), Pace::ServerBehind, "{result:?}");
}

/// The pace of a run with these warm-up and window lengths.
fn pace_at(
    rate_per_s: f64,
    warmup_ms: u32,
    window_ms: u32,
    connections: u32,
    server: &Server,
) -> Pace {
    let traffic = Traffic {
        connections,
        warmup: warmup_ms * MS,
        deadline: Duration::from_secs(60),
        end: End::After(window_ms * MS),
        ..at_rate(rate_per_s)
    };
    let result = run(&traffic, server);
    assert_eq!(result.planned, result.ok, "{result:?}");
    pace(&result, &traffic, 0)
}

#[test]
fn a_server_below_the_rate_is_detected_with_any_number_of_connections() {
    // At most 1000 requests per second; others wait in the server.
    let capped = Server::new(1, MS);
    for connections in [64, 1000, 2000] {
        for (rate_per_s, warmup_ms, window_ms, expected) in [
            (1900.0, 1000, 1000, Pace::ServerBehind),
            (2000.0, 1000, 1000, Pace::ServerBehind),
            (1300.0, 1000, 5000, Pace::ServerBehind),
            (1100.0, 1000, 1000, Pace::ServerBehind),
            (2000.0, 0, 200, Pace::ServerBehind),
            (1050.0, 1000, 10_000, Pace::ServerBehind),
            (990.0, 1000, 1000, Pace::Kept),
            (990.0, 0, 200, Pace::Kept),
            (990.0, 1000, 10_000, Pace::Kept),
        ] {
            let pace = pace_at(rate_per_s, warmup_ms, window_ms, connections, &capped);
            assert_eq!(
                pace, expected,
                "{rate_per_s}/s {warmup_ms} {window_ms} {connections}"
            );
        }
    }
}

#[test]
fn a_slow_server_that_keeps_up_is_not_behind() {
    let slow = Server::new(usize::MAX, 2000 * MS);
    for (warmup_ms, window_ms, connections, expected) in [
        (0, 500, 2000, Pace::Kept),
        (0, 1000, 2000, Pace::Kept),
        (1000, 1000, 2000, Pace::Kept),
        (1000, 5000, 2000, Pace::Kept),
        (3000, 1000, 2000, Pace::Kept),
        // 64 connections allow 32 requests per second.
        (1000, 5000, 64, Pace::ServerBehind),
    ] {
        let pace = pace_at(100.0, warmup_ms, window_ms, connections, &slow);
        assert_eq!(pace, expected, "{warmup_ms} {window_ms} {connections}");
    }
}

#[test]
fn a_server_that_stalls_once_is_behind_only_if_the_window_ends_with_the_stall() {
    let stalled = |from_ms: u32, to_ms: u32| Server {
        stall: from_ms * MS..to_ms * MS,
        ..Server::new(64, MS)
    };
    for (from_ms, to_ms, expected) in [
        // The window is from 1 s to 3 s: a slow start, a stall at its beginning, in its middle, and
        // a short one at its end.
        (0, 900, Pace::Kept),
        (800, 1300, Pace::Kept),
        (1500, 2200, Pace::Kept),
        (2950, 3020, Pace::Kept),
        // Here the server does not recover within the window.
        (2000, 3001, Pace::ServerBehind),
        (1100, 3001, Pace::ServerBehind),
        (2500, 4000, Pace::ServerBehind),
    ] {
        let pace = pace_at(500.0, 1000, 2000, 64, &stalled(from_ms, to_ms));
        assert_eq!(pace, expected, "{from_ms} ms to {to_ms} ms");
    }
}

/// A client that stalls for a second, and a server with this service time.
fn client_stall(service: Duration) -> Server {
    Server {
        client_stall: 600 * MS..1600 * MS,
        ..Server::new(4, service)
    }
}

#[test]
fn a_stall_of_the_client_counts_as_send_delay() {
    let result = run(&at_rate(500.0), &client_stall(MS / 1000));
    let incidents = result.incidents;
    assert_eq!((result.planned, result.ok), (1000, 1000));
    // A stall of the server has the same latencies, but no send delay.
    for (quantile, analytic_ms) in [(0.6, 200.0), (0.75, 500.0), (0.9, 800.0), (0.99, 980.0)] {
        for histogram in [&result.latency, &result.lateness] {
            let seen_ms = histogram.quantile_ns(quantile) as f64 / 1e6;
            let off = seen_ms / analytic_ms - 1.0;
            assert!(off.abs() < 0.03, "{quantile}: {seen_ms} ms");
        }
    }
    assert_eq!(incidents.stalls, 1);
    assert!(incidents.longest_stall_ns.abs_diff(1_000_000_000) < 3_000_000);
    assert!(
        incidents.stalled_requests.abs_diff(500) <= 5,
        "{incidents:?}"
    );
    let late = client_limits::late(&result).unwrap();
    assert!(late.send_delay_ns > 970_000_000);
}

#[test]
fn stalls_of_all_hosts_and_steps_are_in_one_result() {
    let [quiet, one, other] = [Server::new(4, MS), client_stall(MS), client_stall(MS)]
        .map(|server| run(&at_rate(500.0), &server));
    let all = [quiet, one.clone(), other];
    for sum in [merge::merge(&all), merge::chain(&all)] {
        assert_eq!(sum.incidents.stalls, 2);
        assert_eq!(
            sum.incidents.stalled_requests,
            2 * one.incidents.stalled_requests
        );
        assert_eq!(
            sum.incidents.longest_stall_ns,
            one.incidents.longest_stall_ns
        );
        let recorded = serde_json::to_string(&sum).unwrap();
        let read: record::load::LoadResult = serde_json::from_str(&recorded).unwrap();
        assert_eq!(read.incidents, sum.incidents);
        // A stall of a second, in two of three results.
        assert_eq!(read.stalled_quantile([0.99, 0.75, 0.5]), Some(0.75));
    }
}

#[test]
fn a_queue_after_a_stall_of_the_client_counts_as_send_delay() {
    // Four at a time in 7 ms each: 571 per second, so that the queue lasts for seconds.
    let traffic = Traffic {
        end: End::After(4000 * MS),
        ..at_rate(500.0)
    };
    let result = run(&traffic, &client_stall(7 * MS));
    let [delay_ns, latency_ns] =
        [&result.lateness, &result.latency].map(|histogram| histogram.quantile_ns(0.25));
    assert!(latency_ns > 300_000_000, "{latency_ns}");
    assert!(
        delay_ns as f64 > 0.9 * latency_ns as f64,
        "{delay_ns} of {latency_ns}"
    );
}

#[test]
fn a_stall_of_the_client_at_the_end_is_not_the_servers_backlog() {
    let traffic = at_rate(500.0);
    for stall in [1500 * MS..2500 * MS, 2050 * MS..3000 * MS] {
        let server = Server {
            client_stall: stall.clone(),
            ..Server::new(4, MS)
        };
        let result = run(&traffic, &server);
        assert!(result.backlog_close > 10, "{stall:?}: {result:?}");
        let stalled = result.incidents.stalled_backlog;
        assert!(
            stalled.abs_diff(result.backlog_close) <= 4,
            "{stall:?}: {stalled}"
        );
        assert_eq!(pace(&result, &traffic, stalled), Pace::Kept, "{stall:?}");
    }
    let pace = pace_at(500.0, 100, 2000, 4, &Server::new(4, 20 * MS));
    assert_eq!(pace, Pace::ServerBehind);
}

#[test]
fn responses_that_waited_for_a_stalled_client_are_counted() {
    let closed = Traffic {
        schedule: Schedule::Closed { think: Think::NONE },
        warmup: 100 * MS,
        end: End::After(2000 * MS),
        ..traffic()
    };
    let result = run(&closed, &client_stall(MS));
    let incidents = result.incidents;
    assert_eq!(incidents.stalls, 1);
    // One on each connection, whose response had already come.
    assert_eq!(incidents.stalled_requests, 4, "{result:?}");
    assert!(result.latency.max_ns() > 970_000_000);
    let warnings = client_limits::warnings(&result, &closed, None);
    let stalled = |warnings: &[client_limits::Warning]| {
        warnings.iter().find_map(|warning| match warning {
            client_limits::Warning::Stalled { requests, .. } => Some(*requests),
            _ => None,
        })
    };
    assert_eq!(stalled(&warnings), Some(4), "{warnings:?}");
    let quiet = run(&closed, &Server::new(4, MS));
    assert_eq!(quiet.incidents, Incidents::default());
    // On a busy host this thread waits for a CPU, which is another warning.
    let warnings = client_limits::warnings(&quiet, &closed, None);
    assert_eq!(stalled(&warnings), None, "{warnings:?}");
}

#[test]
fn a_stall_of_thinking_clients_counts_as_send_delay() {
    let thinking = Traffic {
        schedule: Schedule::Closed {
            think: Think::always(50 * MS),
        },
        warmup: 100 * MS,
        end: End::After(2000 * MS),
        ..traffic()
    };
    let result = run(&thinking, &client_stall(MS));
    assert_eq!(result.incidents.stalled_requests, 4);
    assert!(result.lateness.max_ns() > 900_000_000, "{result:?}");
}

#[test]
fn a_deadline_that_passes_in_a_stall_of_the_client_is_not_a_time_out_of_the_server() {
    for (schedule, service) in [
        (at_rate(500.0).schedule, MS),
        // Connections were busy when the stall began.
        (at_rate(70.0).schedule, 50 * MS),
        (Schedule::Closed { think: Think::NONE }, MS),
    ] {
        let hasty = Traffic {
            schedule,
            deadline: 300 * MS,
            ..at_rate(500.0)
        };
        let result = run(&hasty, &client_stall(service));
        let late = result.faults.get(&Fault::ClientLate).copied().unwrap_or(0);
        assert_eq!(
            (result.fault_count(), result.unsent),
            (late, 0),
            "{schedule:?}"
        );
    }
}

#[test]
fn a_stall_of_the_server_is_not_an_incident_of_the_client() {
    let server = Server {
        stall: 600 * MS..1600 * MS,
        ..Server::new(4, MS)
    };
    let result = run(&at_rate(500.0), &server);
    assert_eq!(
        (result.incidents, result.lateness.max_ns()),
        (Incidents::default(), 0)
    );
}
