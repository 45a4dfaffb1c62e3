//! Which limit is told from which signs.

use expect_test::{Expect, expect};
use plan::MachineKind;
use record::fixtures::builder::RunBuilder;
use record::journal::{Entry, Event};
use record::load::Fault;
use record::load_path::{ClientCpu, ClientUnit, OneFewer, OneFewerOutcome, SentLate};
use record::verdict::finding::Kind;
use record::verdict::limit::OneFewerUse;

use super::*;

/// A closed loop of clients on CPUs of their own that are half idle, and a network without a fault.
fn quiet() -> LoadPath {
    let end = |side, name: &str| NetworkEnd {
        side,
        segments_sent: 1000,
        segments_received: 1000,
        retransmitted: 0,
        out_of_order: 0,
        softnet_dropped: 0,
        links: vec![Link {
            name: name.into(),
            received_bytes: 10_000_000,
            sent_bytes: 1_000_000,
            sent_packets: 1000,
            received_packets: 1000,
            receive_dropped: 0,
            queue_dropped: Some(0),
            bits_per_s: Some(1_000_000_000),
        }],
    };
    LoadPath {
        pace: LoadPace::Closed,
        sent_late: None,
        is_shared: false,
        cpu_ns: None,
        cpus: vec![ClientCpu {
            cpu: 3,
            idle: 0.5,
            interrupts: 0.1,
        }],
        ends: vec![end(Side::Clients, "eth0"), end(Side::Server, "eth1")],
    }
}

/// Both arms serve 100 requests a second, in a window of two seconds.
fn run(change: impl Fn(&mut Measurement)) -> RunBuilder {
    let builder = RunBuilder::new().blocks(&[[100.0, 100.0]; 4]);
    builder.each(|trial| {
        trial.path = Some(quiet());
        change(trial);
    })
}

fn ceiling(requests_per_s: f64, client_busy: f64) -> impl FnOnce(&mut Run) {
    let outcome = CeilingOutcome::Measured(Ceiling {
        requests_per_s,
        body_bytes_per_s: 0.0,
        window_ns: 1,
        client_busy,
        client_waited: 0.0,
        cpu_idle: 0.0,
        is_shared: false,
        cpu_ns_per_request: None,
    });
    move |run| {
        run.entries.push(Entry {
            at: String::new(),
            event: Event::Ceiling {
                workload: "web".into(),
                cpus: run.plan.cpus(&run.plan.arms[0]),
                outcome,
            },
        });
    }
}

fn last_ceiling(run: &mut Run) -> &mut Ceiling {
    match run.entries.last_mut().map(|entry| &mut entry.event) {
        Some(Event::Ceiling {
            outcome: CeilingOutcome::Measured(ceiling),
            ..
        }) => ceiling,
        _ => panic!("the last entry is a ceiling"),
    }
}

fn check(builder: RunBuilder, want: &Expect) {
    let judgement = crate::judge(&builder.run());
    let found = judgement.arm_summaries[0].limit.as_ref();
    let limited = &judgement.headlines[0].limits;
    let Some(found) = found else {
        want.assert_eq("not looked at");
        return;
    };
    want.assert_eq(&format!(
        "{:?} {:?} {:?}, beside the verdict: {}",
        found.limit,
        found.signs,
        found.ceiling,
        limited.len()
    ));
}

fn path(change: impl Fn(&mut LoadPath)) -> RunBuilder {
    run(move |trial| change(trial.path.as_mut().expect("it was just set")))
}

#[test]
fn nothing_is_said_where_nobody_looked() {
    check(run(|trial| trial.path = None), &expect!["not looked at"]);
}

#[test]
fn without_any_other_sign_it_is_the_server() {
    check(
        run(|_| {}),
        &expect!["Some(Server) [] NotKnown, beside the verdict: 0"],
    );
    check(
        run(|_| {}).with(ceiling(200.0, 1.0)),
        &expect![
            "Some(Server) [] Known { requests_per_s: 200.0, share: 0.5, is_of_cpu_time: false }, beside the verdict: 0"
        ],
    );
}

#[test]
fn near_the_ceiling_it_is_what_ended_the_null_servers_run() {
    check(
        run(|_| {}).with(ceiling(125.0, 0.9)),
        &expect![
            "Some(Clients) [NearCeiling { share: 0.8, is_of_clients: true }] Known { requests_per_s: 125.0, share: 0.8, is_of_cpu_time: false }, beside the verdict: 2"
        ],
    );
    check(
        run(|_| {}).with(ceiling(125.0, 0.5)),
        &expect![
            "Some(Network) [NearCeiling { share: 0.8, is_of_clients: false }] Known { requests_per_s: 125.0, share: 0.8, is_of_cpu_time: false }, beside the verdict: 2"
        ],
    );
}

