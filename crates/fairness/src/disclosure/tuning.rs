//! What each arm changes, who chose it, and what nobody touched.

use plan::{Arm, FileSystem, Plan};
use record::verdict::disclosure::{ArmTuning, Change, Knob};

pub(super) fn of_arms(plan: &Plan) -> Vec<ArmTuning> {
    let tuning = plan.arms.iter().map(|arm| ArmTuning {
        arm: arm.name.clone(),
        changes: changes(arm),
        tuned_by: arm.tuned.by.clone(),
        reason: arm.tuned.reason.clone(),
    });
    tuning.collect()
}

/// What no arm changes. What is injected on purpose is no tuning, and a scheduler of bakeoff's is no setting of a kernel's.
pub(super) fn untouched(tuning: &[ArmTuning]) -> Vec<Knob> {
    let is_touched = |knob: Knob| {
        let mut changes = tuning.iter().flat_map(|arm| &arm.changes);
        changes.any(|change| change.knob == knob)
    };
    let knobs = Knob::ALL.into_iter();
    knobs
        .filter(|knob| !SELDOM.contains(knob) && !is_touched(*knob))
        .collect()
}

/// Knobs of experiments about the mechanism itself: that nobody touched them goes without saying.
const SELDOM: [Knob; 3] = [Knob::Injected, Knob::Scheduler, Knob::FileSystem];

fn changes(arm: &Arm) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut add = |knob, name: &str, value: &str| {
        if !value.is_empty() {
            changes.push(Change {
                knob,
                name: name.into(),
                value: value.into(),
            });
        }
    };
    let tuning = &arm.tuning;
    add(Knob::CommandLine, "", &arm.cmdline);
    for (name, value) in &arm.sysctl {
        add(Knob::Sysctl, name, value);
    }
    let cpus = arm.cpus.map(|cpus| cpus.to_string());
    add(Knob::Cpus, "", &cpus.unwrap_or_default());
    for (name, value) in &tuning.env {
        add(Knob::Environment, name, value);
    }
    add(Knob::Configuration, "", tuning.config.trim());
    for (service, change) in &tuning.server_config {
        add(Knob::Configuration, service, change.directives.trim());
    }
    for file in tuning.config_files() {
        add(Knob::Configuration, "file", &file.path);
    }
    for (name, path) in &tuning.programs {
        add(Knob::Program, name, path);
    }
    let scheduler = tuning.scheduler.map(plan::Scheduler::word);
    add(Knob::Scheduler, "", scheduler.unwrap_or_default());
    add(Knob::IoScheduler, "", &tuning.io_scheduler);
    for (name, value) in &tuning.queue {
        add(Knob::IoScheduler, name, value);
    }
    if let Some(own) = tuning
        .file_system
        .filter(|own| *own != FileSystem::default())
    {
        add(Knob::FileSystem, "", own.word());
    }
    for (name, value) in &tuning.debugfs {
        add(Knob::Debugfs, name, value);
    }
    if tuning.injected_slowdown > 0.0 {
        let share = tuning.injected_slowdown.to_string();
        add(Knob::Injected, "slowdown", &share);
    }
    if let Some(cost) = &tuning.injected_cost {
        add(
            Knob::Injected,
            &cost.function,
            &cost.instructions.to_string(),
        );
    }
    changes
}
