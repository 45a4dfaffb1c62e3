//! Compares the defects of two arms.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::defect_set::{Defect, OTHERS};
use crate::kind::{Kind, Severity};

/// The arms in which a defect was reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// Only in the arm: new.
    OnlyArm,
    /// In both.
    Both,
    /// Only in the baseline: gone from the arm.
    OnlyBaseline,
}

/// A defect of two arms, by kind and top.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// What happened.
    pub kind: Kind,
    /// [`Defect::top`].
    pub top: String,
    /// The highest severity in either arm.
    pub severity: Severity,
    /// Number of reports in the arm.
    pub in_arm: u64,
    /// Number of reports in the baseline.
    pub in_baseline: u64,
    /// Whether a side without reports certainly does not have it. A side with more defects of this kind than are
    /// distinguished may have it, because the rest has no names.
    pub is_certain: bool,
}

impl Compared {
    /// The arms in which it was reported.
    pub fn side(&self) -> Side {
        match (self.in_arm, self.in_baseline) {
            (_, 0) => Side::OnlyArm,
            (0, _) => Side::OnlyBaseline,
            (_, _) => Side::Both,
        }
    }
}

/// Compares the defects of an arm with those of the baseline: new ones first, then those of both, then those that are
/// gone, each group by falling severity. Either side may hold the defects of several trials, concatenated.
///
/// If two kernels name the same function differently, because one inlined or renamed it, one defect appears
/// as gone and another as new.
pub fn new_in(arm: &[Defect], baseline: &[Defect]) -> Vec<Compared> {
    let mut by_key: BTreeMap<(Kind, &str), Compared> = BTreeMap::new();
    let sides = arm.iter().map(|defect| (defect, true));
    for (defect, is_arm) in sides.chain(baseline.iter().map(|defect| (defect, false))) {
        let compared = by_key
            .entry((defect.kind, &defect.top))
            .or_insert_with(|| Compared {
                kind: defect.kind,
                top: defect.top.clone(),
                severity: defect.severity,
                in_arm: 0,
                in_baseline: 0,
                is_certain: true,
            });
        compared.severity = compared.severity.max(defect.severity);
        if is_arm {
            compared.in_arm += defect.count;
        } else {
            compared.in_baseline += defect.count;
        }
    }
    let mut all: Vec<Compared> = by_key.into_values().collect();
    for compared in &mut all {
        let has_unnamed = |side: &[Defect]| {
            side.iter()
                .any(|other| other.kind == compared.kind && other.top == OTHERS)
        };
        compared.is_certain = match compared.side() {
            Side::OnlyArm => !has_unnamed(baseline),
            Side::OnlyBaseline => !has_unnamed(arm),
            Side::Both => true,
        };
    }
    all.sort_by_key(|compared| (compared.side(), Reverse(compared.severity)));
    all
}
