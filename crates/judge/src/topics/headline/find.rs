//! Headlines: what all metrics of an arm on a workload come to, in one word, so that none of them hides another.
//!
//! ```text
//! primary      secondary metrics beyond the margin      said
//! better       one is worse                             trade-off
//! equivalent   one is worse                             trade-off
//! worse        one is better                            trade-off
//! decided      a curve says otherwise at some load      trade-off
//! undecided    one is worse                             undecided, and it is named
//! decided      another price says otherwise (`prices`)  model-dependent
//! any          the arm gave no figure in any trial      failed
//! ```
//! A secondary metric counts where its own verdict is better or worse and its estimate lies beyond the margin. Maxima and rates of an
//! instruction are shown and never count.

use std::collections::BTreeSet;

use plan::Plan;
use record::hardware_counters::is_rate;
use record::metric::{MetricSpec, Role};
use record::rundir::Run;
use record::trial::Outcome;
use record::verdict::robustness::ByLoad;
use record::verdict::{Comparison, Conclusion, FailedArm, Headline, Verdict};

use crate::topics::limits::find as limits;
use crate::topics::metrics::arm_summary::voids;
use crate::topics::metrics::measured::Measured;

/// By workload, then by arm as the plan has them; the baseline has one only where it failed.
pub(crate) fn of(
    run: &Run,
    measured: &Measured<'_>,
    comparisons: &[Comparison],
    by_load: &[ByLoad],
) -> Vec<Headline> {
    let mut headlines = Vec::new();
    for workload in &run.plan.workloads {
        let id = &workload.id;
        for arm in &run.plan.arms {
            let is_of_arm =
                |comparison: &&Comparison| comparison.workload == *id && comparison.arm == arm.name;
            let metrics: Vec<&Comparison> = comparisons.iter().filter(is_of_arm).collect();
            let is_of_arm = |curve: &&ByLoad| curve.workload == *id && curve.arm == arm.name;
            let by_load: Vec<&ByLoad> = by_load.iter().filter(is_of_arm).collect();
            let conclusion = match failed(run, measured, id, &arm.name) {
                Some(failed) => Some(Conclusion::Failed(failed)),
                None => conclude(&metrics, &by_load, &run.plan),
            };
            headlines.extend(conclusion.map(|conclusion| Headline {
                workload: id.clone(),
                arm: arm.name.clone(),
                conclusion,
                limits: limits::limited_arms(run, measured, id, &arm.name),
                by_price: None,
            }));
        }
    }
    headlines
}

/// How an arm failed that was tried and never measured.
fn failed(run: &Run, measured: &Measured<'_>, workload: &str, arm: &str) -> Option<FailedArm> {
    let is_its = |trial: &record::trial::Trial| trial.workload == workload && trial.arm == arm;
    let was_invalidated = run.invalidated.iter().any(|record| is_its(&record.trial));
    if was_invalidated || !measured.of_arm(workload, arm).is_empty() {
        return None;
    }
    let (mut trials, mut skipped, mut last) = (BTreeSet::new(), BTreeSet::new(), None);
    for record in run.attempts.iter().filter(|record| is_its(&record.trial)) {
        match &record.outcome {
            Outcome::Measured(_) => {}
            Outcome::Void(void) => {
                trials.insert(record.trial.number);
                last = Some(&void.detail);
            }
            Outcome::Skipped(_) => {
                skipped.insert(record.trial.number);
            }
        }
    }
    let reasons = voids(run, workload, arm);
    Some(FailedArm {
        trials: trials.len() as u32,
        attempts: reasons.values().sum(),
        skipped: skipped.len() as u32,
        reasons,
        last: last?.clone(),
    })
}

