//! What checks of a run will find, as far as the plan alone tells: what an arm's parameters, sysctls and limits make unlike.
//!
//! It is told before anything boots, so that nobody waits for a night to read it. The run answers all the same from its facts:
//! what is foreseen here has the outcome that it has there, and what the plan does not decide is not told.

use std::collections::BTreeMap;

use plan::kernel::KernelRef;
use plan::{Arm, MachineKind, Mode, Plan, WorkloadPlan};
use record::verdict::fairness::{Declaration, Detail, Outcome, Quantity};

use crate::topics::fairness::subject::{beyond, kernels_differ};
use crate::topics::fairness::{Check, Foreseen};

/// What the plan tells of a check that needs a run; `None` where it tells nothing, or nothing amiss.
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

/// What the plan itself makes unlike by kernel parameters comes with no kernel: it is the plan's question, or a violation where
/// kernels are compared.
pub(crate) fn named(plan: &Plan, check: &Check, outcome: Outcome) -> Outcome {
    let is_disturbed = matches!(check.foreseen, Foreseen::ByDisturbances);
    if is_disturbed && !plan.disturbances.is_empty() {
        return match outcome {
            Outcome::Violation { details } => by_plan(details),
            other => other,
        };
    }
    let by_parameters = match (plan.mode, check.foreseen) {
        (Some(Mode::AsShipped) | None, Foreseen::Parameters(names)) => by_parameters(plan, names),
        _ => None,
    };
    let (Some(foreseen), Some(details)) = (by_parameters, amiss(&outcome)) else {
        return outcome;
    };
    match foreseen {
        Outcome::Violation { .. } => Outcome::Violation { details },
        _ => by_plan(details),
    }
}

/// What is unlike, as far as the plan has not named it already.
fn amiss(outcome: &Outcome) -> Option<Vec<Detail>> {
    match outcome {
        Outcome::Violation { details }
        | Outcome::Declared {
            by: Declaration::Kernel | Declaration::KernelOrMemory | Declaration::AsShipped,
            details,
        } => Some(details.clone()),
        Outcome::Declared { .. }
        | Outcome::Pass
        | Outcome::NotApplicable
        | Outcome::NotKnown { .. } => None,
    }
}

/// So few of something for each connection of a workload that the run's check will find it.
pub(crate) fn too_few(
    plan: &Plan,
    quantity: Quantity,
    least: f64,
    of: impl Fn(&Arm) -> Option<f64>,
) -> Option<Outcome> {
    let mut details = Vec::new();
    for workload in with_connections(plan) {
        let Some(connections) = connections(&workload.options) else {
            continue;
        };
        for arm in &plan.arms {
            let each = of(arm).map(|count| count / connections.max(1.0));
            if let Some(each) = each.filter(|each| *each < least) {
                details.push(beyond((&workload.id, &arm.name), quantity, each, least));
            }
        }
    }
    (!details.is_empty()).then_some(Outcome::Violation { details })
}

/// Workloads of simulated clients, so that a run tells how many connections there were.
fn with_connections(plan: &Plan) -> impl Iterator<Item = &WorkloadPlan> {
    let workloads = plan.workloads.iter();
    workloads.filter(|workload| workload.traits.opens_connections)
}

/// The most connections that a workload opens at a time; `None` where it does not say.
fn connections(options: &serde_json::Value) -> Option<f64> {
    match options
        .get("connections")
        .or_else(|| options.get("clients"))?
    {
        serde_json::Value::Array(steps) => {
            let steps = steps.iter().filter_map(serde_json::Value::as_f64);
            steps.reduce(f64::max)
        }
        one => one.as_f64(),
    }
}

