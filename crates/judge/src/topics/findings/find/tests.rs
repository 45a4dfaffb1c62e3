//! Which warnings a run has.

use base::latency::Latency;
use expect_test::{Expect, expect};
use record::curve::Curve;
use record::evidence::Facts;
use record::hardware_counters::{CountedWindow, EventCounts, NoCounters};
use record::incidents::Incidents;
use record::load::Fault;

use super::*;
use record::fixtures::builder::RunBuilder;

fn check(builder: RunBuilder, want: &Expect) {
    let judgement = crate::judge(&builder.run());
    let mut lines = Vec::new();
    for Finding {
        workload,
        arm,
        kind,
    } in &judgement.findings
    {
        let place = [workload, arm].into_iter().filter(|name| !name.is_empty());
        let words: Vec<String> = place.cloned().chain([format!("{kind:?}")]).collect();
        lines.push(words.join(" "));
    }
    want.assert_eq(&lines.join("\n"));
}

fn whole() -> RunBuilder {
    RunBuilder::new().blocks(&[[100.0, 101.0]; 4])
}

#[test]
fn a_sound_run_is_told_its_nature_only() {
    check(whole(), &expect!["ClientsInGuest"]);
}

#[test]
fn a_rate_that_climbs_through_the_window_is_pointed_out() {
    let climb = |measurement: &mut Measurement, served: [u64; 3]| {
        let load = measurement
            .load
            .as_mut()
            .expect("a played trial has a load");
        let second = |(at, ok)| Second {
            at_ms: at * 1000,
            ok,
            ..Second::default()
        };
        load.window_ns = 3_000_000_000;
        load.timeline = (0u64..).zip(served).map(second).collect();
    };
    let builder =
        |served| whole().change((0..8).step_by(2), |measurement| climb(measurement, served));
    // A handful of requests scatters more than that.
    check(builder([11, 12, 14]), &expect!["ClientsInGuest"]);
    check(
        builder([1100, 1700, 2500]),
        &expect![[r#"
            web 6.1 Beyond { quantity: Drift, value: 2.272727272727273, limit: 1.1 }
            ClientsInGuest"#]],
    );
}

#[test]
fn a_rate_that_is_not_kept_up_with_is_pointed_out() {
    let behind = |growth: u64| {
        // Attempts of one arm, in the order of the blocks.
        whole().change((0..8).step_by(2), |trial| {
            let load = trial.load.get_or_insert_default();
            (load.window_ns, load.planned) = (10_000_000_000, 5_000);
            (load.backlog_open, load.backlog_close) = (2, 2 + growth);
        })
    };
    let found = |growth| {
        let findings = crate::judge(&behind(growth).run()).findings.into_iter();
        findings
            .filter(|finding| matches!(finding.kind, Kind::FallsBehind { .. }))
            .map(|finding| format!("{finding:?}"))
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert_eq!(found(40), "");
    expect![[r#"Finding { workload: "web", arm: "6.1", kind: FallsBehind { growth_per_s: 100.0, due_per_s: 500.0 } }"#]]
    .assert_eq(&found(1_000));
}

/// Trials of these arms count nothing, for these reasons; all others do, with this share.
fn counted(missing: &[(&str, NoCounters)], running_share: f64) -> RunBuilder {
    let missing: BTreeMap<String, NoCounters> = missing
        .iter()
        .map(|(arm, why)| (arm.to_string(), why.clone()))
        .collect();
    whole().with(move |run| {
        for record in &mut run.attempts {
            let trial = record.outcome.measured_mut().unwrap();
            let counts = EventCounts {
                instructions: 2e9,
                cycles: 3e9,
                running_share,
                ..EventCounts::default()
            };
            let window = CountedWindow {
                system: counts,
                ..CountedWindow::default()
            };
            let counters = if let Some(why) = missing.get(&record.trial.arm) {
                HardwareCounters::Missing(why.clone())
            } else {
                let figures = window.figures(1_000_000_000, &trial.figures);
                trial.figures.extend(figures);
                HardwareCounters::Counted(window)
            };
            trial.hardware_counters = Some(counters);
        }
    })
}

#[test]
fn why_nothing_was_counted_is_told_once() {
    check(counted(&[], 1.0), &expect!["ClientsInGuest"]);
    let none = NoCounters::NoUnit;
    check(
        counted(&[("6.1", none.clone()), ("7.2", none.clone())], 1.0),
        &expect![[r#"
            NoHardwareCounters { arms: ["6.1", "7.2"], why: NoUnit }
            ClientsInGuest"#]],
    );
    // Figures that one arm has are not compared, and that is told once too.
    check(
        counted(&[("7.2", none.clone())], 1.0),
        &expect![[r#"
            NoHardwareCounters { arms: ["7.2"], why: NoUnit }
            ClientsInGuest"#]],
    );
    let refused = NoCounters::Refused { paranoid: Some(4) };
    check(
        counted(&[("7.2", none), ("6.1", refused)], 1.0),
        &expect![[r#"
            NoHardwareCounters { arms: ["7.2"], why: NoUnit }
            NoHardwareCounters { arms: ["6.1"], why: Refused { paranoid: Some(4) } }
            ClientsInGuest"#]],
    );
}

#[test]
fn counters_that_were_shared_are_told_with_the_share() {
    check(
        counted(&[], 0.5),
        &expect![[r#"
            SharedHardwareCounters { running_share: 0.5 }
            ClientsInGuest"#]],
    );
}

#[test]
fn pages_that_change_between_trials_are_pointed_out() {
    let facts = |content: &str| Facts {
        values: [("remote:response /".to_string(), content.to_string())].into(),
        ..Facts::default()
    };
    let found = |contents: [&str; 2]| {
        let run = RunBuilder::new()
            .observed_pair(1, [facts("5 bytes"), facts(contents[0])])
            .observed_pair(2, [facts("5 bytes"), facts(contents[1])])
            .run();
        let mut findings = crate::judge(&run).findings;
        findings.retain(|finding| matches!(finding.kind, Kind::ChangedResponse { .. }));
        findings
    };
    assert_eq!(found(["5 bytes"; 2]), []);
    let kind = Kind::ChangedResponse {
        path: "/".into(),
        contents: 2,
    };
    let expected = Finding::new("web", "7.2", kind);
    assert_eq!(found(["5 bytes", "6 bytes"]), [expected]);
}

#[test]
fn failures_on_one_arm_are_counted_and_pointed_out() {
    check(
        whole()
            .void(5, "7.2")
            .void(5, "7.2")
            .measured(5, "6.1", 100.0),
        &expect![[r#"
            web 7.2 MissingFigures { baseline: "6.1", blocks: [5] }
            web 7.2 FailedTrials { failed: 2, attempts: 6, reasons: {Panic: 2} }
            web UnevenFailures { failed: {"6.1": 0, "7.2": 2} }
            web IncompleteBlocks { begun: 5, blocks: [5] }
            ClientsInGuest"#]],
    );
}

#[test]
fn a_setting_that_an_arms_kernel_refuses_is_no_uneven_failure() {
    let refused = VoidReason::SettingRefused;
    check(
        whole()
            .void_for(refused, 5, "7.2")
            .void_for(refused, 6, "7.2")
            .measured(5, "6.1", 100.0),
        &expect![[r#"
            web 7.2 MissingFigures { baseline: "6.1", blocks: [5, 6] }
            web 7.2 FailedTrials { failed: 2, attempts: 6, reasons: {SettingRefused: 2} }
            web IncompleteBlocks { begun: 6, blocks: [5, 6] }
            ClientsInGuest"#]],
    );
}

#[test]
fn an_unfinished_run_says_what_it_lacks() {
    check(
        RunBuilder::new(),
        &expect![[r#"
            web FewBlocks { blocks: 0, wanted: 4 }
            ClientsInGuest"#]],
    );
    check(
        RunBuilder::new().measured(1, "6.1", 100.0),
        &expect![[r#"
            web FewBlocks { blocks: 0, wanted: 4 }
            ClientsInGuest"#]],
    );
}

#[test]
fn faults_are_laid_at_the_right_door() {
    let builder = whole().change([1], |trial| {
        let load = trial.load.as_mut().unwrap();
        load.unsent = 5;
        load.faults = [
            (Fault::Reset, 2),
            (Fault::BadStatus, 1),
            (Fault::ClientNoPort, 4),
        ]
        .into();
    });
    check(
        builder,
        &expect![[r#"
            web 7.2 NewFaults { baseline: "6.1", faults: [Reset, BadStatus] }
            web 7.2 FailedRequests { count: 3 }
            web 7.2 Beyond { quantity: LostByClients, value: 4.0, limit: 0.0 }
            web 7.2 Beyond { quantity: UnsentRequests, value: 5.0, limit: 0.0 }
            ClientsInGuest"#]],
    );
}

/// Length of the clients' stalls.
const STALL_NS: u64 = 500_000_000;

/// Trials of 1000 requests, of which `requests` waited for a stall of the clients.
fn stalled(trials: &[usize], requests: u64, path: &LoadPath) -> RunBuilder {
    whole().change(trials.iter().copied(), |trial| {
        let load = trial.load.as_mut().unwrap();
        load.latency = Latency::default();
        let held_up = (0..requests).map(|_| STALL_NS);
        let others = (requests..1000).map(|_| 2_000_000);
        held_up.chain(others).for_each(|ns| load.latency.record(ns));
        load.incidents = Incidents {
            stalls: 1,
            stalled_ns: STALL_NS,
            longest_stall_ns: STALL_NS,
            stalled_requests: requests,
            ..Incidents::default()
        };
        trial.path = Some(path.clone());
    })
}

/// What is said of clients that were held up.
fn of_stalls(builder: RunBuilder) -> Vec<StalledClients> {
    let findings = crate::judge(&builder.run()).findings.into_iter();
    let arms = findings.filter_map(|finding| match finding.kind {
        Kind::StalledClients { arms } => Some(arms),
        _ => None,
    });
    arms.flatten().collect()
}

#[test]
fn clients_that_were_held_up_are_named_where_it_shows_in_a_metric() {
    let stalled_clients = of_stalls(stalled(&[1], 20, &LoadPath::default()));
    let want = StalledClients {
        arm: "7.2".into(),
        stalled: 1,
        trials: 4,
        quantile: 0.99,
        longest_ns: 500_000_000,
        requests: 20,
    };
    assert_eq!(stalled_clients, [want]);
    let of_half = of_stalls(stalled(&[1, 2], 600, &LoadPath::default()));
    let arms: Vec<_> = of_half
        .iter()
        .map(|clients| (&*clients.arm, clients.requests))
        .collect();
    assert_eq!(arms, [("6.1", 600), ("7.2", 600)]);
    // Nine of 1000 are fewer than a 99th percentile leaves out.
    for few in [9, 0] {
        assert_eq!(of_stalls(stalled(&[1], few, &LoadPath::default())), []);
    }
    assert_eq!(of_stalls(whole()), []);
}

#[test]
fn clients_that_were_held_up_beside_one_arm_alone_are_named() {
    let few = 3;
    let of_arm = of_stalls(stalled(&[1, 3], few, &LoadPath::default()));
    let counts: Vec<_> = of_arm
        .iter()
        .map(|clients| (&*clients.arm, clients.stalled))
        .collect();
    assert_eq!(counts, [("7.2", 2)]);
    assert!((of_arm[0].quantile - 1.0).abs() < 1e-9);
    let of_both = of_stalls(stalled(&[0, 1, 2, 3], few, &LoadPath::default()));
    assert_eq!(of_both, []);
}

#[test]
fn a_closed_loop_on_the_servers_cpus_waits_for_the_server() {
    let shared = |pace| LoadPath {
        is_shared: true,
        pace,
        ..LoadPath::default()
    };
    let closed = shared(LoadPace::Closed);
    assert_eq!(of_stalls(stalled(&[1], 600, &closed)), []);
    let at_rate = shared(LoadPace::Kept);
    assert_eq!(of_stalls(stalled(&[1], 600, &at_rate)).len(), 1);
}

#[test]
fn another_limit_than_the_arm_is_named() {
    let builder = whole().each(|trial| {
        trial.usage.cpu_idle = 0.35;
        trial.usage.cpu_steal = 0.02;
        trial.usage.swap_used_bytes = 3 << 20;
        trial.usage.sampling = 0.011;
    });
    check(
        builder,
        &expect![[r#"
            web 6.1 Beyond { quantity: IdleCpu, value: 0.35, limit: 0.1 }
            web 6.1 Beyond { quantity: Steal, value: 0.02, limit: 0.01 }
            web 6.1 Beyond { quantity: Sampling, value: 0.011, limit: 0.01 }
            web 7.2 Beyond { quantity: IdleCpu, value: 0.35, limit: 0.1 }
            web 7.2 Beyond { quantity: Steal, value: 0.02, limit: 0.01 }
            web 7.2 Beyond { quantity: Sampling, value: 0.011, limit: 0.01 }
            web 6.1 Beyond { quantity: Swap, value: 3145728.0, limit: 0.0 }
            web 7.2 Beyond { quantity: Swap, value: 3145728.0, limit: 0.0 }
            ClientsInGuest"#]],
    );
}

#[test]
fn a_climb_is_neither_unsettled_nor_idle() {
    let climb = |axis: &str| {
        whole().each(|trial| {
            trial.usage.cpu_idle = 0.35;
            trial.curves = vec![Curve {
                name: "throughput".into(),
                unit: "requests/s".into(),
                direction: Direction::Higher,
                axis: axis.into(),
                points: Vec::new(),
            }];
        })
    };
    let count = |axis| crate::judge(&climb(axis).run()).findings.len();
    let findings = crate::judge(&climb("connections").run()).findings;
    assert_eq!(findings, [Finding::new("", "", Kind::ClientsInGuest)]);
    assert_eq!(count("s"), 3, "a soak has one load all the time");
}

#[test]
fn work_without_clients_is_not_told_to_add_some() {
    let builder = whole().each(|trial| {
        trial.usage.cpu_idle = 0.35;
        trial.load = None;
    });
    check(builder, &expect!["WorkInGuest"]);
}

#[test]
fn an_a_a_plan_is_called_one() {
    check(
        whole().with(|run| run.plan.arms[1].kernel = run.plan.arms[0].kernel.clone()),
        &expect![[r#"
            6.1 EqualArms { twin: "7.2" }
            ClientsInGuest"#]],
    );
}

#[test]
fn a_kernel_that_did_not_run_is_missed() {
    let builder = whole().each(|trial| trial.kernel = "6.1-amd64".into());
    check(
        builder,
        &expect![[r#"
            web SameKernel { arms: ["6.1", "7.2"] }
            ClientsInGuest"#]],
    );
}

#[test]
fn two_builds_of_one_release_are_two_kernels() {
    let of = |builds: [&str; 2]| {
        let trials = [("6.1", builds[0]), ("7.2", builds[1])];
        let builder = trials
            .into_iter()
            .fold(RunBuilder::new(), |builder, (arm, build)| {
                let mut facts = record::evidence::Facts::default();
                let (name, build) = ("hash:kernel-notes".to_owned(), build.to_owned());
                facts.values.insert(name, build);
                builder.observed(1, arm, facts)
            });
        let builder = builder.each(|trial| trial.kernel = "6.1.192".into());
        builder.with(|run| run.plan.design.min_blocks = 1)
    };
    check(of(["one", "other"]), &expect!["ClientsInGuest"]);
    check(
        of(["one", "one"]),
        &expect![[r#"
            web SameKernel { arms: ["6.1", "7.2"] }
            ClientsInGuest"#]],
    );
}

#[test]
fn cpus_that_were_shared_or_missing_are_told() {
    let mut had = record::evidence::Facts::default();
    had.values.insert(CPUS.into(), "0,1".into());
    let builder = RunBuilder::new()
        .with(|run| {
            run.opening.host_cpus = Some(2);
            run.plan.design.min_blocks = 1;
            run.plan.arms[1].cpus = Some(4);
        })
        .measured(1, "6.1", 100.0)
        .observed(1, "7.2", had);
    check(
        builder,
        &expect![[r#"
            7.2 SharedCpus { cpus: 4, host_cpus: 2 }
            7.2 MissingCpus { cpus: 2, planned: 4 }
            ClientsInGuest"#]],
    );
}

#[test]
fn a_default_that_parts_the_cpu_between_clients_and_server_is_told_where_they_share_it() {
    let facts = |value: &str| {
        let mut facts = Facts::default();
        facts.sysctls.insert(AUTOGROUP.into(), value.into());
        facts
    };
    let run = |old: &str, new: &str| {
        RunBuilder::new()
            .with(|run| run.plan.design.min_blocks = 1)
            .observed_pair(1, [facts(old), facts(new)])
    };
    let differing = expect![[r#"
        ClientsInGuest
        Autogroup { off: ["6.1"], on: ["7.2"] }"#]];
    check(run("0", "1"), &differing);
    check(run("1", "1"), &expect!["ClientsInGuest"]);
    let set = |run: &mut Run| {
        let sysctl = &mut run.plan.arms[1].sysctl;
        sysctl.insert(AUTOGROUP.into(), "1".into());
    };
    check(run("0", "1").with(set), &expect!["ClientsInGuest"]);
    let apart = |run: &mut Run| run.opening.clients = Some(Clients::Host);
    check(run("0", "1").with(apart), &expect!["ClientsOnHost"]);
}

#[test]
fn a_guest_without_hystart_is_told() {
    let mut facts = Facts::default();
    facts.values.insert(fact::NO_HYSTART.into(), "yes".into());
    let run = RunBuilder::new()
        .with(|run| run.plan.design.min_blocks = 1)
        .observed_pair(1, [facts.clone(), facts]);
    check(
        run,
        &expect![[r#"
            ClientsInGuest
            NoHystart"#]],
    );
}

#[test]
fn counted_instructions_are_explained_and_uncharged_strings_told_first() {
    let old = whole().with(|run| run.opening.ns_per_instruction = Some(2));
    check(
        old,
        &expect![[r#"
            UnchargedStrings
            CountedInstructions
            ClientsInGuest"#]],
    );
    // Without counted instructions there is nothing to charge.
    check(whole(), &expect!["ClientsInGuest"]);
}

#[test]
fn a_clock_that_ran_on_while_the_disk_was_read_is_told() {
    let waiting = |builder: RunBuilder| {
        builder.change([1], |trial| {
            trial.usage.cpu_idle = 1.0;
            trial.usage.cpu_waiting = 1.0;
        })
    };
    check(
        waiting(whole()).with(|run| run.opening.ns_per_instruction = Some(2)),
        &expect![[r#"
            UnchargedStrings
            web 7.2 Beyond { quantity: IdleCpu, value: 0.25, limit: 0.1 }
            web 7.2 Beyond { quantity: DiskWait, value: 0.25, limit: 0.01 }
            CountedInstructions
            ClientsInGuest"#]],
    );
    // With a drive of the guest's own, to wait for it is to wait for the server.
    check(
        waiting(whole())
            .with(|run| run.opening.ns_per_instruction = Some(2))
            .with(|run| run.plan.machine.seek_disk = Some(plan::SeekDisk::default())),
        &expect![[r#"
            UnchargedStrings
            CountedInstructions
            ClientsInGuest"#]],
    );
    // So it is with a file system on a device in the guest's memory, and not with other things that are counted.
    let of_devices = |makes_devices: bool| {
        waiting(whole()).with(move |run| {
            run.opening.ns_per_instruction = Some(2);
            run.plan.workloads[0].traits.makes_devices = makes_devices;
        })
    };
    check(
        of_devices(true),
        &expect![[r#"
            UnchargedStrings
            CountedInstructions
            ClientsInGuest"#]],
    );
    check(
        of_devices(false),
        &expect![[r#"
            UnchargedStrings
            web 7.2 Beyond { quantity: IdleCpu, value: 0.25, limit: 0.1 }
            web 7.2 Beyond { quantity: DiskWait, value: 0.25, limit: 0.01 }
            CountedInstructions
            ClientsInGuest"#]],
    );
    // Measured in time, the disk's is as real as any.
    check(
        waiting(whole()),
        &expect![[r#"
            web 7.2 Beyond { quantity: IdleCpu, value: 0.25, limit: 0.1 }
            ClientsInGuest"#]],
    );
}

#[test]
fn a_metric_without_ratios_is_not_hidden() {
    let builder = whole().change([3], |trial| trial.figures[0].value = 0.0);
    check(builder, &expect!["ClientsInGuest"]);
}
