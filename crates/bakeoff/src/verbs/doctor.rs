//! `doctor`: what this host can do, what is missing, and how to get it.

use anyhow::Result;
use machine::doctor::{self, Finding, State};
use serde_json::json;

use super::{End, at_work, print_json};
use crate::cli::EmulatorArgs;
use crate::out;

/// Examines the host; refused when something is missing that bakeoff cannot run without.
pub(super) fn doctor(emulator: &EmulatorArgs, json: bool) -> Result<End> {
    let named = emulator.named();
    let findings = at_work(json, |cache, task| {
        Ok(doctor::examine(cache, named.as_deref(), task))
    })?;
    if json {
        print_json(&findings.iter().map(told).collect::<Vec<_>>())?;
    } else {
        findings.iter().for_each(print);
    }
    let missing = |finding: &Finding| matches!(finding.state, State::Missing(_));
    Ok(if findings.iter().any(missing) {
        End::Refused
    } else {
        End::Done
    })
}

fn parts(finding: &Finding) -> (&'static str, &str) {
    match &finding.state {
        State::Good => ("ok", ""),
        State::Weak(remedy) => ("weak", remedy),
        State::Missing(remedy) => ("missing", remedy),
    }
}

fn told(finding: &Finding) -> serde_json::Value {
    let (state, remedy) = parts(finding);
    json!({ "what": finding.what, "found": finding.found, "state": state, "remedy": remedy })
}

fn print(finding: &Finding) {
    let (state, remedy) = parts(finding);
    out::line(&format!("{state:8} {:22} {}", finding.what, finding.found));
    if !remedy.is_empty() {
        out::line(&format!("         {remedy}"));
    }
}
