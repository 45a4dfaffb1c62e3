//! hyperfine's `--export-json`: commands are arms, times are runs.
//!
//! hyperfine runs all of one command, then all of the next, so that one export has no blocks. Several
//! exports of the same commands have: each export is a block, and its order is that of the commands.
//! A parameter need not stand in the command: the arm is the command with its parameters.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::json::{self, Raw};
use crate::observation::{FileFigures, Observation, Role};

#[derive(Deserialize)]
struct Export<'t> {
    #[serde(borrow)]
    results: Vec<Command<'t>>,
}

#[derive(Deserialize)]
struct Command<'t> {
    #[serde(rename = "command")]
    line: String,
    #[serde(borrow, default)]
    times: Vec<Raw<'t>>,
    #[serde(borrow, default, rename = "memory_usage_byte")]
    memory_bytes: Vec<Raw<'t>>,
    #[serde(default)]
    exit_codes: Vec<Option<i32>>,
    #[serde(default)]
    parameters: BTreeMap<String, serde_json::Value>,
}

impl Command<'_> {
    /// The command with all its parameters.
    fn arm(&self) -> String {
        let text =
            |value: &serde_json::Value| value.as_str().map_or(value.to_string(), String::from);
        let parameters = self.parameters.iter();
        let parameters: Vec<String> = parameters
            .map(|(name, value)| format!("{name}={}", text(value)))
            .collect();
        if parameters.is_empty() {
            return self.line.clone();
        }
        format!("{} [{}]", self.line, parameters.join(" "))
    }
}

/// Reads an export; `is_one_of_many` where several exports were given.
pub(crate) fn read(text: &str, found: &mut FileFigures, is_one_of_many: bool) {
    let Some(export) = json::whole::<Export<'_>>(found, text) else {
        return;
    };
    let is_block = is_one_of_many && export.results.len() > 1;
    let mut arms = BTreeSet::new();
    for (place, command) in export.results.iter().enumerate() {
        let arm = command.arm();
        if !arms.insert(arm.clone()) {
            let remedy = "name each with --command-name, or give each a file: ARM=FILE";
            found.wrong(0, format!("two results of one name: {arm:?}"), remedy);
        }
        if command.times.is_empty() {
            let what = format!("no times of a command: {:?}", command.line);
            found.wrong(0, what, "export with --export-json, which keeps each time");
        }
        if command.exit_codes.iter().any(|code| *code != Some(0)) {
            let what = format!("a run ended with a failure: {:?}", command.line);
            found.wrong(
                0,
                what,
                "repair the command, or judge its times as plain numbers",
            );
        }
        let times = command
            .times
            .iter()
            .map(|raw| ("time", "s", Role::Judged, "times", *raw));
        let memory = command.memory_bytes.iter();
        let memory = memory.map(|raw| ("memory", "B", Role::OnRequest, "memory_usage_byte", *raw));
        for (metric, unit, role, key, raw) in times.chain(memory) {
            let Some(value) = json::number(found, text, raw, &format!(" in {key}")) else {
                continue;
            };
            let line = json::line_of(text, raw.get());
            found.observations.push(Observation {
                arm: arm.clone(),
                short_arm: Some(command.line.clone()),
                role,
                block: is_block.then(|| found.file.clone()),
                slot: is_block.then_some(place as f64),
                ..found.observation(metric, unit, value, line)
            });
        }
    }
    if !is_block {
        let remark = "hyperfine ran all of one command before the next: what the machine did \
                      meanwhile is part of the difference";
        found.remarks.insert(remark.into());
    }
}
