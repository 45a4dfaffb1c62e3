//! What this host lacks for guests of a plan that run by the wall clock.

use std::path::Path;

use anyhow::{Context, Result};
use machine::acceleration::Kvm;
use machine::clients::HostClients;
use machine::host_state::Lack;
use machine::kvm_host::KvmHost;
use machine::{emulator_choice, kvm};
use plan::{Clients, Clock, MachineKind, Plan};

use crate::commands::at_work;
use crate::prepare;

/// What keeps figures from being as good as a host with KVM could have them. A plan that leaves the clock open is told of it
/// where KVM is known to work.
pub(super) fn lacks(plan: &Plan, qemu: Option<&Path>) -> Result<Vec<String>> {
    if plan.machine.kind != MachineKind::Qemu || plan.machine.clock == Clock::Instructions {
        return Ok(Vec::new());
    }
    let known = at_work(true, |cache, task| {
        let program = emulator_choice::for_kvm(qemu, cache, task).ok();
        Ok(program.and_then(|program| kvm::known(cache, &program)))
    })?;
    let mut lacks = match (plan.machine.clock, kvm::obstacle(), known) {
        (Clock::Wall, Some(why), _) => vec![emulated(&why)],
        (Clock::Wall, None, Some(Kvm::Broken(_))) => vec![emulated(
            "KVM cannot run a stock kernel here (see bakeoff doctor --verbose)",
        )],
        (Clock::Wall, None, _) | (Clock::Auto, None, Some(Kvm::Works)) => of_host(plan)?,
        (Clock::Auto, Some(_), _) | (Clock::Auto, None, Some(Kvm::Broken(_))) => {
            return Ok(counted(plan).into_iter().collect());
        }
        (Clock::Auto | Clock::Instructions, _, _) => return Ok(Vec::new()),
    };
    lacks.extend(clients(plan)?);
    Ok(lacks)
}

/// A plan that leaves the clock open and wants clients where counted instructions cannot have them.
fn counted(plan: &Plan) -> Option<String> {
    let clients = plan.machine.clients?;
    (clients != Clients::Guest).then(|| {
        format!(
            "`run` will refuse clients \"{}\": instructions are counted where KVM does not work (write clock = \"wall\", \
             or clients = \"guest\")",
            clients.word()
        )
    })
}

/// What keeps clients in the guest that could be outside it.
fn clients(plan: &Plan) -> Result<Option<String>> {
    if matches!(plan.machine.clients, Some(Clients::Guest | Clients::Guest2))
        || prepare::inside(plan).is_some()
    {
        return Ok(None);
    }
    let own = std::env::current_exe().context("cannot find bakeoff's own binary")?;
    let said = match (HostClients::open(&own), plan.machine.clients) {
        (Ok(_), _) => None,
        (Err(why), None) => Some(format!("clients run in the guest: {why}")),
        (Err(why), Some(_)) => Some(format!("`run` will refuse clients \"host\": {why}")),
    };
    Ok(said)
}

fn emulated(why: &str) -> String {
    format!("guests are emulated, and by the wall clock such guests scatter by half: {why}")
}

fn of_host(plan: &Plan) -> Result<Vec<String>> {
    let own = plan.arms.iter().filter_map(|arm| plan.cpus(arm));
    let most = own.max().unwrap_or(plan.machine.cpus);
    let host = KvmHost::open(most, plan.machine.memory_bytes)?;
    let told = |lack: Lack| format!("under KVM, {}: {} ({})", lack.what, lack.found, lack.remedy);
    Ok(host.lacks().into_iter().map(told).collect())
}
