//! What needs time: deadlines, rests, stalls, rates. Exact, because nothing else uses this clock.

use std::collections::BTreeMap;

use super::*;
use crate::blame::{falls_behind, late_count};
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
    // Clients begin 50 us one after the other, and each asks ten times.
    assert_eq!(ns(result.window_ns), 200 * MS + ns(150_000));
}

/// All forty requests fail in this way, each after its deadline of 100 ms.
fn check_time_out(manner: Manner, fault: Fault) {
    let traffic = Traffic {
        deadline: 100 * MS,
        ..traffic()
    };
    let result = run(&traffic, &Server::that(manner));
    assert_eq!(result.faults, BTreeMap::from([(fault, 40)]), "{manner:?}");
    assert!(near(ns(result.window_ns), 1000 * MS, 30 * MS), "{result:?}");
}

#[test]
fn a_deadline_is_called_by_how_far_the_request_came() {
    check_time_out(Manner::Silent, Fault::FirstByteTimeout);
    check_time_out(Manner::Half, Fault::WholeTimeout);
    check_time_out(Manner::Drips, Fault::WholeTimeout);
}

#[test]
fn a_full_backlog_times_out_in_connecting() {
    let traffic = Traffic {
        deadline: 100 * MS,
        ..traffic()
    };
    let result = run(&traffic, &Server::that(Manner::NeverAccepts));
    assert_eq!(result.faults, BTreeMap::from([(Fault::ConnectTimeout, 40)]));
    // Not asked again at once either.
    assert!(result.window_ns >= 1_000_000_000, "{result:?}");
}

#[test]
fn a_server_that_refuses_is_asked_every_100_ms() {
    let result = run(&traffic(), &Server::that(Manner::Refuses));
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
    // 500 of 1000 requests wait, the first of them 1 s, the last not at all, the others between: a closed loop
    // would have seen four slow ones.
    for (quantile, analytic_ms) in [(0.6, 200.0), (0.75, 500.0), (0.9, 800.0), (0.99, 980.0)] {
        let seen_ms = result.latency.quantile_ns(quantile) as f64 / 1e6;
        assert!(
            (seen_ms / analytic_ms - 1.0).abs() < 0.02,
            "{quantile}: {seen_ms} ms"
        );
    }
    // Only four were under way, so only four were served slowly; and the client itself was never late.
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
    let result = run(&traffic, &Server::that(Manner::Silent));
    // The only connection is taken for 50 ms. Then those that have waited as long get it in turn, each for the
    // rest of its deadline, while others run out of theirs.
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
    // Five requests of each client with four rests between them; clients begin within the first rest.
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
    let result = run(&traffic, &Server::that(Manner::Silent));
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
    // The answers to the last four requests came when the window was closed.
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
    let (result, took) = run_until(&endless, &Server::that(Manner::Silent), 100 * MS);
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
    // Latency is from the planned instant: the last request of the window waits for 880 others.
    let longest = ns(result.latency.max_ns());
    assert!(near(longest, 4350 * MS, 100 * MS), "{longest:?}");
    let shown: u64 = result.timeline.iter().map(|second| second.ok).sum();
    assert_eq!(result.ok_in_window, Some(shown));
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
        let (result, took) = run_until(&flood, &Server::that(Manner::Silent), 3000 * MS);
        assert_eq!((result.ok, result.withdrawn), (0, 4));
        let due = result.unsent as f64 / 3e6;
        assert!((due - 1.0).abs() < 0.002, "{arrivals:?}: {due}");
        assert_eq!(result.backlog_close, result.unsent + 4);
        assert!(took < 3100 * MS, "{took:?}");
    }
}

#[test]
fn refused_connections_of_an_open_loop_have_an_outcome_each() {
    let result = run(&at_rate(1000.0), &Server::that(Manner::Refuses));
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
    // Twenty visitors per second of two requests each; half a second of thinking is nobody's latency.
    assert!(result.planned.abs_diff(400) <= 1, "{result:?}");
    assert_eq!(result.planned, result.ok);
    assert!(result.sessions.abs_diff(200) <= 1, "{result:?}");
    assert!(near(ns(result.latency.max_ns()), 10 * MS, MS), "{result:?}");
    assert_eq!(result.lateness.max_ns(), 0);
    // Five places for half a second each are ten visitors per second: the others wait at the door.
    let few = Traffic {
        connections: 5,
        deadline: Duration::from_secs(60),
        ..visits
    };
    let result = run(&few, &Server::of(100, 10 * MS));
    assert!(falls_behind(&result, &few), "{result:?}");
    assert!(ns(result.latency.max_ns()) > 4000 * MS, "{result:?}");
}
