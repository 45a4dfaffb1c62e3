//! Results of checks of a run that the plan alone predicts: differences due to an arm's parameters, sysctls and limits.
//!
//! They are reported before anything boots. The run's checks still read the recorded facts, and give the same result as predicted.
//! What the plan does not decide is not predicted.

use std::collections::BTreeMap;

use plan::kernel::KernelRef;
use plan::{Arm, MachineKind, Mode, Plan, WorkloadPlan};
use record::verdict::fairness::{AcceptedBy, Detail, Outcome, Quantity};

use crate::topics::fairness::subject::{beyond, kernels_differ};
use crate::topics::fairness::{Check, Foreseen};

/// The predicted result of a check that needs a run; `None` if the plan predicts nothing, or no problem.
pub(crate) fn foresee(plan: &Plan, check: &Check) -> Option<Outcome> {
    let is_set_up = plan.machine.kind != MachineKind::Url;
    match check.foreseen {
        Foreseen::Plan(foresee) => foresee(plan),
        Foreseen::System(foresee) if is_set_up => foresee(plan),
        Foreseen::Parameters(names) if is_set_up => by_parameters(plan, names),
        Foreseen::Sysctls(patterns) if is_set_up => by_sysctls(plan, patterns),
        _ => None,
    }
}

/// A difference due to kernel parameters of the plan does not come with the kernels. It is the plan's question, or a failed check
/// if kernels are compared.
pub(crate) fn named(plan: &Plan, check: &Check, outcome: Outcome) -> Outcome {
    let is_disturbed = matches!(check.foreseen, Foreseen::ByDisturbances);
    if is_disturbed && !plan.disturbances.is_empty() {
        return match outcome {
            Outcome::Failed { details } => by_plan(details),
            other => other,
        };
    }
    let by_parameters = match (plan.mode, check.foreseen) {
        (Some(Mode::AsShipped) | None, Foreseen::Parameters(names)) => by_parameters(plan, names),
        _ => None,
    };
    let (Some(foreseen), Some(details)) = (by_parameters, problems(&outcome)) else {
        return outcome;
    };
    match foreseen {
        Outcome::Failed { .. } => Outcome::Failed { details },
        _ => by_plan(details),
    }
}

/// The problems that the plan has not accepted already.
fn problems(outcome: &Outcome) -> Option<Vec<Detail>> {
    match outcome {
        Outcome::Failed { details }
        | Outcome::Accepted {
            by: AcceptedBy::Kernel | AcceptedBy::KernelOrMemory | AcceptedBy::AsShipped,
            details,
        } => Some(details.clone()),
        Outcome::Accepted { .. }
        | Outcome::Passed
        | Outcome::NotApplicable
        | Outcome::Unknown { .. } => None,
    }
}

/// Failed if arms have less than `least` of something for each connection of a workload.
pub(crate) fn too_few(
    plan: &Plan,
    quantity: Quantity,
    least: f64,
    amount: impl Fn(&Arm) -> Option<f64>,
) -> Option<Outcome> {
    let mut details = Vec::new();
    for workload in with_connections(plan) {
        let Some(connections) = connections(&workload.options) else {
            continue;
        };
        for arm in &plan.arms {
            let each = amount(arm).map(|amount| amount / connections.max(1.0));
            if let Some(each) = each.filter(|each| *each < least) {
                details.push(beyond(&workload.id, &arm.name, quantity, each, least));
            }
        }
    }
    (!details.is_empty()).then_some(Outcome::Failed { details })
}

/// Workloads of simulated clients; their runs record the number of connections.
fn with_connections(plan: &Plan) -> impl Iterator<Item = &WorkloadPlan> {
    let workloads = plan.workloads.iter();
    workloads.filter(|workload| workload.traits.opens_connections)
}

/// The most connections that a workload opens at a time; `None` if its options do not state it.
fn connections(options: &serde_json::Value) -> Option<f64> {
    match options
        .get("connections")
        .or_else(|| options.get("clients"))?
    {
        serde_json::Value::Array(steps) => {
            let steps = steps.iter().filter_map(serde_json::Value::as_f64);
            steps.reduce(f64::max)
        }
        number => number.as_f64(),
    }
}

fn by_parameters(plan: &Plan, names: &[&str]) -> Option<Outcome> {
    let parameters = |arm: &Arm| {
        let is_listed = |word: &&str| names.contains(&name_of(word));
        let listed: Vec<&str> = words(arm).filter(is_listed).collect();
        (!listed.is_empty()).then(|| listed.join(" "))
    };
    let details = vec![differing(plan, "kernel parameters", parameters)?];
    // A kernel that runs with and without them is compared with itself.
    let runs_without = |arm: &Arm| {
        let mut others = plan.arms.iter();
        others.any(|other| other.kernel == arm.kernel && parameters(other) != parameters(arm))
    };
    let mut with_parameters = plan.arms.iter().filter(|arm| parameters(arm).is_some());
    let is_question = plan.mode != Some(Mode::Controlled) && with_parameters.all(runs_without);
    let is_explained = plan.arms.iter().all(|arm| arm.tuned.is_stated());
    Some(if !kernels_differ(plan) || is_question || is_explained {
        by_plan(details)
    } else {
        Outcome::Failed { details }
    })
}

