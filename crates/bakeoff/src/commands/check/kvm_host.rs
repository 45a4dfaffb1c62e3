//! Finds what this host lacks for guests in wall-clock time.

use std::path::Path;

use anyhow::{Context, Result};
use machine::acceleration::Kvm;
use machine::clients::HostClients;
use machine::host_state::Lack;
use machine::kvm_host::KvmHost;
use machine::{emulator_choice, kvm};
use plan::{Clients, Clock, MachineKind, Plan};

use crate::commands::with_progress;
use crate::prepare;

/// What makes figures worse than a good host with KVM could give them. For clock "auto", these are reported only if KVM is
/// known to work.
pub(super) fn lacks(plan: &Plan, qemu: Option<&Path>) -> Result<Vec<String>> {
    if plan.machine.kind != MachineKind::Qemu || plan.machine.clock == Clock::Instructions {
        return Ok(Vec::new());
    }
    let known = with_progress(true, |cache, task| {
        let program = emulator_choice::for_kvm(qemu, cache, task).ok();
        Ok(program.and_then(|program| kvm::known(cache, &program)))
    })?;
    let mut lacks = match (plan.machine.clock, kvm::obstacle(plan.machine.arch), known) {
        (Clock::Wall, Some(why), _) => vec![emulated_warning(&why)],
        (Clock::Wall, None, Some(Kvm::Broken(_))) => vec![emulated_warning(
            "KVM cannot run a stock kernel here (see bakeoff doctor --verbose)",
        )],
        (Clock::Wall, None, _) | (Clock::Auto, None, Some(Kvm::Works)) => host_lacks(plan)?,
        (Clock::Auto, Some(_), _) | (Clock::Auto, None, Some(Kvm::Broken(_))) => {
            return Ok(refused_clients(plan).into_iter().collect());
        }
        (Clock::Auto | Clock::Instructions, _, _) => return Ok(Vec::new()),
    };
    lacks.extend(clients_in_guest(plan)?);
    Ok(lacks)
}

/// The warning for a plan with clock "auto" whose clients cannot be placed as it asks if instructions are counted.
fn refused_clients(plan: &Plan) -> Option<String> {
    let clients = plan.machine.clients?;
    (clients != Clients::Guest).then(|| {
        format!(
            "`run` will refuse clients \"{}\": instructions are counted where KVM does not work (write clock = \"wall\", \
             or clients = \"guest\")",
            clients.word()
        )
    })
}

/// The warning for clients that have to run in the guest.
fn clients_in_guest(plan: &Plan) -> Result<Option<String>> {
    if matches!(plan.machine.clients, Some(Clients::Guest | Clients::Guest2))
        || prepare::workload_in_guest(plan).is_some()
    {
        return Ok(None);
    }
    let bakeoff = std::env::current_exe().context("cannot find bakeoff's own binary")?;
    Ok(match (HostClients::open(&bakeoff), plan.machine.clients) {
        (Ok(_), _) => None,
        (Err(why), None) => Some(format!("clients run in the guest: {why}")),
        (Err(why), Some(_)) => Some(format!("`run` will refuse clients \"host\": {why}")),
    })
}

fn emulated_warning(why: &str) -> String {
    format!("guests are emulated, and by the wall clock such guests scatter by half: {why}")
}

fn host_lacks(plan: &Plan) -> Result<Vec<String>> {
    let cpus = plan.arms.iter().filter_map(|arm| plan.cpus(arm));
    let max_cpus = cpus.max().unwrap_or(plan.machine.cpus);
    let host = KvmHost::open(max_cpus, plan.machine.memory_bytes)?;
    let text = |lack: Lack| format!("under KVM, {}: {} ({})", lack.what, lack.found, lack.remedy);
    Ok(host.lacks().into_iter().map(text).collect())
}
