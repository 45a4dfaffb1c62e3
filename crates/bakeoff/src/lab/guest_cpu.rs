//! The CPU that a guest saw: noted in its facts, and refused where its figures would mislead.

use machine::guest::Machine;
use machine::qemu::NO_FAST_STRINGS;
use plan::cpu::{NEEDED_FEATURES, Presence, fact_key};
use record::evidence::Facts;
use record::fact;

/// The key of the fact that says which CPU the emulator was asked for.
const MODEL: &str = fact::MACHINE_CPU;

/// Notes in a guest's facts which CPU the emulator was asked for, where it was asked.
pub(super) fn note(machine: &dyn Machine, facts: &mut Facts) {
    if let Some(model) = machine.cpu_model() {
        facts.values.insert(MODEL.into(), model);
    }
}

/// Why a trial's figures cannot stand: under counted instructions its guest must have the fast strings of a server of today, or
/// kernels copy and clear memory in loops that no such server runs.
pub(super) fn obstacle(machine: &dyn Machine, facts: &Facts) -> Option<String> {
    machine.ns_per_instruction()?;
    if std::env::var_os(NO_FAST_STRINGS).is_some() {
        return None;
    }
    let said = |feature: &str| facts.values.get(&fact_key(feature)).map(String::as_str);
    let is_present = |feature: &str| said(feature) == Some(Presence::Present.word());
    let wrong: Vec<String> = NEEDED_FEATURES
        .into_iter()
        .filter(|feature| !is_present(feature))
        .map(|feature| format!("{feature} {}", said(feature).unwrap_or("unknown")))
        .collect();
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
        for feature in NEEDED_FEATURES {
            facts.values.insert(fact_key(feature), "present".into());
        }
        facts.values.insert(fact_key("erms"), erms.into());
        facts
    }

    #[test]
    fn a_guest_without_fast_strings_is_void_where_instructions_are_counted() {
        let counted = Emulator(Some(2));
        assert_eq!(obstacle(&counted, &facts("present")), None);
        let why = obstacle(&counted, &facts("absent")).unwrap();
        assert!(why.ends_with(": erms absent"), "{why}");
        assert_eq!(obstacle(&Emulator(None), &facts("absent")), None);
    }

    #[test]
    fn a_guest_that_does_not_say_is_not_trusted() {
        let mut silent = facts("present");
        silent.values.remove("cpu:fsrm");
        let why = obstacle(&Emulator(Some(2)), &silent).unwrap();
        assert!(why.ends_with(": fsrm unknown"), "{why}");
    }

    #[test]
    fn the_facts_name_the_model_asked_for() {
        let mut facts = Facts::default();
        note(&Emulator(None), &mut facts);
        assert_eq!(facts.values["machine:cpu"], "max,-erms");
    }
}
