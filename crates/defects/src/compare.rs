//! Which defects one arm has and another has not.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::found::{Defect, OTHERS};
use crate::kind::{Kind, Severity};

/// Where a defect was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// New in the arm.
    OnlyArm,
    /// In both.
    Both,
    /// Gone from the arm.
    OnlyBaseline,
}

/// A defect of two arms, by kind and top.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// What happened.
    pub kind: Kind,
    /// [`Defect::top`].
    pub top: String,
    /// The gravest of either arm.
    pub severity: Severity,
    /// Reports in the arm, over all that was passed.
    pub in_arm: u64,
    /// Reports in the baseline.
    pub in_baseline: u64,
    /// Whether a side without it surely has it not. It may where it had more defects of this kind than are told apart,
    /// because the rest has no names.
    pub is_certain: bool,
}

impl Compared {
    /// Where it was told.
    pub fn side(&self) -> Side {
        match (self.in_arm, self.in_baseline) {
            (_, 0) => Side::OnlyArm,
            (0, _) => Side::OnlyBaseline,
            (_, _) => Side::Both,
        }
    }
}

/// Compares the defects of an arm with those of the baseline: new ones first, then those of both, then those that are
/// gone; within each the gravest first. Either side may hold the defects of several trials, one behind the other.
///
/// Two kernels may name the same function differently, where one of them has it inlined or renamed: then one defect is
/// told as gone and another as new.
pub fn new_in(arm: &[Defect], baseline: &[Defect]) -> Vec<Compared> {
    let mut by_key: BTreeMap<(Kind, &str), Compared> = BTreeMap::new();
    let all = arm.iter().map(|defect| (defect, true));
    for (defect, is_arm) in all.chain(baseline.iter().map(|defect| (defect, false))) {
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
        let unnamed = |side: &[Defect]| {
            side.iter()
                .any(|other| other.kind == compared.kind && other.top == OTHERS)
        };
        compared.is_certain = match compared.side() {
            Side::OnlyArm => !unnamed(baseline),
            Side::OnlyBaseline => !unnamed(arm),
            Side::Both => true,
        };
    }
    all.sort_by_key(|compared| (compared.side(), Reverse(compared.severity)));
    all
}