fn by_sysctls(plan: &Plan, patterns: &[&str]) -> Option<Outcome> {
    let is_read = |name: &str| {
        let name = plan::sysctl_name(&plan::sysctl_path(name));
        patterns
            .iter()
            .any(|pattern| match pattern.strip_suffix('*') {
                Some(begin) => name.starts_with(begin),
                None => name == *pattern,
            })
    };
    let mut names: Vec<&String> = plan.arms.iter().flat_map(|arm| arm.sysctl.keys()).collect();
    names.retain(|name| is_read(name));
    names.sort();
    names.dedup();
    let detail = |name: &&String| {
        let value = |arm: &Arm| sysctl(arm, name).map(String::from);
        differing(plan, &format!("sysctl {name}"), value)
    };
    let details: Vec<Detail> = names.iter().filter_map(detail).collect();
    (!details.is_empty()).then(|| by_plan(details))
}

pub(crate) fn by_plan(details: Vec<Detail>) -> Outcome {
    Outcome::Accepted {
        by: AcceptedBy::Plan,
        details,
    }
}

/// A difference between arms, if there is one.
pub(crate) fn differing(
    plan: &Plan,
    fact: &str,
    value: impl Fn(&Arm) -> Option<String>,
) -> Option<Detail> {
    let first = value(&plan.arms[0]);
    let has_other = plan.arms.iter().any(|arm| value(arm) != first);
    has_other.then(|| differs(plan, fact, value))
}

pub(crate) fn differs(plan: &Plan, fact: &str, value: impl Fn(&Arm) -> Option<String>) -> Detail {
    let values: BTreeMap<_, _> = plan
        .arms
        .iter()
        .map(|arm| (arm.name.clone(), value(arm)))
        .collect();
    Detail::Differs {
        fact: fact.into(),
        values,
    }
}

/// The words of an arm's command line; an arm on the network has none.
pub(crate) fn words(arm: &Arm) -> impl Iterator<Item = &str> {
    let is_here = !matches!(arm.kernel, KernelRef::Remote(_));
    arm.cmdline.split_whitespace().filter(move |_| is_here)
}

/// A parameter's name, with underscores: the kernel takes dashes for them.
fn name_of(word: &str) -> &str {
    word.split('=').next().unwrap_or(word)
}

/// The last value of a parameter, which is the effective one.
pub(crate) fn parameter<'a>(arm: &'a Arm, name: &str) -> Option<&'a str> {
    let values = words(arm).filter_map(|word| word.split_once('='));
    values
        .filter(|(parameter, _)| *parameter == name)
        .last()
        .map(|(_, value)| value)
}

/// An arm's value of a sysctl, in any spelling of its name.
pub(crate) fn sysctl<'a>(arm: &'a Arm, name: &str) -> Option<&'a str> {
    let path = plan::sysctl_path(name);
    let mut settings = arm.sysctl.iter();
    let found = settings.find(|(set, _)| plan::sysctl_path(set) == path);
    found.map(|(_, value)| value.as_str())
}

#[cfg(test)]
mod tests {
    use plan::{Clock, DisturbedBlocks, MachineKind};
    use record::rundir::Run;
    use record::verdict::fairness::{CheckResult, Outcome};

    use crate::topics::fairness::tests::{is_accepted, is_failed, one_kernel, whole};

    /// The predicted results of a plan, by check.
    fn foreseen(change: impl FnOnce(&mut Run)) -> impl Fn(&str) -> Option<Outcome> {
        let run = whole().with(change).run();
        let found: Vec<CheckResult> = crate::topics::fairness::of_plan(&run.plan);
        move |id: &str| {
            let result = found.iter().find(|result| result.id == id);
            result.map(|result| result.outcome.clone())
        }
    }

    #[track_caller]
    fn fails(foreseen: &impl Fn(&str) -> Option<Outcome>, id: &str) {
        assert!(
            foreseen(id).is_some_and(|outcome| is_failed(&outcome)),
            "{id}: {:?}",
            foreseen(id)
        );
    }

    #[track_caller]
    fn is_planned(foreseen: &impl Fn(&str) -> Option<Outcome>, id: &str) {
        assert!(
            foreseen(id).is_some_and(|outcome| is_accepted(&outcome)),
            "{id}: {:?}",
            foreseen(id)
        );
    }