fn by_parameters(plan: &Plan, names: &[&str]) -> Option<Outcome> {
    let own = |arm: &Arm| {
        let is_one = |word: &&str| names.contains(&name_of(word));
        let own: Vec<&str> = words(arm).filter(is_one).collect();
        (!own.is_empty()).then(|| own.join(" "))
    };
    let details = vec![differing(plan, "kernel parameters", own)?];
    // A kernel that is there with them and without is compared with itself.
    let is_there_without = |arm: &Arm| {
        let mut others = plan.arms.iter();
        others.any(|one| one.kernel == arm.kernel && own(one) != own(arm))
    };
    let mut set = plan.arms.iter().filter(|arm| own(arm).is_some());
    let is_question = plan.mode != Some(Mode::Controlled) && set.all(is_there_without);
    let is_explained = plan.arms.iter().all(|arm| arm.tuned.is_stated());
    Some(if !kernels_differ(plan) || is_question || is_explained {
        by_plan(details)
    } else {
        Outcome::Violation { details }
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
        let own = |arm: &Arm| sysctl(arm, name).map(String::from);
        differing(plan, &format!("sysctl {name}"), own)
    };
    let details: Vec<Detail> = names.iter().filter_map(detail).collect();
    (!details.is_empty()).then(|| by_plan(details))
}

pub(crate) fn by_plan(details: Vec<Detail>) -> Outcome {
    Outcome::Declared {
        by: Declaration::Plan,
        details,
    }
}

/// A difference between arms, where there is one.
pub(crate) fn differing(
    plan: &Plan,
    fact: &str,
    of: impl Fn(&Arm) -> Option<String>,
) -> Option<Detail> {
    let first = of(&plan.arms[0]);
    let is_other = plan.arms.iter().any(|arm| of(arm) != first);
    is_other.then(|| differs(plan, fact, of))
}

pub(crate) fn differs(plan: &Plan, fact: &str, of: impl Fn(&Arm) -> Option<String>) -> Detail {
    let values: BTreeMap<_, _> = plan
        .arms
        .iter()
        .map(|arm| (arm.name.clone(), of(arm)))
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

/// The last value of a parameter, which is the one that holds.
pub(crate) fn parameter<'a>(arm: &'a Arm, name: &str) -> Option<&'a str> {
    let values = words(arm).filter_map(|word| word.split_once('='));
    values
        .filter(|(own, _)| *own == name)
        .last()
        .map(|(_, value)| value)
}

/// What an arm sets a sysctl to, however it writes its name.
pub(crate) fn sysctl<'a>(arm: &'a Arm, name: &str) -> Option<&'a str> {
    let path = plan::sysctl_path(name);
    let mut own = arm.sysctl.iter();
    let found = own.find(|(set, _)| plan::sysctl_path(set) == path);
    found.map(|(_, value)| value.as_str())
}

#[cfg(test)]
mod tests {
    use plan::{Clock, DisturbedBlocks, MachineKind};
    use record::rundir::Run;
    use record::verdict::fairness::{CheckResult, Outcome};

    use crate::topics::fairness::tests::{is_declared, is_violation, one_kernel, whole};

    /// What is told of a plan before it runs, by check.
    fn told(change: impl FnOnce(&mut Run)) -> impl Fn(&str) -> Option<Outcome> {
        let run = whole().with(change).run();
        let found: Vec<CheckResult> = crate::topics::fairness::of_plan(&run.plan);
        move |id: &str| {
            let its = found.iter().find(|one| one.id == id);
            its.map(|one| one.outcome.clone())
        }
    }

    #[track_caller]
    fn violated(told: &impl Fn(&str) -> Option<Outcome>, id: &str) {
        assert!(
            told(id).is_some_and(|one| is_violation(&one)),
            "{id}: {:?}",
            told(id)
        );
    }

    #[track_caller]
    fn declared(told: &impl Fn(&str) -> Option<Outcome>, id: &str) {
        assert!(
            told(id).is_some_and(|one| is_declared(&one)),
            "{id}: {:?}",
            told(id)
        );
    }

