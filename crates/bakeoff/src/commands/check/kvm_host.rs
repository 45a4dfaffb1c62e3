//! What this host lacks for guests of a plan that run by the wall clock.

use std::path::Path;

use anyhow::Result;
use machine::host_state::Lack;
use machine::kvm_host::KvmHost;
use machine::{emulator, kvm};
use plan::{Clock, MachineKind, Plan};

use crate::commands::at_work;

/// What keeps figures from being as good as a host with KVM could have them; nothing for a plan whose guests count
/// instructions here.
pub(super) fn warnings(plan: &Plan, qemu: Option<&Path>) -> Result<Vec<String>> {
    if plan.machine.kind != MachineKind::Qemu || plan.machine.clock == Clock::Instructions {
        return Ok(Vec::new());
    }
    let is_emulated = at_work(true, |cache, task| {
        let program = emulator::for_kvm(qemu, cache, task);
        Ok(program.is_ok_and(|program| kvm::is_known_to_emulate(cache, &program)))
    })?;
    if is_emulated {
        return Ok(emulated(plan).into_iter().collect());
    }
    let own = plan.arms.iter().filter_map(|arm| plan.cpus(arm));
    let most = own.max().unwrap_or(plan.machine.cpus);
    let host = KvmHost::open(most, plan.machine.memory_bytes)?;
    let told = |lack: Lack| format!("under KVM, {}: {} ({})", lack.what, lack.found, lack.remedy);
    Ok(host.lacks().into_iter().map(told).collect())
}

/// Where the plan leaves the clock open, it counts instructions, which is no lack.
fn emulated(plan: &Plan) -> Option<String> {
    if plan.machine.clock != Clock::Wall {
        return None;
    }
    let why = kvm::obstacle();
    let why = why.unwrap_or_else(|| {
        "KVM cannot run a stock kernel here (see bakeoff doctor --verbose)".into()
    });
    Some(format!(
        "guests are emulated, and by the wall clock such guests scatter by half: {why}"
    ))
}
