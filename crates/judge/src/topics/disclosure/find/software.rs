//! What ran: kernels, user land, servers, bakeoff itself.

use std::collections::BTreeSet;

use plan::{Arm, Plan};
use record::evidence::Facts;
use record::fact;
use record::rundir::Run;
use record::trial::{Measurement, Outcome};
use record::verdict::disclosure::{Fact, FactValue, Item, Side};

use super::{by_arm, recorded};
use crate::topics::fairness::checks::compiler_of;
use crate::topics::fairness::subject::is_of_network;

pub(crate) fn of(run: &Run) -> Vec<Fact> {
    let plan = &run.plan;
    let mut facts = vec![fact(
        Item::Kernel,
        "",
        "",
        measured(run, |trial| &trial.kernel),
    )];
    if is_of_network(plan) {
        facts.push(fact(
            Item::Server,
            "",
            "",
            measured(run, |trial| &trial.server),
        ));
    } else {
        facts.extend([
            fact(Item::Compiler, "", "", recorded(run, compiler)),
            fact(
                Item::KernelSource,
                "",
                "",
                by_plan(plan, |arm| Some(arm.kernel.to_string())),
            ),
            fact(
                Item::CommandLine,
                "",
                "",
                recorded(run, |facts| value(facts, fact::CMDLINE)),
            ),
            fact(Item::UserLand, "", "", recorded(run, distribution)),
            fact(
                Item::UserLandHash,
                "",
                "",
                recorded(run, |facts| value(facts, fact::USERLAND)),
            ),
        ]);
        if let Some(image) = &plan.image {
            let recipe = by_plan(plan, |_| Some(image.recipe.clone()));
            facts.push(fact(Item::Image, "", "", recipe));
        }
        facts.extend(servers(run));
    }
    let version = by_plan(plan, |_| Some(run.opening.bakeoff.clone()));
    facts.push(Fact {
        side: Side::Whole,
        ..fact(Item::Bakeoff, "", "", version)
    });
    let host = |facts: &Facts| value(facts, "host:kernel");
    if !is_of_network(plan) && plan.machine.kind == plan::MachineKind::Qemu {
        facts.push(Fact {
            side: Side::Host,
            ..fact(Item::Kernel, "", "", recorded(run, host))
        });
    }
    facts
}

fn fact(item: Item, name: &str, property: &str, values: Vec<FactValue>) -> Fact {
    Fact {
        side: Side::System,
        item,
        name: name.into(),
        property: property.into(),
        values,
    }
}

fn value(facts: &Facts, key: &str) -> Option<String> {
    facts.values.get(key).cloned()
}

/// What is the same in all trials of an arm.
fn by_plan(plan: &Plan, of: impl Fn(&Arm) -> Option<String>) -> Vec<FactValue> {
    by_arm(plan, |name| {
        let arm = plan.arms.iter().find(|arm| arm.name == name);
        arm.and_then(&of).into_iter().collect()
    })
}

/// What measured trials recorded, by arm.
fn measured(run: &Run, of: impl Fn(&Measurement) -> &String) -> Vec<FactValue> {
    by_arm(&run.plan, |arm| {
        let of_arm = run.attempts.iter().filter(|record| record.trial.arm == arm);
        let values = of_arm.filter_map(|record| match &record.outcome {
            Outcome::Measured(measurement) => Some(of(measurement).clone()),
            Outcome::Void(_) | Outcome::Skipped(_) => None,
        });
        let is_known = |value: &String| !value.is_empty() && value != "not known";
        values.filter(is_known).collect()
    })
}

fn compiler(facts: &Facts) -> Option<String> {
    let version = facts.values.get(fact::KERNEL_VERSION)?;
    Some(compiler_of(version)?.to_string())
}

/// `Debian GNU/Linux 12 (bookworm) 12.15`.
fn distribution(facts: &Facts) -> Option<String> {
    let release = facts.values.get(fact::OS_RELEASE)?;
    let name = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_string())
}

/// Version, program and configuration of each server.
fn servers(run: &Run) -> Vec<Fact> {
    let keys = || {
        run.facts
            .iter()
            .flatten()
            .flat_map(|facts| facts.values.keys())
    };
    let names: BTreeSet<&str> = keys()
        .filter_map(|key| key.strip_prefix("version:"))
        .collect();
    let mut found = Vec::new();
    for name in &names {
        let of = |lead: &str| recorded(run, |facts| value(facts, &format!("{lead}:{name}")));
        found.push(fact(Item::Server, name, "", of("version")));
        found.push(fact(Item::ServerHash, name, "", of("hash:server")));
        let lead = format!("hash:configuration:{name}:");
        let files: BTreeSet<&str> = keys().filter_map(|key| key.strip_prefix(&lead)).collect();
        found.extend(files.into_iter().map(|file| {
            let values = recorded(run, |facts| value(facts, &format!("{lead}{file}")));
            fact(Item::ConfigurationHash, name, file, values)
        }));
    }
    let settings: BTreeSet<&str> = keys()
        .filter_map(|key| key.strip_prefix(fact::JAVA))
        .collect();
    found.extend(settings.into_iter().map(|setting| {
        let key = format!("{}{setting}", fact::JAVA);
        let values = recorded(run, |facts| value(facts, &key));
        fact(Item::Java, "", &setting.replace('-', " "), values)
    }));
    if names.is_empty() {
        found.push(fact(
            Item::Server,
            "",
            "",
            measured(run, |trial| &trial.server),
        ));
    }
    found
}