    #[test]
    fn a_plan_of_equal_arms_foresees_nothing() {
        let told = told(|_| {});
        for id in [
            "memory",
            "cpus",
            "command-line",
            "descriptors",
            "limits",
            "sysctls",
        ] {
            assert_eq!(told(id), None, "{id}");
        }
    }

    #[test]
    fn that_disturbed_blocks_are_kept_is_told_where_the_clock_is_the_walls() {
        let of_clock = |clock| {
            let told = told(|run| {
                run.plan.disturbed_blocks = DisturbedBlocks::Keep;
                run.plan.machine.clock = clock;
            });
            told("disturbed-blocks").is_some_and(|one| is_declared(&one))
        };
        let clocks = [Clock::Wall, Clock::Auto, Clock::Instructions];
        assert_eq!(clocks.map(of_clock), [true, false, false]);
        let on_network = told(|run| {
            run.plan.disturbed_blocks = DisturbedBlocks::Keep;
            run.plan.machine.kind = MachineKind::Url;
        });
        declared(&on_network, "disturbed-blocks");
    }

    #[test]
    fn memory_that_one_arm_alone_lacks_is_foreseen() {
        let handicap = told(|run| run.plan.arms[1].cmdline = "quiet mem=256M".into());
        violated(&handicap, "memory");
        declared(&handicap, "command-line");
        violated(&handicap, "one-sided-tuning");
        let question = told(|run| {
            one_kernel(run);
            run.plan.arms[1].cmdline = "mem=256M".into();
        });
        declared(&question, "memory");
        let more = told(|run| run.plan.arms[1].cmdline = "mem=64G".into());
        assert_eq!(more("memory"), None);
        let taken = told(|run| run.plan.arms[1].cmdline = "memmap=512M$256M".into());
        violated(&taken, "memory");
    }

    #[test]
    fn cpus_that_parameters_take_are_foreseen_and_those_of_the_plan_declared() {
        let handicap = told(|run| {
            run.plan.machine.cpus = 4;
            run.plan.arms[1].cmdline = "maxcpus=1".into();
        });
        violated(&handicap, "cpus");
        declared(&told(|run| run.plan.arms[1].cpus = Some(2)), "cpus");
        let one = told(|run| run.plan.arms[1].cmdline = "maxcpus=1".into());
        assert_eq!(one("cpus"), None);
    }

    #[test]
    fn what_one_arm_alone_sets_is_foreseen() {
        let question = told(|run| {
            one_kernel(run);
            run.plan.arms[1].cmdline = "mitigations=off transparent_hugepage=never".into();
        });
        declared(&question, "mitigations");
        declared(&question, "huge-pages");
        let tuned = told(|run| {
            let sysctls = [("net.ipv4.tcp_rmem", "1 2 3"), ("vm/dirty_ratio", "5")];
            run.plan.arms[1].sysctl = sysctls
                .map(|(name, value)| (name.into(), value.into()))
                .into();
        });
        for id in ["sysctls", "socket-buffers", "writeback"] {
            declared(&tuned, id);
        }
        assert_eq!(tuned("congestion-control"), None);
        violated(&tuned, "one-sided-tuning");
    }

    #[test]
    fn a_limit_below_the_connections_of_the_load_is_foreseen() {
        let told = told(|run| {
            run.plan.workloads[0].options = serde_json::json!({ "connections": 48 });
            run.plan.arms[0].tuning.nofile = Some(24);
            run.plan.arms[1].sysctl = [("net.core.somaxconn".into(), "16".into())].into();
        });
        for id in ["descriptors", "listen-backlog", "limits"] {
            violated(&told, id);
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
            let its = found.into_iter().find(|one| one.id == "mitigations");
            its.unwrap().outcome
        };
        assert!(is_violation(&outcome(|_| {})));
        assert!(is_declared(&outcome(
            |run| run.plan.arms[1].cmdline = "mitigations=off".into()
        )));
    }
}
