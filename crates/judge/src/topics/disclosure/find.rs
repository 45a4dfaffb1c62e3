//! The disclosure of a run, from its plan, facts and journal. There are no statistics here, and no sentences.
//!
//! A missing fact is listed without a value. What cannot apply, such as an image on this host itself, is left out.

mod hardware;
mod software;
mod tuning;

use std::collections::{BTreeMap, BTreeSet};

use plan::{Mode, Plan};
use record::evidence::Facts;
use record::journal::Event;
use record::rundir::Run;
use record::verdict::disclosure::{Disclosure, FactValue, Rules, Statement, WorkloadOptions};

/// The disclosure of a run.
pub fn of(run: &Run) -> Disclosure {
    let tuning = tuning::of_arms(&run.plan);
    Disclosure {
        statement: statement(run),
        machine: run.opening.machine.clone(),
        hardware: hardware::of(run),
        software: software::of(run),
        untuned: tuning::untouched(&tuning),
        tuning,
        workloads: workloads(&run.plan),
        rules: rules(run),
        hashes: hashes(run),
    }
}

fn statement(run: &Run) -> Statement {
    let stated = &run.plan.disclosure;
    let at = |entry: Option<&record::journal::Entry>| entry.map(|entry| entry.at.clone());
    Statement {
        tested_by: stated.tested_by.clone(),
        sponsor: stated.sponsor.clone(),
        availability: stated.availability.clone(),
        note: stated.note.clone(),
        began: at(run.entries.first()),
        ended: at(run.entries.last()),
    }
}

fn workloads(plan: &Plan) -> Vec<WorkloadOptions> {
    let options = plan.workloads.iter().map(|workload| WorkloadOptions {
        id: workload.id.clone(),
        kind: workload.kind.clone(),
        options: workload.options.clone(),
    });
    options.collect()
}

fn rules(run: &Run) -> Rules {
    let design = &run.plan.design;
    // Before the first test, an interim analysis decides nothing.
    let is_analysis = |event: &Event| matches!(event, Event::InterimAnalysis { blocks, .. } if design.min_blocks <= *blocks);
    let analyses = run.entries.iter().filter(|entry| is_analysis(&entry.event));
    let blocks = run.attempts.iter().map(|record| record.trial.block).max();
    Rules {
        mode: run.plan.mode.map(|mode| {
            let word = match mode {
                Mode::Controlled => "controlled",
                Mode::AsShipped => "as-shipped",
            };
            word.into()
        }),
        blocks: blocks.unwrap_or(0),
        min_blocks: design.min_blocks,
        max_blocks: design.max_blocks,
        interim_analyses: analyses.count() as u32,
        margin: design.margin,
        error_rate: run.error_rate(),
        planned_error_rate: design.error_rate,
        extensions: extensions(run).len() as u32,
        seed: design.seed,
    }
}

fn hashes(run: &Run) -> BTreeMap<String, Option<String>> {
    let mut hashes = BTreeMap::from([
        ("plan".into(), None),
        ("journal".into(), run.journal_sha256.clone()),
    ]);
    let inputs = run.opening.inputs.iter();
    hashes.extend(inputs.map(|(name, hash)| (name.clone(), Some(hash.clone()))));
    hashes
}

/// Blocks added to a run that had ended undecided.
pub(crate) struct Extension {
    /// Blocks before the extension.
    pub(crate) from: u32,
    /// The new maximum of blocks.
    pub(crate) to: u32,
    /// The new error rate.
    pub(crate) error_rate: f64,
}

/// All extensions of a run.
pub(crate) fn extensions(run: &Run) -> Vec<Extension> {
    let mut extensions = Vec::new();
    for entry in &run.entries {
        if let Event::Extended {
            from,
            to,
            error_rate,
            ..
        } = entry.event
        {
            extensions.push(Extension {
                from,
                to,
                error_rate,
            });
        }
    }
    extensions
}

/// The version of bakeoff at each resumption of a run.
pub(crate) fn resumptions(run: &Run) -> Vec<&str> {
    let mut versions = Vec::new();
    for entry in &run.entries {
        if let Event::Resumed { bakeoff } = &entry.event {
            versions.push(bakeoff.as_str());
        }
    }
    versions
}

/// The values that trials recorded; arms with the same value together, in the plan's order.
fn recorded(run: &Run, of: impl Fn(&Facts) -> Option<String>) -> Vec<FactValue> {
    let trials = run.attempts.iter().zip(&run.facts);
    let trials: Vec<_> = trials
        .filter_map(|(record, facts)| Some((record.trial.arm.as_str(), facts.as_ref()?)))
        .collect();
    by_arm(&run.plan, |arm| {
        let of_arm = trials.iter().filter(|(name, _)| *name == arm);
        of_arm.filter_map(|(_, facts)| of(facts)).collect()
    })
}

/// The values of each arm; an arm without any has an unknown value.
fn by_arm(plan: &Plan, values: impl Fn(&str) -> BTreeSet<String>) -> Vec<FactValue> {
    let mut all: Vec<FactValue> = Vec::new();
    for arm in &plan.arms {
        let found = values(&arm.name);
        let mut found: Vec<Option<String>> = found.into_iter().map(Some).collect();
        if found.is_empty() {
            found.push(None);
        }
        for value in found {
            match all.iter_mut().find(|same| same.value == value) {
                Some(same) => same.arms.push(arm.name.clone()),
                None => all.push(FactValue {
                    arms: vec![arm.name.clone()],
                    value,
                }),
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use record::fixtures::builder::RunBuilder;
    use record::verdict::disclosure::{Item, Side};

    use super::*;
    use crate::topics::fairness::tests::two_arms;

    #[test]
    fn a_missing_fact_is_listed_without_a_value() {
        let disclosure = of(&RunBuilder::new().blocks(&[[1.0, 2.0]]).run());
        assert_eq!(disclosure.statement.tested_by, None);
        let unknown = |item: Item, side: Side| {
            let mut facts = disclosure.hardware.iter().chain(&disclosure.software);
            let found = facts.find(|fact| (fact.item, fact.side) == (item, side));
            found.is_some_and(record::verdict::disclosure::Fact::is_unknown)
        };
        for item in [Item::Cpu, Item::Numa, Item::Memory, Item::NetworkCard] {
            assert!(unknown(item, Side::Host), "{item:?}");
        }
        assert!(unknown(Item::Memory, Side::System) && unknown(Item::Compiler, Side::System));
        assert_eq!(disclosure.hashes["journal"], None);
    }

    #[test]
    fn arms_of_one_value_stand_together() {
        let memory = |run: &Run| {
            let facts = of(run).hardware;
            let is = |side, item| (side, item) == (Side::System, Item::Memory);
            let found = facts.into_iter().find(|fact| is(fact.side, fact.item));
            found.map(|fact| fact.values).unwrap_or_default()
        };
        let value = |arms: &[&str], value: &str| FactValue {
            arms: arms.iter().map(|arm| (*arm).to_string()).collect(),
            value: Some(value.into()),
        };
        let run = two_arms("/proc/meminfo:MemTotal", ["4 kB", "4 kB"]).run();
        assert_eq!(memory(&run), [value(&["6.1", "7.2"], "4 kB")]);
        let run = two_arms("/proc/meminfo:MemTotal", ["4 kB", "1 kB"]).run();
        let apart = [value(&["6.1"], "4 kB"), value(&["7.2"], "1 kB")];
        assert_eq!(memory(&run), apart);
    }
}
