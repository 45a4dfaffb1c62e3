//! What needs time: deadlines, rests, stalls, rates. Exact, because nothing else uses this clock.

use std::collections::BTreeMap;

use record::incidents::Incidents;

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
fn a_right_answer_takes_what_the_server_takes() {
    let result = run(&traffic(), &Server::of(4, 20 * MS));
    assert_eq!((result.ok, result.connections_opened), (40, 4));
    assert_eq!(result.latency.quantile_ns(0.5) / 100_000, 200);
    // Clients begin 50 µs one after the other, and each asks ten times.
    assert_eq!(ns(result.window_ns), 200 * MS + ns(150_000));
}

// envoyproxy/envoy#5788
#[test]
fn a_connection_that_the_server_leaves_open_costs_no_time() {
    let server = Server {
        behaviour: Behaviour::LeavesOpen,
        ..Server::of(4, 20 * MS)
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
    let result = run(&traffic, &Server::that(behaviour));
    assert_eq!(
        result.faults,
        BTreeMap::from([(fault, 40)]),
        "{behaviour:?}"
    );
    assert!(near(ns(result.window_ns), 1000 * MS, 30 * MS), "{result:?}");
}

#[test]
fn a_deadline_is_called_by_how_far_the_request_came() {
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
    let result = run(&traffic, &Server::that(Behaviour::NeverAccepts));
    assert_eq!(result.faults, BTreeMap::from([(Fault::ConnectTimeout, 40)]));
    // Not asked again at once either.
    assert!(result.window_ns >= 1_000_000_000, "{result:?}");
}

#[test]
fn a_server_that_refuses_is_asked_every_100_ms() {
    let result = run(&traffic(), &Server::that(Behaviour::Refuses));
    assert_eq!(result.faults, BTreeMap::from([(Fault::ConnectFailed, 40)]));
    assert_eq!(ns(result.window_ns), 900 * MS + ns(150_000));
}

#[test]
fn a_server_that_stalls_pays_for_every_request_that_it_kept_waiting() {
    let server = Server {
        stall: 600 * MS..1600 * MS,
        ..Server::of(4, Duration::from_micros(1))
    };
    let result = run(&at_rate(500.0), &server);
    assert_eq!((result.planned, result.ok), (1000, 1000));
    // 500 of 1000 requests wait, the first of them 1 s, the last not at all, the others between: a
    // closed loop would have seen four slow ones.
    for (quantile, analytic_ms) in [(0.6, 200.0), (0.75, 500.0), (0.9, 800.0), (0.99, 980.0)] {
        let seen_ms = result.latency.quantile_ns(quantile) as f64 / 1e6;
        assert!(
            (seen_ms / analytic_ms - 1.0).abs() < 0.02,
            "{quantile}: {seen_ms} ms"
        );
    }
    // Only four were under way, so only four were served slowly; and the client itself was never
    // late.
    assert!(result.service.quantile_ns(0.995) < 10_000);
    assert!(result.service.max_ns() > 990_000_000);
    assert_eq!(result.lateness.max_ns(), 0);
}

#[test]
fn what_nobody_could_send_is_counted_as_unsent() {
    let traffic = Traffic {
        connections: 1,
        deadline: 50 * MS,
        warmup: Duration::ZERO,
        end: End::After(400 * MS),
        ..at_rate(4000.0)
    };
    let result = run(&traffic, &Server::that(Behaviour::Silent));
    // The only connection is taken for 50 ms. Then those that have waited as long get it in turn,
    // each for the rest of its deadline, while others run out of theirs.
    assert_eq!((result.planned, result.ok), (1600, 0));
    assert!(result.unsent >= 400, "{result:?}");
}

#[test]
fn thinking_clients_rest_between_requests() {
    let traffic = Traffic {
        schedule: Schedule::Closed {
            think: Think::always(50 * MS),
        },
        end: End::Count(20),
        ..traffic()
    };
    let result = run(&traffic, &Server::of(4, MS));
    assert_eq!((result.ok, result.lateness.count()), (20, 20));
    assert_eq!(result.lateness.max_ns(), 0);
    // Five requests of each client with four rests between them; clients begin within the first
    // rest.
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
    let result = run(&traffic, &Server::that(Behaviour::Silent));
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
    let (result, _) = run_until(&endless, &Server::of(4, MS), 300 * MS);
    assert_eq!(ns(result.window_ns), 300 * MS);
    assert_eq!((result.planned, result.withdrawn), (result.ok, 0));
    // 4 clients, 1 ms each: 300 requests of each, and one that began at the very end.
    assert!((1196..=1201).contains(&result.ok), "{}", result.ok);
    // The responses to the last four requests came when the window was closed.
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
    let (result, took) = run_until(&endless, &Server::that(Behaviour::Silent), 100 * MS);
    assert_eq!((result.planned, result.withdrawn), (0, 4));
    assert!(took <= 200 * MS, "{took:?}");
}

/// An open loop on four workers that take 20 ms each: 200 requests per second and not one more.
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
    let result = run(&traffic, &Server::of(4, 20 * MS));
    let is_behind = falls_behind(&result, &traffic);
    (result, is_behind)
}