    #[test]
    fn a_plan_of_equal_arms_foresees_nothing() {
        let plan = foreseen(|_| {});
        for id in [
            "memory",
            "cpus",
            "command-line",
            "descriptors",
            "limits",
            "sysctls",
        ] {
            assert_eq!(plan(id), None, "{id}");
        }
    }

    #[test]
    fn kept_blocks_are_foreseen_with_wall_clock_time() {
        let of_clock = |clock| {
            let plan = foreseen(|run| {
                run.plan.disturbed_blocks = DisturbedBlocks::Keep;
                run.plan.machine.clock = clock;
            });
            plan("disturbed-blocks").is_some_and(|outcome| is_accepted(&outcome))
        };
        let clocks = [Clock::Wall, Clock::Auto, Clock::Instructions];
        assert_eq!(clocks.map(of_clock), [true, false, false]);
        let on_network = foreseen(|run| {
            run.plan.disturbed_blocks = DisturbedBlocks::Keep;
            run.plan.machine.kind = MachineKind::Url;
        });
        is_planned(&on_network, "disturbed-blocks");
    }

    #[test]
    fn memory_that_one_arm_alone_lacks_is_foreseen() {
        let handicap = foreseen(|run| run.plan.arms[1].cmdline = "quiet mem=256M".into());
        fails(&handicap, "memory");
        is_planned(&handicap, "command-line");
        fails(&handicap, "one-sided-tuning");
        let question = foreseen(|run| {
            one_kernel(run);
            run.plan.arms[1].cmdline = "mem=256M".into();
        });
        is_planned(&question, "memory");
        let more = foreseen(|run| run.plan.arms[1].cmdline = "mem=64G".into());
        assert_eq!(more("memory"), None);
        let taken = foreseen(|run| run.plan.arms[1].cmdline = "memmap=512M$256M".into());
        fails(&taken, "memory");
    }

    #[test]
    fn cpus_that_parameters_take_are_foreseen_and_those_of_the_plan_accepted() {
        let handicap = foreseen(|run| {
            run.plan.machine.cpus = 4;
            run.plan.arms[1].cmdline = "maxcpus=1".into();
        });
        fails(&handicap, "cpus");
        is_planned(&foreseen(|run| run.plan.arms[1].cpus = Some(2)), "cpus");
        let same = foreseen(|run| run.plan.arms[1].cmdline = "maxcpus=1".into());
        assert_eq!(same("cpus"), None);
    }

    #[test]
    fn what_one_arm_alone_sets_is_foreseen() {
        let question = foreseen(|run| {
            one_kernel(run);
            run.plan.arms[1].cmdline = "mitigations=off transparent_hugepage=never".into();
        });
        is_planned(&question, "mitigations");
        is_planned(&question, "huge-pages");
        let tuned = foreseen(|run| {
            let sysctls = [("net.ipv4.tcp_rmem", "1 2 3"), ("vm/dirty_ratio", "5")];
            run.plan.arms[1].sysctl = sysctls
                .map(|(name, value)| (name.into(), value.into()))
                .into();
        });
        for id in ["sysctls", "socket-buffers", "writeback"] {
            is_planned(&tuned, id);
        }
        assert_eq!(tuned("congestion-control"), None);
        fails(&tuned, "one-sided-tuning");
    }

    #[test]
    fn a_limit_below_the_connections_of_the_load_is_foreseen() {
        let plan = foreseen(|run| {
            run.plan.workloads[0].options = serde_json::json!({ "connections": 48 });
            run.plan.arms[0].tuning.nofile = Some(24);
            run.plan.arms[1].sysctl = [("net.core.somaxconn".into(), "16".into())].into();
        });
        for id in ["descriptors", "listen-backlog", "limits"] {
            fails(&plan, id);
        }
    }

    #[test]
    fn a_parameter_that_the_plan_asks_about_is_named_by_it() {
        let fact = "/sys/devices/system/cpu/vulnerabilities/meltdown";
        let outcome = |change: fn(&mut Run)| {
            let run =
                crate::topics::fairness::tests::two_arms(fact, ["Mitigation: PTI", "Vulnerable"]);
            let run = run.with(one_kernel).with(change).run();
            let judgement = crate::topics::fairness::tests::judged(&run);
            let found = crate::topics::fairness::of_run(&run, &judgement, &run.accepted);
            let mut results = found.into_iter();
            let result = results.find(|result| result.id == "mitigations");
            result.unwrap().outcome
        };
        assert!(is_failed(&outcome(|_| {})));
        assert!(is_accepted(&outcome(
            |run| run.plan.arms[1].cmdline = "mitigations=off".into()
        )));
    }
}