#[test]
fn a_null_server_slower_than_the_server_is_no_ceiling() {
    check(
        run(|_| {}).with(ceiling(50.0, 0.9)),
        &expect![
            "Some(Server) [] TooLow { requests_per_s: 50.0, share: 2.0 }, beside the verdict: 0"
        ],
    );
    // The last one counts.
    check(
        run(|_| {})
            .with(ceiling(50.0, 0.9))
            .with(ceiling(1000.0, 0.9)),
        &expect![
            "Some(Server) [] Known { requests_per_s: 1000.0, share: 0.1, is_of_cpu_time: false }, beside the verdict: 0"
        ],
    );
}

#[test]
fn clients_without_cpu_time_are_named() {
    check(
        run(|trial| {
            let load = trial.load.as_mut().expect("a played trial has a load");
            (load.client_cpu_ns, load.client_wait_ns) =
                (vec![100_000_000, 600_000_000], vec![0, 1_200_000_000]);
        }),
        &expect!["Some(Clients) [BusyThread { share: 0.9 }] NotKnown, beside the verdict: 2"],
    );
    check(
        path(|path| path.cpus[0].interrupts = 0.9),
        &expect![
            "Some(Clients) [BusyInterrupts { cpu: 3, share: 0.9 }] NotKnown, beside the verdict: 2"
        ],
    );
    check(
        run(|trial| {
            let load = trial.load.as_mut().expect("a played trial has a load");
            load.faults = [(Fault::ClientNoPort, 20)].into();
        }),
        &expect!["Some(Clients) [LostByClients { share: 0.1 }] NotKnown, beside the verdict: 2"],
    );
}

#[test]
fn a_client_that_waits_for_its_cpu_is_late_however_little_it_runs() {
    // Of a window of two seconds.
    let waited = |wait_ns: u64, change: fn(&mut LoadPath)| {
        run(move |trial| {
            let load = trial.load.as_mut().expect("a played trial has a load");
            (load.client_cpu_ns, load.client_wait_ns) =
                (vec![100_000_000, 90_000_000], vec![0, wait_ns]);
            change(trial.path.as_mut().expect("it was just set"));
        })
    };
    let is_named =
        expect!["Some(Clients) [WaitingThread { share: 0.62 }] NotKnown, beside the verdict: 2"];
    check(waited(1_240_000_000, |_| {}), &is_named);
    let server = expect!["Some(Server) [] NotKnown, beside the verdict: 0"];
    check(waited(980_000_000, |_| {}), &server);
    // A thread that watches the clock is always ready: what it sent late tells.
    check(
        waited(1_240_000_000, |path| path.pace = LoadPace::Kept),
        &expect!["Some(NotSaturated) [RateKept] NotKnown, beside the verdict: 2"],
    );
    // It is the server that has the CPU.
    check(
        waited(1_240_000_000, |path| path.is_shared = true),
        &expect!["None [] NotKnown, beside the verdict: 0"],
    );
}

#[test]
fn a_null_server_asked_by_clients_that_waited_was_ended_by_them() {
    let waited = |run: &mut Run| {
        ceiling(125.0, 0.6)(run);
        last_ceiling(run).client_waited = 0.55;
    };
    check(
        run(|_| {}).with(waited),
        &expect![
            "Some(Clients) [NearCeiling { share: 0.8, is_of_clients: true }] Known { requests_per_s: 125.0, share: 0.8, is_of_cpu_time: false }, beside the verdict: 2"
        ],
    );
}

#[test]
fn on_the_servers_cpus_a_busy_client_shows_nothing() {
    let shared = |trial: &mut Measurement| {
        let load = trial.load.as_mut().expect("a played trial has a load");
        load.client_wait_ns = vec![1_990_000_000];
        let path = trial.path.as_mut().expect("it was just set");
        path.is_shared = true;
    };
    check(
        run(shared),
        &expect!["None [] NotKnown, beside the verdict: 0"],
    );
    check(
        run(shared).with(ceiling(200.0, 0.9)),
        &expect![
            "Some(Server) [] Known { requests_per_s: 200.0, share: 0.5, is_of_cpu_time: false }, beside the verdict: 0"
        ],
    );
    check(
        run(|trial| {
            shared(trial);
            trial.usage.cpu_idle = 0.4;
        }),
        &expect!["Some(NotSaturated) [IdleCpu { share: 0.4 }] NotKnown, beside the verdict: 2"],
    );
}