#[test]
fn throughput_past_saturation_is_what_the_server_does_and_the_rest_waits() {
    let (result, is_behind) = at_rate_for(280.0, 10, Arrivals::Constant);
    // All are answered in the end, 4 s after the window.
    assert_eq!((result.planned, result.ok), (2800, 2800));
    assert_eq!(result.ok_per_s().round() as u64, 200);
    assert_eq!(result.backlog_growth_per_s().round() as u64, 80);
    assert!(result.backlog_open.abs_diff(80) <= 4, "{result:?}");
    assert!(is_behind);
    // Latency is from the scheduled send time: the last request of the window waits for 880 others.
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
fn a_little_too_much_is_found_when_the_run_is_long_enough() {
    for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
        let (result, is_behind) = at_rate_for(210.0, 60, arrivals);
        assert!(is_behind, "{arrivals:?}: {result:?}");
    }
}

#[test]
fn a_queue_that_is_as_long_as_the_deadline_is_none_that_is_kept_up_with() {
    let hasty = Traffic {
        deadline: 500 * MS,
        warmup: 5000 * MS,
        end: End::After(Duration::from_secs(10)),
        ..at_rate(280.0)
    };
    let result = run(&hasty, &Server::of(4, 20 * MS));
    // It grows no more, because what waits too long is never sent.
    assert!(result.backlog_growth_per_s().abs() < 5.0, "{result:?}");
    assert!(late_count(&result) > 100 && falls_behind(&result, &hasty));
}

#[test]
fn a_run_that_the_user_ends_is_over_at_once_whatever_is_due() {
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
        let (result, took) = run_until(&flood, &Server::that(Behaviour::Silent), 3000 * MS);
        assert_eq!((result.ok, result.withdrawn), (0, 4));
        let due = result.unsent as f64 / 3e6;
        assert!((due - 1.0).abs() < 0.002, "{arrivals:?}: {due}");
        assert_eq!(result.backlog_close, result.unsent + 4);
        assert!(took < 3100 * MS, "{took:?}");
    }
}

#[test]
fn refused_connections_of_an_open_loop_have_an_outcome_each() {
    let result = run(&at_rate(1000.0), &Server::that(Behaviour::Refuses));
    assert_eq!(
        result.faults,
        BTreeMap::from([(Fault::ConnectFailed, 2000)])
    );
}

#[test]
fn visitors_come_at_a_rate_and_do_not_wait_for_one_another() {
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
    let result = run(&visits, &Server::of(100, 10 * MS));
    // Twenty visitors per second of two requests each; half a second of thinking is nobody's
    // latency.
    assert!(result.planned.abs_diff(400) <= 1, "{result:?}");
    assert_eq!(result.planned, result.ok);
    assert!(result.sessions.abs_diff(200) <= 1, "{result:?}");
    assert!(result.sessions_begun.abs_diff(200) <= 1, "{result:?}");
    assert_eq!(pace(&result, &visits, 0), Pace::Kept);
    assert!(near(ns(result.latency.max_ns()), 10 * MS, MS), "{result:?}");
    assert_eq!(result.lateness.max_ns(), 0);
    // Five places for half a second each are ten visitors per second: the others wait at the door.
    let few = Traffic {
        connections: 5,
        deadline: Duration::from_secs(60),
        ..visits.clone()
    };
    let result = run(&few, &Server::of(100, 10 * MS));
    assert!(result.sessions_begun.abs_diff(100) <= 5, "{result:?}");
    // The server takes 10 ms of a visit: it was not what they waited for.
    assert_eq!(
        pace(&result, &few, 0),
        Pace::TooFewConnections,
        "{result:?}"
    );
    assert!(ns(result.latency.max_ns()) > 4000 * MS, "{result:?}");
    // With places enough and a server that does ten visits a second it is.
    let result = run(&visits, &Server::of(1, 50 * MS));
    assert_eq!(pace(&result, &visits, 0), Pace::ServerBehind, "{result:?}");
}

