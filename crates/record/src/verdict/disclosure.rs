//! The full disclosure of a run, as data: everything that a sceptical reader must know. The judge's topic `disclosure` gathers it.
//!
//! SPEC's run rules and TPC's full disclosure reports require it: who measured, hardware, software, tuning with its author, rules,
//! deviations. A missing fact is listed as `None`.

use std::collections::BTreeMap;

use plan::setting::{ArmSetting, SettingKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::machine::MachineDescription;

/// The disclosure of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Disclosure {
    /// Who measured, and when.
    pub statement: Statement,
    /// The machine as the run resolved it.
    pub machine: MachineDescription,
    /// What it ran on.
    pub hardware: Vec<Fact>,
    /// What ran.
    pub software: Vec<Fact>,
    /// What each arm changes, and who chose that; the baseline first.
    pub tuning: Vec<ArmTuning>,
    /// What no arm changes.
    pub untuned: Vec<SettingKind>,
    /// The workloads with all their options.
    pub workloads: Vec<WorkloadOptions>,
    /// How it was measured and decided.
    pub rules: Rules,
    /// SHA-256 of what went in and what came out, by name: `plan`, `journal`. `image` and `kernel of ...` are keys of the cache: hashes of what an
    /// entry was made from, and not of its file.
    pub hashes: BTreeMap<String, Option<String>>,
}

/// What no fact tells, and the time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    /// Who measured; `None` where the plan does not state it, as with all below.
    pub tested_by: Option<String>,
    /// Who paid.
    pub sponsor: Option<String>,
    /// Since when what is compared can be had.
    pub availability: Option<String>,
    /// Anything else.
    pub note: Option<String>,
    /// First entry of the journal, RFC 3339.
    pub began: Option<String>,
    /// Last entry of the journal.
    pub ended: Option<String>,
}

/// One thing that is disclosed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// Of which machine.
    pub side: Side,
    /// What it is.
    pub item: Item,
    /// Which one of several: the name of a server, a disk or a network card. Empty where there is one.
    pub name: String,
    /// Which property of it; empty where it has one.
    pub property: String,
    /// The recorded values.
    pub values: Vec<FactValue>,
}

impl Fact {
    /// Whether no arm has a value.
    pub fn is_unknown(&self) -> bool {
        self.values.iter().all(|value| value.value.is_none())
    }
}

/// A value, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactValue {
    /// The arms with this value. An arm has several values if its trials recorded several.
    pub arms: Vec<String>,
    /// The value; `None`: not known.
    pub value: Option<String>,
}

/// Which machine a fact is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The host of guests, or of clients of systems on the network.
    Host,
    /// What arms run on: a guest, this host, a box, a system on the network.
    System,
    /// Everything.
    Whole,
}

/// What is disclosed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Item {
    /// Vendor and product.
    Product,
    /// Version and date of the firmware.
    Firmware,
    /// Model of the CPU.
    Cpu,
    /// Sockets, cores, threads.
    CpuTopology,
    /// Sizes of caches.
    Caches,
    /// Frequency driver, governor, turbo.
    Frequency,
    /// Microcode.
    Microcode,
    /// Whether simultaneous multithreading is on.
    Smt,
    /// CPUs that are online, where nothing more is known.
    Cpus,
    /// Memory nodes.
    Numa,
    /// Memory.
    Memory,
    /// A disk.
    Disk,
    /// A network card.
    NetworkCard,
    /// The kernel that ran.
    Kernel,
    /// What it was built by.
    Compiler,
    /// Where it was taken from.
    KernelSource,
    /// Its command line as it was booted.
    CommandLine,
    /// The distribution.
    UserLand,
    /// SHA-256 of the list of its packages with their versions.
    UserLandHash,
    /// The image's recipe.
    Image,
    /// A server: its version.
    Server,
    /// Java of an application server: version, heap, collector, compilers, pools.
    Java,
    /// SHA-256 of its program.
    ServerHash,
    /// SHA-256 of its configuration.
    ConfigurationHash,
    /// What a system on the network tells of itself.
    Evidence,
    /// Version of bakeoff.
    Bakeoff,
}

/// What one arm changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArmTuning {
    /// The arm.
    pub arm: String,
    /// What it changes; nothing: as it is shipped.
    pub changes: Vec<ArmSetting>,
    /// Who chose it.
    pub tuned_by: Option<String>,
    /// Why.
    pub reason: Option<String>,
}

/// A workload as it ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkloadOptions {
    /// Its id.
    pub id: String,
    /// Its kind.
    pub kind: String,
    /// All options, those of the plan and defaults; durations as `secs` and `nanos`.
    pub options: Value,
}

/// How it was measured and decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// What the plan asks, as it says it: `controlled` or `as-shipped`; `None` where it does not.
    pub mode: Option<String>,
    /// Blocks that were run, the most of any workload.
    pub blocks: u32,
    /// Blocks before the first interim analysis.
    pub min_blocks: u32,
    /// Blocks at the most, by the plan.
    pub max_blocks: u32,
    /// Number of interim analyses that could have ended the run.
    pub interim_analyses: u32,
    /// Differences below this are called equivalent; a fraction.
    pub margin: f64,
    /// Chance of a wrong verdict that was accepted, at the most; a fraction.
    pub error_rate: f64,
    /// The same as the plan says it, before the run was given more blocks.
    pub planned_error_rate: f64,
    /// How often it was given more.
    pub extensions: u32,
    /// Seed of order, data and schedules.
    pub seed: u64,
}
