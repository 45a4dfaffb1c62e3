//! The CPU that a guest saw: added to its facts, and refused if its figures would mislead.

use base::arch::Arch;
use machine::guest::Machine;
use machine::qemu::NO_FAST_STRINGS;
use plan::cpu::{Presence, fact_key};
use record::evidence::Facts;
use record::fact;

/// The key of the fact that names the CPU model requested from the emulator.
const MODEL: &str = fact::MACHINE_CPU;

/// Adds the CPU model that was requested from the emulator to a guest's facts.
pub(super) fn add_model(machine: &dyn Machine, facts: &mut Facts) {
    if let Some(model) = machine.cpu_model() {
        facts.values.insert(MODEL.into(), model);
    }
}

/// Why a trial's figures would mislead, or `None`. If instructions are counted, the guest's CPU must have the fast string
/// instructions of today's servers of its architecture. Without them, kernels copy and clear memory in loops that no such server
/// runs.
pub(super) fn wrong_cpu(machine: &dyn Machine, arch: Arch, facts: &Facts) -> Option<String> {
    machine.ns_per_instruction()?;
    if std::env::var_os(NO_FAST_STRINGS).is_some() {
        return None;
    }
    let mut wrong = Vec::new();
    for feature in arch.facts().needed_fast_strings() {
        let presence = facts.values.get(&fact_key(feature)).map(String::as_str);
        if presence != Some(Presence::Present.word()) {
            wrong.push(format!("{feature} {}", presence.unwrap_or("unknown")));
        }
    }
    (!wrong.is_empty()).then(|| {
        format!(
            "guest without the fast strings of a server of today: {}",
            wrong.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use anyhow::{Result, bail};
    use machine::guest::{Boot, Guest};
    use record::machine::MachineDescription;

    use super::*;

    struct Emulator(Option<u32>);

    impl Machine for Emulator {
        fn describe(&self) -> MachineDescription {
            MachineDescription::Fake
        }

        fn ns_per_instruction(&self) -> Option<u32> {
            self.0
        }

        fn cpu_model(&self) -> Option<String> {
            Some("max,-erms".into())
        }

        fn boot(&self, boot: Boot<'_>) -> Result<Box<dyn Guest>> {
            bail!("boots nothing: {}", Path::new(boot.arm).display())
        }
    }

    fn facts(erms: &str) -> Facts {
        let mut facts = Facts::default();
        for feature in Arch::X86_64.facts().needed_fast_strings() {
            facts.values.insert(fact_key(feature), "present".into());
        }
        facts.values.insert(fact_key("erms"), erms.into());
        facts
    }

    #[test]
    fn a_guest_without_fast_strings_is_void_where_instructions_are_counted() {
        let counted = Emulator(Some(2));
        assert_eq!(wrong_cpu(&counted, Arch::X86_64, &facts("present")), None);
        let why = wrong_cpu(&counted, Arch::X86_64, &facts("absent")).unwrap();
        assert!(why.ends_with(": erms absent"), "{why}");
        assert_eq!(
            wrong_cpu(&Emulator(None), Arch::X86_64, &facts("absent")),
            None
        );
    }

    #[test]
    fn a_guest_that_does_not_report_a_feature_is_not_trusted() {
        let mut incomplete = facts("present");
        incomplete.values.remove("cpu:fsrm");
        let why = wrong_cpu(&Emulator(Some(2)), Arch::X86_64, &incomplete).unwrap();
        assert!(why.ends_with(": fsrm unknown"), "{why}");
    }

    #[test]
    fn the_facts_name_the_model_asked_for() {
        let mut facts = Facts::default();
        add_model(&Emulator(None), &mut facts);
        assert_eq!(facts.values["machine:cpu"], "max,-erms");
    }
}