#[test]
fn on_shared_cpus_it_is_cpu_time_that_is_compared() {
    let took = |cpu_ns| {
        run(move |trial| {
            let path = trial.path.as_mut().expect("it was just set");
            (path.is_shared, path.cpu_ns) = (true, Some(cpu_ns));
        })
        .with(|run| {
            // Measured while others had most of the CPUs: the rate is lower than the arm's own.
            ceiling(50.0, 0.9)(run);
            let ceiling = last_ceiling(run);
            (ceiling.is_shared, ceiling.cpu_ns_per_request) = (true, Some(1_000_000.0));
        })
    };
    // 200 requests in two seconds.
    check(
        took(500_000_000),
        &expect![
            "Some(Server) [] Known { requests_per_s: 50.0, share: 0.4, is_of_cpu_time: true }, beside the verdict: 0"
        ],
    );
    check(
        took(250_000_000),
        &expect![
            "Some(Clients) [NearCeiling { share: 0.8, is_of_clients: true }] Known { requests_per_s: 50.0, share: 0.8, is_of_cpu_time: true }, beside the verdict: 2"
        ],
    );
}

#[test]
fn each_fault_of_the_network_is_named() {
    check(
        path(|path| path.ends[1].retransmitted = 50),
        &expect![
            "Some(Network) [Retransmits { side: Server, share: 0.047619047619047616 }] NotKnown, beside the verdict: 2"
        ],
    );
    check(
        path(|path| path.ends[0].out_of_order = 50),
        &expect![
            "Some(Network) [OutOfOrder { side: Clients, share: 0.05 }] NotKnown, beside the verdict: 2"
        ],
    );
    check(
        path(|path| path.ends[0].links[0].received_bytes = 220_000_000),
        &expect![[
            r#"Some(Network) [NearLineRate { link: "eth0", side: Clients, share: 0.88 }] NotKnown, beside the verdict: 2"#
        ]],
    );
    check(
        path(|path| {
            path.ends[0].links[0].receive_dropped = 250;
            path.ends[1].links[0].queue_dropped = Some(1000);
            path.ends[0].softnet_dropped = 20;
        }),
        &expect![[
            r#"Some(Network) [Dropped { place: Softnet, side: Clients, link: None, share: 0.02 }, Dropped { place: Interface, side: Clients, link: Some("eth0"), share: 0.2 }, Dropped { place: Queue, side: Server, link: Some("eth1"), share: 0.5 }] NotKnown, beside the verdict: 2"#
        ]],
    );
    // A few are as many as any network loses.
    check(
        path(|path| path.ends[1].retransmitted = 9),
        &expect!["Some(Server) [] NotKnown, beside the verdict: 0"],
    );
}

#[test]
fn a_rate_that_is_kept_is_said_beside_a_verdict_on_a_rate_alone() {
    let kept = |trial: &mut Measurement| {
        trial.path.as_mut().expect("it was just set").pace = LoadPace::Kept;
    };
    check(
        run(kept),
        &expect!["Some(NotSaturated) [RateKept] NotKnown, beside the verdict: 2"],
    );
    check(
        run(|trial| {
            kept(trial);
            for figure in &mut trial.figures {
                figure.spec.role = match figure.spec.direction {
                    Direction::Lower => Role::Primary,
                    Direction::Higher => Role::Secondary,
                };
            }
        }),
        &expect!["Some(NotSaturated) [RateKept] NotKnown, beside the verdict: 0"],
    );
}

#[test]
fn a_send_delay_that_shows_is_the_clients() {
    let late = SentLate {
        send_delay_ns: 5_000_000,
        latency_ns: 9_000_000,
    };
    check(
        path(|path| (path.pace, path.sent_late) = (LoadPace::Kept, Some(late))),
        &expect![
            "Some(Clients) [SentLate(SentLate { send_delay_ns: 5000000, latency_ns: 9000000 }), RateKept] NotKnown, beside the verdict: 2"
        ],
    );
    check(
        path(|path| path.pace = LoadPace::Behind),
        &expect!["Some(Server) [] NotKnown, beside the verdict: 0"],
    );
    check(
        path(|path| path.pace = LoadPace::TooFewConnections),
        &expect!["None [] NotKnown, beside the verdict: 0"],
    );
}

