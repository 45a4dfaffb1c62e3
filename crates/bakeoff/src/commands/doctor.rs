//! `doctor`: examines what this host can do, what is missing, and how to get it.

use anyhow::{Context, Result, bail};
use base::arch::Arch;
use base::input::units::significant;
use machine::doctor;
use machine::doctor::{HostProperty, State};
use machine::string_cost;
use machine::string_cost::StringCost;
use plan::StringPrice;
use serde_json::json;

use super::{End, print_json, with_progress};
use crate::agent;
use crate::cli::DoctorArgs;
use crate::out;

/// Examines the host. The command fails if something is missing that bakeoff needs.
pub(super) fn doctor(args: &DoctorArgs, json: bool) -> Result<End> {
    if args.calibrate {
        return calibrate(json);
    }
    let named = args.emulator.named();
    let mut findings = with_progress(json, |cache, task| {
        Ok(match &args.target {
            None => doctor::examine(cache, named.as_deref(), task),
            Some(host) => machine::ssh::examine(host, args.ssh_config.as_deref(), task),
        })
    })?;
    // This check is about this host, not about a box.
    if args.target.is_none() {
        let bakeoff = std::env::current_exe().context("cannot find bakeoff's own binary")?;
        findings.push(doctor::clients(&bakeoff));
        let others = Arch::ALL.into_iter().filter(|arch| *arch != Arch::HOST);
        findings.extend(others.map(|arch| doctor::foreign(arch, agent::of(arch, &bakeoff))));
    }
    if json {
        print_json(&findings.iter().map(finding_json).collect::<Vec<_>>())?;
    } else {
        for finding in &findings {
            print(finding, args.verbose);
        }
    }
    let missing = |finding: &HostProperty| matches!(finding.state, State::Missing(_));
    Ok(if findings.iter().any(missing) {
        End::Refused
    } else {
        End::Done
    })
}

/// Measures and prints the cost of string instructions.
fn calibrate(json: bool) -> Result<End> {
    let Some(StringCost {
        instruction_ns,
        cached_byte,
        memory_byte,
        start,
    }) = string_cost::measure()
    else {
        bail!(
            "this host's CPU has no string instructions to measure: its architecture is {}",
            Arch::HOST
        );
    };
    if json {
        print_json(&json!({
            "instruction_ns": instruction_ns, "cached_byte": cached_byte, "memory_byte": memory_byte, "start": start,
        }))?;
        return Ok(End::Done);
    }
    let [low, high] = StringPrice::BYTE_RANGE;
    for (what, price) in [
        ("a byte in the nearest cache", cached_byte),
        ("a byte in memory", memory_byte),
        ("the start of a string instruction", start),
    ] {
        let price = significant(price, 2);
        out::line(&format!("{what:34} {price} instructions"));
    }
    out::line(&format!(
        "an instruction takes {} ns in a loop of dependent loads; verdicts are judged at {} to {} of one a byte, and at\n\
         string_byte_price (usual: {}) and string_start_price (usual: {}) of [machine]",
        significant(instruction_ns, 2),
        significant(low, 2),
        significant(high, 2),
        StringPrice::USUAL.byte,
        StringPrice::USUAL.start,
    ));
    Ok(End::Done)
}

fn state_and_remedy(finding: &HostProperty) -> (&'static str, &str) {
    match &finding.state {
        State::Good => ("ok", ""),
        State::Weak(remedy) => ("weak", remedy),
        State::Missing(remedy) => ("missing", remedy),
    }
}

fn finding_json(finding: &HostProperty) -> serde_json::Value {
    let (state, remedy) = state_and_remedy(finding);
    json!({ "what": finding.what, "found": finding.found, "state": state, "remedy": remedy, "detail": finding.detail })
}

fn print(finding: &HostProperty, is_verbose: bool) {
    let (state, remedy) = state_and_remedy(finding);
    out::line(&format!("{state:8} {:22} {}", finding.what, finding.found));
    if !remedy.is_empty() {
        out::line(&format!("         {remedy}"));
    }
    let detail = finding.detail.as_deref().filter(|_| is_verbose);
    for line in detail.unwrap_or_default().lines() {
        out::line(&format!("         | {line}"));
    }
}