/// What is said of a server at a rate, with a warm-up and a window in milliseconds.
fn pace_at(rate_per_s: f64, times_ms: (u32, u32), connections: u32, server: &Server) -> Pace {
    let traffic = Traffic {
        connections,
        warmup: times_ms.0 * MS,
        deadline: Duration::from_secs(60),
        end: End::After(times_ms.1 * MS),
        ..at_rate(rate_per_s)
    };
    let result = run(&traffic, server);
    assert_eq!(result.planned, result.ok, "{result:?}");
    pace(&result, &traffic, 0)
}

#[test]
fn a_server_that_does_less_is_found_however_many_connections_wait_on_it() {
    // A thousand requests per second, and what comes sooner waits in the server.
    let capped = Server::of(1, MS);
    for connections in [64, 1000, 2000] {
        for (rate_per_s, times_ms) in [
            (1900.0, (1000, 1000)),
            (2000.0, (1000, 1000)),
            (1300.0, (1000, 5000)),
            (1100.0, (1000, 1000)),
            (2000.0, (0, 200)),
            (1050.0, (1000, 10_000)),
        ] {
            let pace = pace_at(rate_per_s, times_ms, connections, &capped);
            assert_eq!(
                pace,
                Pace::ServerBehind,
                "{rate_per_s}/s {times_ms:?} {connections}"
            );
        }
        for times_ms in [(1000, 1000), (0, 200), (1000, 10_000)] {
            let pace = pace_at(990.0, times_ms, connections, &capped);
            assert_eq!(pace, Pace::Kept, "{times_ms:?} {connections}");
        }
    }
}

#[test]
fn a_server_that_takes_long_and_keeps_up_is_not_blamed() {
    let slow = Server::of(usize::MAX, 2000 * MS);
    for times_ms in [
        (0, 500),
        (0, 1000),
        (1000, 1000),
        (1000, 5000),
        (3000, 1000),
    ] {
        let pace = pace_at(100.0, times_ms, 2000, &slow);
        assert_eq!(pace, Pace::Kept, "{times_ms:?}");
    }
    // With 64 connections it can be asked 32 times a second.
    assert_eq!(pace_at(100.0, (1000, 5000), 64, &slow), Pace::ServerBehind);
}

#[test]
fn a_server_that_stalls_once_is_not_blamed_for_it_unless_the_window_ends_so() {
    let stalled = |from_ms: u32, to_ms: u32| Server {
        stall: from_ms * MS..to_ms * MS,
        ..Server::of(64, MS)
    };
    // The window is from 1 s to 3 s: a slow start, a stall at its beginning, in its middle, and a
    // short one at its end.
    for (from_ms, to_ms) in [(0, 900), (800, 1300), (1500, 2200), (2950, 3020)] {
        let pace = pace_at(500.0, (1000, 2000), 64, &stalled(from_ms, to_ms));
        assert_eq!(pace, Pace::Kept, "{from_ms} ms to {to_ms} ms");
    }
    // Here the window has nothing to show that it would have got better.
    for (from_ms, to_ms) in [(2000, 3001), (1100, 3001), (2500, 4000)] {
        let pace = pace_at(500.0, (1000, 2000), 64, &stalled(from_ms, to_ms));
        assert_eq!(pace, Pace::ServerBehind, "{from_ms} ms to {to_ms} ms");
    }
}

/// A client that is held up for a second, and a server that takes so long for a request.
fn held_up(service: Duration) -> Server {
    Server {
        client_stall: 600 * MS..1600 * MS,
        ..Server::of(4, service)
    }
}