/// With one of three hosts fewer the baseline's figure is this.
fn one_fewer(value: f64) -> impl FnOnce(&mut Run) {
    move |run| {
        run.entries.push(Entry {
            at: String::new(),
            event: Event::OneFewer {
                workload: "web".into(),
                arm: run.plan.baseline.clone(),
                outcome: OneFewerOutcome::Measured(OneFewer {
                    unit: ClientUnit::Host,
                    left: 2,
                    metric: "throughput".into(),
                    metric_unit: "requests/s".into(),
                    value,
                }),
            },
        });
    }
}

/// Trials of these figures, and one with a host fewer.
fn moved(figures: &[f64], value: f64) -> (Option<Limit>, Option<OneFewerUse>, usize) {
    moved_with(figures, value, |_| {})
}

fn moved_with(
    figures: &[f64],
    value: f64,
    change: impl FnOnce(&mut Run),
) -> (Option<Limit>, Option<OneFewerUse>, usize) {
    let blocks: Vec<[f64; 2]> = figures.iter().map(|figure| [*figure; 2]).collect();
    let builder = RunBuilder::new().blocks(&blocks);
    let builder = builder.each(|trial| trial.path = Some(quiet()));
    let judgement = crate::judge(&builder.with(one_fewer(value)).with(change).run());
    let found = judgement.arm_summaries[0].limit.clone().unwrap();
    // Nobody tried it with the other arm.
    assert_eq!(
        judgement.arm_summaries[1].limit.clone().unwrap().one_fewer,
        None
    );
    (
        found.limit,
        found.one_fewer,
        judgement.headlines[0].limits.len(),
    )
}

#[test]
fn one_client_fewer_moves_what_the_clients_set() {
    let steady = [100.0, 100.2, 99.8, 100.0];
    let (limit, one_fewer, count) = moved(&steady, 66.0);
    assert_eq!((limit, count), (Some(Limit::Clients), 1));
    let Some(OneFewerUse::Known {
        unit,
        left,
        change,
        scatter,
    }) = one_fewer
    else {
        panic!("{one_fewer:?}")
    };
    assert_eq!((unit, left), (ClientUnit::Host, 2));
    assert!((change + 0.34).abs() < 1e-9, "{change}");
    assert!(
        scatter.is_some_and(|share| (0.005..0.02).contains(&share)),
        "{scatter:?}"
    );
    // Clients that hinder each other set a figure as well.
    assert_eq!(moved(&steady, 120.0).0, Some(Limit::Clients));
    // Within the margin, which is 1 %.
    assert_eq!(moved(&[100.0; 4], 99.5).0, Some(Limit::Server));
    assert_eq!(moved(&[100.0; 4], 98.5).0, Some(Limit::Clients));
    // No further than trials of all clients lie.
    assert_eq!(
        moved(&[80.0, 120.0, 90.0, 110.0], 66.0).0,
        Some(Limit::Server)
    );
}

#[test]
fn of_systems_that_are_exchanged_one_client_fewer_is_held_against_its_own_place() {
    // The even blocks are of the other place, which is half as fast.
    let figures = [100.0, 50.0, 100.2, 50.1, 99.8, 49.9];
    let exchanged = |run: &mut Run| run.plan.machine.swap = vec!["exchange".into()];
    let change = |value, change: fn(&mut Run)| {
        let (limit, one_fewer, _) = moved_with(&figures, value, change);
        let Some(OneFewerUse::Known { change, .. }) = one_fewer else {
            panic!("{one_fewer:?}")
        };
        (limit, (change * 100.0).round())
    };
    assert_eq!(change(100.0, exchanged), (Some(Limit::Server), 0.0));
    assert_eq!(change(66.0, exchanged), (Some(Limit::Clients), -34.0));
    assert_eq!(change(66.0, |_| {}), (Some(Limit::Server), -12.0));
}

#[test]
fn a_null_server_slower_than_a_system_on_the_network_is_warned_of() {
    let warnings = |ceiling_per_s| {
        let on_network = |run: &mut Run| run.plan.machine.kind = MachineKind::Url;
        // Its arms have no CPUs of the plan's, so this comes first.
        let run = run(|_| {})
            .with(on_network)
            .with(ceiling(ceiling_per_s, 0.9));
        let mut findings = crate::judge(&run.run()).findings.into_iter();
        findings.find_map(|finding| match finding.kind {
            Kind::LowCeiling { arms } => Some(arms),
            _ => None,
        })
    };
    assert_eq!(warnings(50.0), Some(vec!["6.1".into(), "7.2".into()]));
    assert_eq!(warnings(1000.0), None);
}
