//! Was the host as fast beside one arm as beside another?

use plan::MachineKind;
use record::verdict::fairness::{Missing, Outcome, Quantity};
use record::verdict::host::HostSpeed;

use crate::topics::fairness::subject::{Subject, beyond, not_known, unless, without};
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

/// Of the plan's margin, how much the host may differ.
const OF_MARGIN: f64 = 0.5;

pub(crate) const CHECK: Check = Check {
    id: "host-speed",
    group: Group::Measurement,
    question: "Was the host as fast beside one arm as beside another?",
    reads: "what a fixed piece of work took on the host before and after each trial",
    passes: "the interval of the difference between arms, block by block, lies within half the margin; a violation where a difference past it is more than chance; time that is counted in instructions hangs on no host",
    why: "What moves all metrics one way at once is most often the rig. A better kernel may do so too, so that the metrics themselves prove nothing; work that runs on no arm does.",
    mend: "look for what goes with an arm: heat after its trials, a job at the same hour, another CPU; then run it again",
    judge: Judge::Run(host_speed),
    foreseen: Foreseen::Nothing,
};

fn host_speed(subject: &Subject<'_>) -> Outcome {
    if subject.run.opening.ns_per_instruction.is_some() {
        return Outcome::NotApplicable;
    }
    match subject.run.plan.machine.kind {
        MachineKind::Url | MachineKind::Ssh => return not_known(Missing::SystemOnNetwork),
        MachineKind::Qemu | MachineKind::Local => {}
    }
    let speeds = &subject.judgement.host_speed;
    if speeds.is_empty() {
        return without("spin");
    }
    if let Some(few) = speeds.iter().find(|one| one.blocks < one.needed) {
        return not_known(Missing::Blocks { needed: few.needed });
    }
    let limit = subject.run.plan.design.margin.ln_1p() * OF_MARGIN;
    let is_slower = |one: &&HostSpeed| one.is_told && one.ratio.ln().abs() > limit;
    let slower = speeds.iter().filter(is_slower);
    let found = unless(
        slower
            .map(|one| {
                let whom = (&*one.workload, &*one.arm);
                beyond(
                    whom,
                    Quantity::HostTime,
                    one.ratio.ln().abs().exp(),
                    limit.exp(),
                )
            })
            .collect(),
    );
    let is_within = |end: Option<f64>| end.is_some_and(|ratio| ratio.ln().abs() <= limit);
    let is_precise = |one: &HostSpeed| is_within(one.low) && is_within(one.high);
    match found {
        Outcome::Pass if !speeds.iter().all(is_precise) => not_known(Missing::Precision),
        found => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topics::fairness::tests::*;

    fn found(ratio: f64, blocks: u32, is_told: bool) -> Outcome {
        found_within(ratio, blocks, is_told, 0.0001)
    }

    fn found_within(ratio: f64, blocks: u32, is_told: bool, half_width: f64) -> Outcome {
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
            is_told,
        }];
        outcome_of(&CHECK, &run, &judgement)
    }

    #[test]
    fn a_host_that_goes_with_an_arm_is_found() {
        assert!(is_violation(&found(1.05, 8, true)));
        assert!(is_violation(&found(0.95, 8, true)));
        assert_eq!(found(1.0, 8, false), Outcome::Pass);
        assert!(is_unknown(&found(1.05, 8, false)));
        assert!(is_unknown(&found_within(1.0, 8, false, 0.09)));
        assert_eq!(
            found(1.0001, 8, true),
            Outcome::Pass,
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