/// What the metrics of one arm on one workload come to; `None` where there is no primary one.
fn conclude(metrics: &[&Comparison], by_load: &[&ByLoad], plan: &Plan) -> Option<Conclusion> {
    let primary = metrics
        .iter()
        .find(|comparison| comparison.spec.role == Role::Primary)?;
    let contrary = contrary(primary.verdict);
    let against = against(metrics, contrary, plan.design.margin);
    let curves: Vec<String> = by_load
        .iter()
        .filter(|curve| is_judged(&curve.curve) && curve.beyond(contrary).next().is_some())
        .map(|curve| curve.curve.clone())
        .collect();
    Some(match primary.verdict {
        Verdict::Undecided => Conclusion::Undecided { against },
        verdict if !against.is_empty() || !curves.is_empty() => Conclusion::TradeOff {
            primary: verdict,
            against,
            curves,
        },
        Verdict::Better => Conclusion::Better,
        Verdict::Worse => Conclusion::Worse,
        Verdict::Equivalent => Conclusion::Equivalent,
    })
}

/// The verdict of another metric that speaks against a primary one.
pub(crate) fn contrary(primary: Verdict) -> Verdict {
    match primary {
        Verdict::Worse => Verdict::Better,
        Verdict::Better | Verdict::Equivalent | Verdict::Undecided => Verdict::Worse,
    }
}

/// Whether a metric or curve may speak against a headline. The largest value of a trial may not: it is one request's, grows with how
/// many there were, and what it will be in the next trial nobody can say. It is shown with its own verdict.
pub(crate) fn is_judged(name: &str) -> bool {
    !name.ends_with("-max")
}

/// The same of a metric. Rates of an instruction, such as CPI, may not speak either: they are no cost.
pub(crate) fn may_speak(spec: &MetricSpec) -> bool {
    is_judged(&spec.name) && !is_rate(spec)
}

