//! What this host lacks for guests of a plan that run by the wall clock.

use std::path::Path;

use anyhow::Result;
use machine::host_state::Lack;
use machine::kvm::Kvm;
use machine::kvm_host::KvmHost;
use machine::{emulator_choice, kvm};
use plan::{Clock, MachineKind, Plan};

use crate::commands::at_work;

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
    match (plan.machine.clock, kvm::obstacle(), known) {
        (Clock::Wall, Some(why), _) => Ok(vec![emulated(&why)]),
        (Clock::Wall, None, Some(Kvm::Broken(_))) => Ok(vec![emulated(
            "KVM cannot run a stock kernel here (see bakeoff doctor --verbose)",
        )]),
        (Clock::Wall, None, _) | (Clock::Auto, None, Some(Kvm::Works)) => of_host(plan),
        (Clock::Auto | Clock::Instructions, _, _) => Ok(Vec::new()),
    }
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