#[test]
fn what_was_due_while_the_client_was_held_up_is_late_by_its_doing() {
    let result = run(&at_rate(500.0), &held_up(MS / 1000));
    let incidents = result.incidents;
    assert_eq!((result.planned, result.ok), (1000, 1000));
    // A stall of the server has the same latencies, and no send delay at all.
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
    let [quiet, one, other] =
        [Server::of(4, MS), held_up(MS), held_up(MS)].map(|server| run(&at_rate(500.0), &server));
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
        // A second of two thirds of what was due.
        assert_eq!(read.stalled_quantile([0.99, 0.75, 0.5]), Some(0.75));
    }
}

#[test]
fn a_queue_that_a_stall_of_the_client_left_is_its_doing_too() {
    // Four at a time in 7 ms each: 571 per second, so that the queue lasts for seconds.
    let traffic = Traffic {
        end: End::After(4000 * MS),
        ..at_rate(500.0)
    };
    let result = run(&traffic, &held_up(7 * MS));
    let [own, all] = [&result.lateness, &result.latency].map(|each| each.quantile_ns(0.25));
    assert!(all > 300_000_000, "{all}");
    assert!(own as f64 > 0.9 * all as f64, "{own} of {all}");
}

#[test]
fn a_stall_of_the_client_at_the_end_is_no_backlog_of_the_server() {
    let traffic = at_rate(500.0);
    for stall in [1500 * MS..2500 * MS, 2050 * MS..3000 * MS] {
        let server = Server {
            client_stall: stall.clone(),
            ..Server::of(4, MS)
        };
        let result = run(&traffic, &server);
        assert!(result.backlog_close > 10, "{stall:?}: {result:?}");
        let own = result.incidents.stalled_backlog;
        assert!(own.abs_diff(result.backlog_close) <= 4, "{stall:?}: {own}");
        assert_eq!(pace(&result, &traffic, own), Pace::Kept, "{stall:?}");
    }
    assert_eq!(
        pace_at(500.0, (100, 2000), 4, &Server::of(4, 20 * MS)),
        Pace::ServerBehind
    );
}

#[test]
fn responses_that_waited_for_a_client_that_was_held_up_are_counted() {
    let closed = Traffic {
        schedule: Schedule::Closed { think: Think::NONE },
        warmup: 100 * MS,
        end: End::After(2000 * MS),
        ..traffic()
    };
    let result = run(&closed, &held_up(MS));
    let incidents = result.incidents;
    assert_eq!(incidents.stalls, 1);
    // One on each connection, whose response was there all the time.
    assert_eq!(incidents.stalled_requests, 4, "{result:?}");
    assert!(result.latency.max_ns() > 970_000_000);
    let warnings = client_limits::warnings(&result, &closed, None);
    assert!(
        warnings
            .iter()
            .any(|warning| matches!(warning, client_limits::Warning::Stalled { requests: 4, .. })),
        "{warnings:?}"
    );
    let quiet = run(&closed, &Server::of(4, MS));
    assert_eq!(quiet.incidents, Incidents::default());
    assert_eq!(client_limits::warnings(&quiet, &closed, None), []);
}

#[test]
fn thinking_clients_that_are_held_up_are_late_by_it() {
    let thinking = Traffic {
        schedule: Schedule::Closed {
            think: Think::always(50 * MS),
        },
        warmup: 100 * MS,
        end: End::After(2000 * MS),
        ..traffic()
    };
    let result = run(&thinking, &held_up(MS));
    assert_eq!(result.incidents.stalled_requests, 4);
    assert!(result.lateness.max_ns() > 900_000_000, "{result:?}");
}

#[test]
fn a_deadline_that_passes_while_the_client_is_held_up_is_no_time_out_of_the_server() {
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
        let result = run(&hasty, &held_up(service));
        let own = result.faults.get(&Fault::ClientLate).copied().unwrap_or(0);
        assert_eq!(
            (result.fault_count(), result.unsent),
            (own, 0),
            "{schedule:?}"
        );
    }
}

#[test]
fn a_server_that_stalls_is_blamed_and_not_the_client() {
    let server = Server {
        stall: 600 * MS..1600 * MS,
        ..Server::of(4, MS)
    };
    let result = run(&at_rate(500.0), &server);
    assert_eq!(
        (result.incidents, result.lateness.max_ns()),
        (Incidents::default(), 0)
    );
}
