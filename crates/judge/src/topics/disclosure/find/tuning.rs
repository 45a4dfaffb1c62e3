//! What each arm changes, who chose it, and what nobody touched.

use plan::Plan;
use plan::setting::{SETTING_KINDS, SettingKind};
use record::verdict::disclosure::ArmTuning;

pub(crate) fn of_arms(plan: &Plan) -> Vec<ArmTuning> {
    let tuning = plan.arms.iter().map(|arm| ArmTuning {
        arm: arm.name.clone(),
        changes: arm.settings(),
        tuned_by: arm.tuned.by.clone(),
        reason: arm.tuned.reason.clone(),
    });
    tuning.collect()
}

/// What no arm changes. What is injected on purpose is no tuning, and a scheduler of bakeoff's is no setting of a kernel's.
pub(crate) fn untouched(tuning: &[ArmTuning]) -> Vec<SettingKind> {
    let is_touched = |kind: SettingKind| {
        let mut changes = tuning.iter().flat_map(|arm| &arm.changes);
        changes.any(|change| change.kind == kind)
    };
    let kinds = SETTING_KINDS.iter().filter(|row| !row.is_seldom);
    kinds
        .map(|row| row.kind)
        .filter(|kind| !is_touched(*kind))
        .collect()
}
