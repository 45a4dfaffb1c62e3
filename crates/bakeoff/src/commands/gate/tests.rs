//! Exit statuses of every fixture under every `--fail-on`.

use std::fmt::Write as _;

use clap::ValueEnum;
use expect_test::expect;
use record::fixtures::builder::RunBuilder;
use record::fixtures::web;
use record::journal::{CloseReason, Entry, Event};
use record::load::Fault;

use super::*;

/// The exit status of a judged run for each value of `--fail-on`, in the order of its help.
fn statuses(run: &Run) -> String {
    let judgement = judge::judge(run);
    let mut statuses = String::new();
    for fail_on in FailOn::value_variants() {
        let status = match gate(run, &judgement, Some(*fail_on)) {
            End::Done => '0',
            End::Tripped => '1',
            End::Unanswered => '3',
            End::Refused | End::Requeue => '?',
        };
        statuses.push(status);
    }
    statuses
}

#[test]
fn exit_statuses_of_all_fixtures() {
    let blocks = |figures: [f64; 2]| {
        let run = RunBuilder::new().blocks(&[figures; 12]);
        run.with(|run| {
            let reason = CloseReason::Decided { blocks: 12 };
            run.entries.push(Entry {
                at: String::new(),
                event: Event::Closed { reason },
            });
        })
    };
    let faults = |arm: &'static str| {
        blocks([100.0, 101.0]).with(|run| {
            for record in &mut run.attempts {
                if let TrialOutcome::Measured(trial) = &mut record.outcome
                    && record.trial.arm == arm
                {
                    let load = trial.load.get_or_insert_default();
                    load.faults = [(Fault::Reset, 2)].into();
                }
            }
        })
    };
    let missing = RunBuilder::new()
        .blocks(&[[100.0, 101.0]; 4])
        .void(5, "7.2")
        .measured(5, "6.1", 100.0);
    let kept = blocks([100.0, 101.0]).with(|run| {
        run.plan.disturbed_blocks = plan::DisturbedBlocks::Keep;
    });
    let trade_off = blocks([100.0, 120.0]).with(|run| {
        for record in &mut run.attempts {
            let is_arm = record.trial.arm == "7.2";
            let latency = &mut record.outcome.measured_mut().unwrap().figures[0];
            assert_eq!(latency.spec.name, "latency-p99");
            latency.value = if is_arm { 50.0 } else { 10.0 };
        }
    });
    let fixtures = vec![
        ("two kernels", web::two_kernels()),
        ("two workloads", web::two_workloads()),
        ("trade-off and failure", web::trade_off_and_failure()),
        ("without clients", web::without_clients()),
        ("connection ramp", web::connection_ramp()),
        ("CPU counts", web::cpu_counts(&[1, 2, 4])),
        ("just begun", web::just_begun()),
        ("nothing measured", RunBuilder::new().run()),
        ("better", blocks([100.0, 120.0]).run()),
        ("worse", blocks([100.0, 80.0]).run()),
        ("a longer tail at more requests", trade_off.run()),
        ("a figure is missing", missing.run()),
        ("faults of the arm", faults("7.2").run()),
        ("faults of the baseline", faults("6.1").run()),
        ("disturbed blocks kept", kept.run()),
    ];
    let mut table = String::new();
    for (name, run) in fixtures {
        let _ = writeln!(table, "{} {name}", statuses(&run));
    }
    // By column: regression, worse, unfair, defect, growth, failures.
    expect![[r#"
        111111 two kernels
        111111 two workloads
        111111 trade-off and failure
        111111 without clients
        111111 connection ramp
        333333 CPU counts
        333333 just begun
        333333 nothing measured
        003333 better
        113333 worse
        103333 a longer tail at more requests
        111111 a figure is missing
        111111 faults of the arm
        331333 faults of the baseline
        003333 disturbed blocks kept
    "#]]
    .assert_eq(&table);
}

#[test]
fn a_loss_in_every_block_without_a_verdict_is_no_answer() {
    let run = web::two_kernels();
    let losses = |range| {
        let mut judgement = judge::judge(&run);
        let throughput = &mut judgement.comparisons[0];
        (throughput.spec.role, throughput.verdict) = (Role::Secondary, Verdict::Undecided);
        throughput.range = Some(range);
        unjudged_losses(&run, &judgement)
    };
    expect!["web-static: throughput of 7.2 is worse in every block, and 9 are too few for a verdict (add some: --more-blocks N)"]
        .assert_eq(&losses((0.86, 0.87)).join("\n"));
    // The margin is 1 %.
    assert_eq!(losses((0.86, 0.995)), Vec::<String>::new());
    assert_eq!(losses((1.13, 1.15)), Vec::<String>::new());
}
