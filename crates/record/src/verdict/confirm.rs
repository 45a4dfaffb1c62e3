//! How much of a difference a setting explains: the same two arms with and without it, as data. Its JSON is this, key by key.

use serde::{Deserialize, Serialize};

/// Two arms, each with and without each setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Confirmation {
    /// Version of this format.
    pub version: u32,
    /// The workload's id.
    pub workload: String,
    /// The two arms without any of the settings, the baseline first.
    pub arms: [String; 2],
    /// Each setting.
    pub settings: Vec<SettingEffect>,
    /// The level of the intervals; a fraction.
    pub confidence: f64,
}

/// What one setting does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SettingEffect {
    /// As it is written: `psi=0`.
    pub setting: String,
    /// The two arms that are compared with it; an arm whose kernel has no such setting stands for itself.
    pub arms: [String; 2],
    /// The primary metric, then instructions a request where they were counted.
    pub metrics: Vec<MetricEffect>,
}

/// What it does to one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricEffect {
    /// The metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Whether differences are arm minus baseline, in the unit; else they are ratios, arm over baseline.
    pub is_absolute: bool,
    /// The difference without the setting.
    pub without: f64,
    /// The difference with it.
    pub with: f64,
    /// Share of the difference that is gone with the setting: 1 where the arms are the same then. `None` where they differ by no more
    /// than chance without it.
    pub share: Option<f64>,
    /// Lower end of its interval; `None` with too few blocks.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Blocks with all four trials.
    pub blocks: u32,
}

/// Version of the JSON.
pub const VERSION: u32 = 1;
