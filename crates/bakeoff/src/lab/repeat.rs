//! Failures that repeat exactly, such as a pattern without a match or a value that a kernel refuses. The next block would
//! fail the same way, so the run stops.

use std::fmt;

use record::rundir::{Run, TrialRecord};
use record::trial::{Outcome, Void};

/// Every attempt of every arm at a workload failed in the same way, in all blocks so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repeated {
    /// The workload's id.
    pub workload: String,
    /// Blocks that were tried.
    pub blocks: u32,
    /// The failure of the last attempt.
    pub failure: Void,
}

impl fmt::Display for Repeated {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let blocks = match self.blocks {
            1 => "block 1".into(),
            blocks => format!("blocks 1 to {blocks}"),
        };
        write!(
            out,
            "{blocks}: no figure on any arm of {}, each attempt failed the same way: {}",
            self.workload, self.failure
        )?;
        for line in &self.failure.console {
            if !self.failure.detail.contains(line.trim()) {
                write!(out, "\n  {line}")?;
            }
        }
        write!(
            out,
            "\n(mend the plan and begin a new run with --out DIR; or mend the machine, and the same command goes on)"
        )
    }
}

impl std::error::Error for Repeated {}

/// Refuses to continue a run in which every attempt at a workload failed in the same way.
///
/// # Errors
/// The workload and its failure.
pub fn refuse(run: &Run) -> Result<(), Repeated> {
    let mut ids = run.plan.workloads.iter().map(|workload| &workload.id);
    ids.find_map(|id| repeated(run, id)).map_or(Ok(()), Err)
}

fn repeated(run: &Run, workload: &str) -> Option<Repeated> {
    // An invalidated trial was measured, so the workload does not always fail.
    if run
        .invalidated
        .iter()
        .any(|record| record.trial.workload == workload)
    {
        return None;
    }
    let attempts = run.attempts.iter();
    let attempts: Vec<&TrialRecord> = attempts
        .filter(|record| record.trial.workload == workload)
        .collect();
    let mut failures: Vec<&Void> = Vec::new();
    for record in &attempts {
        match &record.outcome {
            Outcome::Void(void) => failures.push(void),
            Outcome::Measured(_) | Outcome::Skipped(_) => return None,
        }
    }
    let (first, last) = (*failures.first()?, *failures.last()?);
    let was_tried = |arm: &str| attempts.iter().any(|record| record.trial.arm == arm);
    let all_arms_tried = run.plan.arms.iter().all(|arm| was_tried(&arm.name));
    let detail = without_digits(&first.detail);
    let all_the_same = failures
        .iter()
        .all(|void| void.reason == first.reason && without_digits(&void.detail) == detail);
    let blocks = attempts.iter().map(|record| record.trial.block);
    (all_arms_tried && all_the_same).then(|| Repeated {
        workload: workload.into(),
        blocks: blocks.max().unwrap_or(1),
        failure: last.clone(),
    })
}

/// Text without digits: process numbers, ports and times change from attempt to attempt.
fn without_digits(text: &str) -> String {
    text.chars()
        .filter(|letter| !letter.is_ascii_digit())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use plan::Checks;
    use record::journal::Opening;
    use record::machine::MachineDescription;
    use record::rundir::TRIAL_VERSION;
    use record::trial::{Trial, VoidReason};

    use super::*;

    const PLAN: &str = r#"
title = "t"
baseline = "old"
[machine]
kind = "local"
[arm.old]
[arm.new]
[[workload]]
kind = "web-static"
server = "nginx"
connections = 4
window = "1s"
"#;

    /// A run with these attempts: block, arm, failure (empty if the attempt was skipped).
    fn run(attempts: &[(u32, &str, &str)]) -> Run {
        let checks = Checks::of_the_past(&workload::check);
        let plan = plan::read("plan.toml", PLAN, Path::new(""), checks).unwrap();
        let record = |(block, arm, detail): &(u32, &str, &str)| TrialRecord {
            version: TRIAL_VERSION,
            trial: Trial {
                number: block * 2,
                block: *block,
                slot: 1,
                arm: (*arm).into(),
                workload: "web-static".into(),
            },
            attempt: 1,
            host_time: Vec::new(),
            profile: None,
            defects: None,
            outcome: match *detail {
                "" => Outcome::Skipped("not tried".into()),
                detail => Outcome::Void(Void {
                    reason: VoidReason::CheckFailed,
                    detail: detail.into(),
                    console: vec!["last words".into()],
                }),
            },
        };
        Run {
            plan,
            plan_text: PLAN.into(),
            opening: Opening {
                version: 1,
                bakeoff: "test".into(),
                inputs: std::collections::BTreeMap::new(),
                machine: MachineDescription::Fake,
                ns_per_instruction: None,
                string_price: None,
                clients: None,
                host_cpus: None,
            },
            entries: Vec::new(),
            journal_sha256: None,
            attempts: attempts.iter().map(record).collect(),
            invalidated: Vec::new(),
            profiled: Vec::new(),
            facts: attempts.iter().map(|_| None).collect(),
            long: Vec::new(),
            missing: Vec::new(),
            models: None,
            accepted: std::collections::BTreeMap::new(),
            history: None,
        }
    }

    #[test]
    fn a_failure_that_repeats_in_every_attempt_stops_the_run() {
        let why = "metric rate: the pattern is not there (process 17)";
        let other = "metric rate: the pattern is not there (process 4711)";
        let all = [
            (1, "old", why),
            (1, "old", other),
            (1, "new", other),
            (1, "new", why),
        ];
        let message = refuse(&run(&all)).unwrap_err().to_string();
        expect_test::expect![[r#"
            block 1: no figure on any arm of web-static, each attempt failed the same way: check failed: metric rate: the pattern is not there (process 17)
              last words
            (mend the plan and begin a new run with --out DIR; or mend the machine, and the same command goes on)"#]]
        .assert_eq(&message);
        let later = [all.as_slice(), &[(2, "new", why), (2, "old", why)]].concat();
        let message = refuse(&run(&later)).unwrap_err().to_string();
        assert!(
            message.starts_with("blocks 1 to 2: no figure on any arm"),
            "{message}"
        );
    }

    #[test]
    fn another_failure_or_an_arm_that_was_not_tried_lets_it_go_on() {
        let why = "the pattern is not there";
        for attempts in [
            &[][..],
            &[(1, "old", why)],
            &[
                (1, "old", why),
                (1, "new", "the program ended with status 1"),
            ],
            &[(1, "old", why), (1, "new", "")],
        ] {
            assert_eq!(refuse(&run(attempts)), Ok(()), "{attempts:?}");
        }
        let mut run = run(&[(1, "old", why), (1, "new", why)]);
        run.invalidated = run.attempts.clone();
        assert_eq!(refuse(&run), Ok(()));
    }
}