/// Names of the secondary metrics with this verdict and a change beyond the margin, the largest first.
pub(crate) fn against(metrics: &[&Comparison], verdict: Verdict, margin: f64) -> Vec<String> {
    // What was zero and is not any more has no ratio: no margin is as large as that.
    let change = |comparison: &Comparison| {
        comparison
            .ratio
            .map_or(f64::INFINITY, |ratio| ratio.ln().abs())
    };
    let is_against = |comparison: &&&Comparison| {
        let is_secondary = comparison.spec.role == Role::Secondary && may_speak(&comparison.spec);
        is_secondary && comparison.verdict == verdict && change(comparison) > margin.ln_1p()
    };
    let mut found: Vec<&&Comparison> = metrics.iter().filter(is_against).collect();
    found.sort_by(|comparison, other| change(other).total_cmp(&change(comparison)));
    found
        .iter()
        .map(|comparison| comparison.spec.name.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use record::verdict::Judgement;

    use super::*;
    use record::fixtures::builder::{RunBuilder, measurements};

    /// Ten blocks in which the arm's requests and its latency are these times the baseline's.
    fn tried(requests: f64, latency: f64) -> RunBuilder {
        let wobble = |block: u32| 1.0 + 0.0004 * f64::from(block * 7 % 5);
        let blocks: Vec<[f64; 2]> = (0..12)
            .map(|block| [100.0, 100.0 * requests * wobble(block)])
            .collect();
        RunBuilder::new().blocks(&blocks).with(|run| {
            for record in &mut run.attempts {
                let measurement = record.outcome.measured_mut().unwrap();
                let figure = &mut measurement.figures[0];
                assert_eq!(figure.spec.name, "latency-p99");
                let times = if record.trial.arm == "7.2" {
                    latency
                } else {
                    1.0
                };
                figure.value = 10.0 * times * wobble(record.trial.block);
            }
        })
    }

    fn listed(judgement: &Judgement) -> String {
        let line = |headline: &Headline| {
            let Headline {
                workload,
                arm,
                conclusion,
                ..
            } = headline;
            let rest = match conclusion {
                Conclusion::Failed(failed) => format!(
                    " {} trials, {} attempts, {} skipped: {:?} {}",
                    failed.trials, failed.attempts, failed.skipped, failed.reasons, failed.last
                ),
                other => format!(" {:?}", other.against()),
            };
            format!("{workload} {arm}: {}{rest}", conclusion.word())
        };
        judgement
            .headlines
            .iter()
            .map(line)
            .collect::<Vec<_>>()
            .join("\n")
    }

    fn check(builder: RunBuilder, want: &Expect) {
        want.assert_eq(&listed(&crate::judge(&builder.run())));
    }

    #[test]
    fn a_secondary_metric_against_the_primary_one_makes_a_trade_off() {
        check(
            tried(1.15, 3.6),
            &expect![[r#"web 7.2: trade-off ["latency-p99"]"#]],
        );
        check(
            tried(1.0, 1.2),
            &expect![[r#"web 7.2: trade-off ["latency-p99"]"#]],
        );
        check(
            tried(0.9, 0.8),
            &expect![[r#"web 7.2: trade-off ["latency-p99"]"#]],
        );
    }

    #[test]
    fn metrics_of_one_mind_have_the_primary_ones_verdict() {
        check(tried(1.15, 0.8), &expect!["web 7.2: better []"]);
        check(tried(0.9, 1.2), &expect!["web 7.2: worse []"]);
        check(tried(1.0, 0.8), &expect!["web 7.2: equivalent []"]);
    }

    #[test]
    fn more_cycles_for_each_of_fewer_instructions_are_no_trade_off() {
        let with = |name: &'static str, unit: &'static str| {
            tried(1.15, 3.6).with(move |run| {
                for measurement in measurements(run) {
                    let spec = &mut measurement.figures[0].spec;
                    (spec.name, spec.unit) = (name.into(), unit.into());
                }
            })
        };
        let cpi = with("server-cpi", "cycles/instruction");
        check(cpi, &expect!["web 7.2: better []"]);
        let path = with("server-instructions", "instructions/request");
        check(
            path,
            &expect![[r#"web 7.2: trade-off ["server-instructions"]"#]],
        );
        let from_server = with("server-cpi", "index");
        check(
            from_server,
            &expect![[r#"web 7.2: trade-off ["server-cpi"]"#]],
        );
    }

    #[test]
    fn a_change_within_the_margin_is_no_trade_off() {
        check(tried(1.15, 1.008), &expect!["web 7.2: better []"]);
    }

    #[test]
    fn an_undecided_arm_is_not_called_a_trade_off_but_names_what_is_worse() {
        let noisy = tried(1.0, 3.6).with(|run| {
            for (index, measurement) in measurements(run).enumerate() {
                measurement.figures[1].value *= 1.0 + 0.1 * (index * 7 % 5) as f64;
            }
        });
        check(noisy, &expect![[r#"web 7.2: undecided ["latency-p99"]"#]]);
    }

    #[test]
    fn an_arm_that_never_booted_has_failed() {
        let builder = (1..=3).fold(RunBuilder::new(), |builder, block| {
            builder
                .measured(block, "6.1", 100.0)
                .void(block, "7.2")
                .void(block, "7.2")
        });
        check(
            builder,
            &expect![
                "web 7.2: failed 6 trials, 6 attempts, 0 skipped: {Panic: 6} VFS: unable to mount root"
            ],
        );
        check(
            RunBuilder::new().void(1, "6.1").void(1, "7.2"),
            &expect![[r#"
                web 6.1: failed 1 trials, 1 attempts, 0 skipped: {Panic: 1} VFS: unable to mount root
                web 7.2: failed 1 trials, 1 attempts, 0 skipped: {Panic: 1} VFS: unable to mount root"#]],
        );
    }

    #[test]
    fn every_arm_has_its_own_headline() {
        let builder = tried(1.15, 3.6)
            .arm("7.3")
            .measured(1, "7.3", 100.0)
            .arm("7.4")
            .void(1, "7.4")
            .arm("7.5");
        check(
            builder,
            &expect![[r#"
                web 7.2: trade-off ["latency-p99"]
                web 7.3: undecided []
                web 7.4: failed 1 trials, 1 attempts, 0 skipped: {Panic: 1} VFS: unable to mount root
                web 7.5: undecided []"#]],
        );
    }
}
