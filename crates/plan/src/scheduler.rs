//! `scheduler`: a CPU scheduler of earlier kernels that replaces that of an arm's kernel.

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::fields::Fields;
use crate::machine::{MachineKind, MachinePlan};

/// A scheduler provided by bakeoff.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Scheduler {
    /// That of Linux 2.4: a single list that is searched for the best task.
    Goodness,
    /// That of Linux 2.6.0: two arrays of queues by priority.
    O1,
    /// A single first-in, first-out queue, to measure the cost of the framework.
    Fifo,
}

impl Scheduler {
    /// Its name in a plan, and in the kernel.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

const KEY: &str = "scheduler";

/// Most CPUs. With more, kernels have more task numbers than the table `TASKS` of `schedulers/src/bpf/kernel.h`.
const MOST_CPUS: u32 = 32;

/// Reads `scheduler` of an arm; `cpus` is the arm's number of CPUs, if it has one.
pub(crate) fn read(
    fields: &Fields<'_>,
    machine: &MachinePlan,
    cpus: Option<u32>,
) -> Option<Scheduler> {
    let scheduler: Scheduler = fields.variant(KEY)?;
    if machine.kind != MachineKind::Qemu {
        let what = format!("scheduler on a machine of kind \"{}\"", machine.kind.word());
        fields.wrong(KEY, what, "remove it, or write kind = \"qemu\"");
        return None;
    }
    let cpus = cpus.unwrap_or(machine.cpus);
    if cpus > MOST_CPUS {
        let what = format!("scheduler with more than {MOST_CPUS} CPUs: {cpus}");
        let remedy = format!("write cpus = {MOST_CPUS} or fewer in the arm or in [machine]");
        fields.wrong(KEY, what, remedy);
    }
    Some(scheduler)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use expect_test::{Expect, expect};

    use crate::tests::toy_of_a_second;
    use crate::{Checks, read};

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
        let checks = Checks::of_the_past(&toy_of_a_second);
        let plan = read("plan.toml", &text, Path::new(""), checks);
        let result = match plan {
            Ok(plan) => format!("{:?}", plan.arms[1].tuning.scheduler),
            Err(problems) => problems.to_string(),
        };
        want.assert_eq(&result);
    }

    #[test]
    fn a_scheduler_is_one_of_three_in_a_guest() {
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
            "scheduler = \"o1\"\ncpus = 33",
            &expect![
                "plan.toml:6: scheduler with more than 32 CPUs: 33 (write cpus = 32 or fewer in the arm or in [machine])"
            ],
        );
        let many = "kind = \"qemu\"\ncpus = 33";
        check(
            many,
            "scheduler = \"fifo\"",
            &expect![
                "plan.toml:6: scheduler with more than 32 CPUs: 33 (write cpus = 32 or fewer in the arm or in [machine])"
            ],
        );
        check(
            many,
            "scheduler = \"fifo\"\ncpus = 32",
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
