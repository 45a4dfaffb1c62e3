//! The host is as fast beside one arm as beside another.

use plan::MachineKind;
use record::verdict::fairness::{Missing, Outcome, Quantity};
use record::verdict::host::HostSpeed;

use crate::topics::fairness::subject::{Subject, beyond, unknown, unless, without};
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

/// The part of the plan's margin by which the host may differ.
const OF_MARGIN: f64 = 0.5;

pub(crate) const CHECK: Check = Check {
    id: "host-speed",
    group: Group::Measurement,
    must_hold: "The host is as fast beside one arm as beside another. The interval of the difference lies within half the margin.",
    why: "If all metrics move together, the machine is the usual cause. A fixed piece of work shows whether it is.",
    mend: "Look for what changes with an arm: heat, a scheduled job, another CPU. Then run it again.",
    reads: "the time of fixed work on the host before and after each trial, except with counted instructions",
    judge: Judge::Run(host_speed),
    foreseen: Foreseen::Nothing,
};

fn host_speed(subject: &Subject<'_>) -> Outcome {
    if subject.run.opening.ns_per_instruction.is_some() {
        return Outcome::NotApplicable;
    }
    match subject.run.plan.machine.kind {
        MachineKind::Url | MachineKind::Ssh => return unknown(Missing::SystemOnNetwork),
        MachineKind::Qemu | MachineKind::Local => {}
    }
    let speeds = &subject.judgement.host_speed;
    if speeds.is_empty() {
        return without("spin");
    }
    if let Some(few) = speeds.iter().find(|speed| speed.blocks < speed.needed) {
        return unknown(Missing::Blocks { needed: few.needed });
    }
    let limit = subject.run.plan.design.margin.ln_1p() * OF_MARGIN;
    let is_slower = |speed: &&HostSpeed| speed.is_significant && speed.ratio.ln().abs() > limit;
    let slower = speeds.iter().filter(is_slower);
    let found = unless(
        slower
            .map(|speed| {
                beyond(
                    &speed.workload,
                    &speed.arm,
                    Quantity::HostTime,
                    speed.ratio.ln().abs().exp(),
                    limit.exp(),
                )
            })
            .collect(),
    );
    let is_within = |end: Option<f64>| end.is_some_and(|ratio| ratio.ln().abs() <= limit);
    let is_precise = |speed: &HostSpeed| is_within(speed.low) && is_within(speed.high);
    match found {
        Outcome::Passed if !speeds.iter().all(is_precise) => unknown(Missing::Precision),
        found => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topics::fairness::tests::*;

    fn found(ratio: f64, blocks: u32, is_significant: bool) -> Outcome {
        found_within(ratio, blocks, is_significant, 0.0001)
    }

    fn found_within(ratio: f64, blocks: u32, is_significant: bool, half_width: f64) -> Outcome {
        let run = whole().run();
        let mut judgement = judged(&run);
        judgement.host_speed = vec![HostSpeed {
            workload: "web".into(),
            arm: "7.2".into(),
            blocks,
            needed: 6,
            ratio,
            low: Some(ratio - half_width),
            high: Some(ratio + half_width),
            is_significant,
        }];
        outcome_of(&CHECK, &run, &judgement)
    }

    #[test]
    fn a_host_that_goes_with_an_arm_is_found() {
        assert!(is_failed(&found(1.05, 8, true)));
        assert!(is_failed(&found(0.95, 8, true)));
        assert_eq!(found(1.0, 8, false), Outcome::Passed);
        assert!(is_unknown(&found(1.05, 8, false)));
        assert!(is_unknown(&found_within(1.0, 8, false, 0.09)));
        assert_eq!(
            found(1.0001, 8, true),
            Outcome::Passed,
            "within half the margin"
        );
        assert!(is_unknown(&found(1.0, 5, false)));
    }

    #[test]
    fn what_was_not_tried_does_not_pass() {
        assert!(is_unknown(&outcome(&CHECK, &whole().run())));
        let counted = whole().with(|run| run.opening.ns_per_instruction = Some(2));
        assert_eq!(outcome(&CHECK, &counted.run()), Outcome::NotApplicable);
        let elsewhere = whole().with(|run| run.plan.machine.kind = MachineKind::Url);
        assert!(is_unknown(&outcome(&CHECK, &elsewhere.run())));
    }
}
