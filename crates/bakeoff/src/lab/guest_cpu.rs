//! The CPU that a guest saw: noted in its facts, and refused where its figures would mislead.

use machine::guest::Machine;
use plan::cpu::{Presence, fact_key, misleading_features};
use record::evidence::Facts;

/// The key of the fact that says which CPU the emulator was asked for.
const MODEL: &str = "machine:cpu";

/// Notes in a guest's facts which CPU the emulator was asked for, where it was asked.
pub(super) fn note(machine: &dyn Machine, facts: &mut Facts) {
    if let Some(model) = machine.cpu_model() {
        facts.values.insert(MODEL.into(), model);
    }
}

/// Why a trial's figures cannot stand: under counted instructions its guest must lack the CPU features that make
/// some kernels copy with REP string instructions, of which each iteration counts as an instruction.
pub(super) fn obstacle(machine: &dyn Machine, facts: &Facts) -> Option<String> {
    machine.ns_per_instruction()?;
    let said = |feature: &str| facts.values.get(&fact_key(feature)).map(String::as_str);
    let is_absent = |feature: &str| said(feature) == Some(Presence::Absent.word());
    let wrong: Vec<String> = misleading_features()
        .filter(|feature| !is_absent(feature))
        .map(|feature| format!("{feature} {}", said(feature).unwrap_or("unknown")))
        .collect();
    (!wrong.is_empty()).then(|| {
        format!(
            "guest that copies with string instructions, of which each iteration counts: {}",
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
        for feature in misleading_features() {
            facts.values.insert(fact_key(feature), "absent".into());
        }
        facts.values.insert(fact_key("erms"), erms.into());
        facts
    }

    #[test]
    fn fast_strings_void_a_trial_of_counted_instructions_and_no_other() {
        let counted = Emulator(Some(2));
        assert_eq!(obstacle(&counted, &facts("absent")), None);
        let why = obstacle(&counted, &facts("present")).unwrap();
        assert!(why.ends_with(": erms present"), "{why}");
        let mut old_kernel = facts("absent");
        old_kernel
            .values
            .insert("cpu:rep_good".into(), "present".into());
        let why = obstacle(&counted, &old_kernel).unwrap();
        assert!(why.ends_with(": rep_good present"), "{why}");
        assert_eq!(obstacle(&Emulator(None), &facts("present")), None);
    }

    #[test]
    fn a_guest_that_does_not_say_is_not_trusted() {
        let mut silent = facts("absent");
        silent.values.remove("cpu:fsrs");
        let why = obstacle(&Emulator(Some(2)), &silent).unwrap();
        assert!(why.ends_with(": fsrs unknown"), "{why}");
    }

    #[test]
    fn the_facts_name_the_model_asked_for() {
        let mut facts = Facts::default();
        note(&Emulator(None), &mut facts);
        assert_eq!(facts.values["machine:cpu"], "max,-erms");
    }
}
