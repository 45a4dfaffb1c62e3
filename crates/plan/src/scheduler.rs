//! `scheduler`: which scheduler of earlier kernels an arm's kernel runs in place of its own.

use serde::{Deserialize, Serialize};

use crate::fields::Fields;
use crate::machine::{MachineKind, MachinePlan};

/// A scheduler that bakeoff brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// That of Linux 2.4: one list, of which each task is looked at.
    Goodness,
    /// That of Linux 2.6.0: two arrays of queues by priority.
    O1,
    /// One queue, first in, first out: what the framework costs.
    Fifo,
}

impl Scheduler {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Goodness, Self::O1, Self::Fifo];

    /// Its name in a plan, and in the kernel.
    pub fn word(self) -> &'static str {
        match self {
            Self::Goodness => "goodness",
            Self::O1 => "o1",
            Self::Fifo => "fifo",
        }
    }
}

const KEY: &str = "scheduler";

/// An arm's own. `cpus` is what the arm says of its CPUs.
pub(crate) fn read(
    fields: &Fields<'_>,
    machine: &MachinePlan,
    cpus: Option<u32>,
) -> Option<Scheduler> {
    let scheduler = fields.choice(KEY, &Scheduler::ALL.map(|one| (one.word(), one)))?;
    if machine.kind != MachineKind::Qemu {
        let what = format!("scheduler on a machine of kind \"{}\"", machine.kind.word());
        fields.wrong(KEY, what, "remove it, or write kind = \"qemu\"");
        return None;
    }
    // They hold no locks.
    let cpus = cpus.unwrap_or(machine.cpus);
    if cpus > 1 {
        let what = format!("scheduler with more than one CPU: {cpus}");
        fields.wrong(KEY, what, "write cpus = 1 in the arm or in [machine]");
    }
    Some(scheduler)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use expect_test::{Expect, expect};

    use crate::{Checks, WorkloadPlan, read};

    fn check(machine: &str, arm: &str, want: &Expect) {
        let kernel = match machine {
            "kind = \"local\"" => "",
            _ => "kernel = \"debian:trixie-backports/7.2\"",
        };
        let image = match machine {
            "kind = \"local\"" => "",
            _ => "[image]\nrecipe = \"web\"",
        };
        let text = format!(
            "title = \"t\"\nbaseline = \"a\"\n[arm.a]\n{kernel}\n[arm.b]\n{arm}\n{kernel}\n[machine]\n{machine}\n{image}\n\
             [[workload]]\nkind = \"toy\"\n"
        );
        let toy = |fields: &crate::fields::Fields<'_>| {
            fields.choice("kind", &[("toy", ())])?;
            fields.finish();
            Some(WorkloadPlan {
                id: "toy".into(),
                kind: "toy".into(),
                options: serde_json::Value::Null,
                length: std::time::Duration::from_secs(1),
                window: std::time::Duration::from_secs(1),
                expected: None,
            })
        };
        let plan = read("plan.toml", &text, Path::new(""), Checks::of_the_past(&toy));
        let told = match plan {
            Ok(plan) => format!("{:?}", plan.arms[1].tuning.scheduler),
            Err(problems) => problems.to_string(),
        };
        want.assert_eq(&told);
    }

    #[test]
    fn a_scheduler_is_one_of_three_on_one_cpu_of_a_guest() {
        let guest = "kind = \"qemu\"";
        check(guest, "", &expect!["None"]);
        check(guest, "scheduler = \"o1\"", &expect!["Some(O1)"]);
        check(
            guest,
            "scheduler = \"goodnes\"",
            &expect![[r#"plan.toml:6: unknown scheduler: "goodnes" (did you mean "goodness"?)"#]],
        );
        check(
            guest,
            "scheduler = 24",
            &expect![[
                r#"plan.toml:6: wrong type for scheduler in [arm."b"]: integer (write a text in quotes)"#
            ]],
        );
        check(
            guest,
            "scheduler = \"o1\"\ncpus = 2",
            &expect![
                "plan.toml:6: scheduler with more than one CPU: 2 (write cpus = 1 in the arm or in [machine])"
            ],
        );
        let two = "kind = \"qemu\"\ncpus = 2";
        check(
            two,
            "scheduler = \"fifo\"",
            &expect![
                "plan.toml:6: scheduler with more than one CPU: 2 (write cpus = 1 in the arm or in [machine])"
            ],
        );
        check(
            two,
            "scheduler = \"fifo\"\ncpus = 1",
            &expect!["Some(Fifo)"],
        );
        check(
            "kind = \"local\"",
            "scheduler = \"goodness\"",
            &expect![[
                r#"plan.toml:6: scheduler on a machine of kind "local" (remove it, or write kind = "qemu")"#
            ]],
        );
    }
}
