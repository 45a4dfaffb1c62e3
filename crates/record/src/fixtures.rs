//! Runs for tests of judging and reporting. Only tests use them.
//!
//! ```text
//! accounts  breakdowns of simulated trials with a known truth
//! builder   a run built trial by trial, with given figures
//! night     runs in the index of a nightly run
//! web       whole runs of a web server, with everything that a report can show
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use crate::evidence::Facts;
use crate::rundir::{Run, TRIAL_VERSION, TrialRecord};
use crate::trial::{Outcome, Trial};
use plan::kernel::KernelRef;
use plan::{
    Arm, Design, Disclosure, ImagePlan, MachinePlan, Pinned, Plan, Traits, Tuning, TuningNote,
    WorkloadPlan,
};

pub mod accounts;
pub mod builder;
pub mod night;
pub mod web;

/// A plan with these arms, the first as its baseline, and one web workload.
fn plan(title: &str, workload: &str, arms: Vec<Arm>) -> Plan {
    Plan {
        why: false,
        claim: plan::Claim::Nodes,
        disturbed_blocks: plan::DisturbedBlocks::Repeat,
        disclosure: Disclosure::default(),
        growth: plan::GrowthPlan::default(),
        title: title.into(),
        baseline: arms[0].name.clone(),
        mode: None,
        pinned: Pinned::default(),
        machine: MachinePlan::default(),
        image: Some(ImagePlan {
            recipe: "web".into(),
            suite: None,
        }),
        arms,
        workloads: vec![WorkloadPlan {
            traits: Traits::STATIC,
            id: workload.into(),
            kind: "web-static".into(),
            options: serde_json::Value::Null,
            length: Duration::from_secs(12),
            window: Duration::from_secs(10),
            expected: None,
        }],
        disturbances: Vec::new(),
        design: Design {
            seed: 7,
            ..Design::DEFAULTS
        },
    }
}

/// An arm named after the version of its kernel.
fn arm(version: &str, suite: &str) -> Arm {
    Arm {
        line: 1,
        name: version.into(),
        kernel: KernelRef::Debian {
            suite: suite.into(),
            version: version.into(),
        },
        cmdline: String::new(),
        sysctl: BTreeMap::new(),
        cpus: None,
        tuning: Tuning::default(),
        tuned: TuningNote::default(),
    }
}

/// Adds an attempt to a run.
fn add(run: &mut Run, trial: Trial, attempt: u32, outcome: Outcome, facts: Option<Facts>) {
    run.attempts.push(TrialRecord {
        version: TRIAL_VERSION,
        trial,
        attempt,
        outcome,
        host_time: Vec::new(),
        profile: None,
        defects: None,
    });
    run.facts.push(facts);
}
