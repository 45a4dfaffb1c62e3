//! hyperfine's `--export-json`: commands are arms, times are runs.
//!
//! hyperfine runs all of one command, then all of the next, so that one export has no blocks. Several
//! exports of the same commands have: each export is a block, and its order is that of the commands.

use serde::Deserialize;

use crate::json::{self, Raw};
use crate::observation::{FileFigures, Observation};

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
    #[serde(default)]
    exit_codes: Vec<Option<i32>>,
}

/// Reads an export; `is_one_of_many` where several exports were given.
pub(crate) fn read(text: &str, found: &mut FileFigures, is_one_of_many: bool) {
    let Some(export) = json::whole::<Export<'_>>(found, text) else {
        return;
    };
    let is_block = is_one_of_many && export.results.len() > 1;
    for (place, command) in export.results.iter().enumerate() {
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
        for raw in &command.times {
            let Some(value) = json::number(found, text, raw, " in times") else {
                continue;
            };
            let observation = found.observation("time", "s", value, json::line_of(text, raw.get()));
            found.observations.push(Observation {
                arm: command.line.clone(),
                block: is_block.then(|| found.file.clone()),
                slot: is_block.then_some(place as f64),
                ..observation
            });
        }
    }
    if !is_block {
        let remark = "hyperfine ran all of one command before the next: what the machine did \
                      meanwhile is part of the difference";
        found.remarks.insert(remark.into());
    }
}
