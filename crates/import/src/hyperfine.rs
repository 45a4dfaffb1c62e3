//! hyperfine's `--export-json`: commands are arms, times are runs.
//!
//! hyperfine runs all of one command before the next, so one export has no blocks. With several
//! exports of the same commands, each export is a block, ordered as its commands.
//! The arm is the command with its parameters, because a parameter need not occur in the command.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::json::{self, Lines, Raw};
use crate::observation::{FileFigures, Observation, Role, Run};

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

    /// How many runs failed.
    fn failed(&self) -> usize {
        self.exit_codes
            .iter()
            .filter(|code| **code != Some(0))
            .count()
    }

    /// How they failed: `exit status 1, a signal`.
    fn failures(&self) -> String {
        let codes: BTreeSet<Option<i32>> = self.exit_codes.iter().copied().collect();
        let failures = codes.into_iter().filter(|code| *code != Some(0));
        let words = failures.map(|code| match code {
            Some(code) => format!("exit status {code}"),
            None => "a signal".into(),
        });
        words.collect::<Vec<_>>().join(", ")
    }

    /// Figures of the runs that did not fail; none if figures cannot be matched with exit codes.
    fn succeeded<'f>(&self, figures: &'f [Raw<'f>]) -> impl Iterator<Item = Raw<'f>> {
        let none_failed = self.failed() == 0;
        let is_known = self.exit_codes.len() == figures.len();
        let succeeded = move |index: usize| self.exit_codes[index] == Some(0);
        let keep = move |index: usize| none_failed || is_known && succeeded(index);
        let figures = figures.iter().enumerate();
        figures.filter_map(move |(index, figure)| keep(index).then_some(*figure))
    }
}

/// Reads an export; `is_one_of_many` where several exports were given.
pub(crate) fn read(text: &str, file: &mut FileFigures, is_one_of_many: bool) {
    let Some(export) = json::whole::<Export<'_>>(file, text) else {
        return;
    };
    let lines = &Lines::new(text);
    let is_block = is_one_of_many && export.results.len() > 1;
    let mut arms = BTreeSet::new();
    for (index, command) in export.results.iter().enumerate() {
        let arm = command.arm();
        if !arms.insert(arm.clone()) {
            let remedy = "name each with --command-name, or give each a file: ARM=FILE";
            file.wrong(0, format!("two results of one name: {arm:?}"), remedy);
        }
        if command.times.is_empty() {
            let what = format!("no times of a command: {:?}", command.line);
            file.wrong(0, what, "export with --export-json, which keeps each time");
        }
        let failed = command.failed();
        if failed > 0 {
            let remark = format!(
                "{}: {failed} of {} runs of {:?} failed ({}) and are left out",
                file.file,
                command.exit_codes.len(),
                command.line,
                command.failures()
            );
            file.remarks.insert(remark);
        }
        let times = command.succeeded(&command.times);
        let times = times.map(|raw| ("time", "s", Role::Judged, "times", raw));
        let memory = command.succeeded(&command.memory_bytes);
        let memory = memory.map(|raw| ("memory", "B", Role::OnRequest, "memory_usage_byte", raw));
        let template = Observation {
            arm: arm.clone(),
            short_arm: Some(command.line.clone()),
            block: is_block.then(|| file.file.clone()),
            slot: is_block.then_some(index as f64),
            ..file.observation("", "", 0.0, 0)
        };
        for (metric, unit, role, key, raw) in times.chain(memory) {
            let Some(value) = json::number(file, lines, raw, &format!(" in {key}")) else {
                continue;
            };
            file.add(Observation {
                metric: metric.into(),
                unit: unit.into(),
                role,
                value,
                line: lines.of(raw.get()),
                ..template.clone()
            });
        }
        if !command.exit_codes.is_empty() {
            file.add(Observation {
                metric: "runs failed".into(),
                unit: "share".into(),
                role: Role::Failures { even_zero: false },
                run: Run::Within("file".into()),
                value: failed as f64 / command.exit_codes.len() as f64,
                line: 1,
                ..template
            });
        }
    }
    let is_figure = |observation: &Observation| observation.role == Role::Judged;
    if file.problems.is_empty() && !file.observations.iter().any(is_figure) {
        let remarks: Vec<String> = file.remarks.iter().cloned().collect();
        let what = format!("nothing is left to judge: {}", remarks.join("; "));
        file.wrong(
            0,
            what,
            "repair the commands, or judge their times as plain numbers",
        );
    }
    if !is_block {
        let remark = "hyperfine ran all of one command before the next: what the machine did \
                      meanwhile is part of the difference";
        file.remarks.insert(remark.into());
    }
}
