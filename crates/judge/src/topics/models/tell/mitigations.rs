//! Which mitigations the arms ran with, in one line: they are part of what a kernel costs, and the CPU model decides on them.

use std::collections::BTreeMap;

use record::rundir::Run;
use record::trial::Outcome;

/// Where a kernel tells them; the names of its files are the vulnerabilities.
const PLACE: &str = "/sys/devices/system/cpu/vulnerabilities/";

/// What a mitigation is called here: the vulnerability, a part of what the kernel says of it, and the words.
/// Those that cost nothing unless a program asks for them are left out.
const NAMES: [(&str, &str, &str); 11] = [
    ("spectre_v2", "Retpoline", "retpolines"),
    ("spectre_v2", "Mitigation: IBRS", "IBRS"),
    ("spectre_v2", "Mitigation: Enhanced", "enhanced IBRS"),
    ("spectre_v2", "BHI: SW loop", "branch history clearing"),
    ("retbleed", "untrained return thunk", "untrained returns"),
    ("spec_rstack_overflow", "Safe RET", "safe returns"),
    ("indirect_target_selection", "thunk", "aligned thunks"),
    ("mds", "Clear CPU buffers", "buffer clearing"),
    ("mmio_stale_data", "Clear CPU buffers", "buffer clearing"),
    ("tsx_async_abort", "Clear CPU buffers", "buffer clearing"),
    ("reg_file_data_sampling", "Clear", "buffer clearing"),
];

/// `mitigations: retpolines, no page-table isolation`, by arm where arms differ. `None` where no trial told them.
pub(crate) fn line(run: &Run) -> Option<String> {
    let told: Vec<(&str, String)> = run
        .plan
        .arms
        .iter()
        .filter_map(|arm| Some((arm.name.as_str(), of_arm(run, &arm.name)?)))
        .collect();
    let (_, first) = told.first()?;
    if told.iter().all(|(_, state)| state == first) {
        return Some(format!("mitigations: {first}"));
    }
    let by_arm: Vec<String> = told
        .iter()
        .map(|(arm, state)| format!("{arm}: {state}"))
        .collect();
    Some(format!("mitigations differ: {}", by_arm.join("; ")))
}

/// The state in the arm's first measured trial that tells it.
fn of_arm(run: &Run, arm: &str) -> Option<String> {
    let trials = run.attempts.iter().zip(&run.facts);
    let states = trials.filter_map(|(record, facts)| {
        let is_of_arm = record.trial.arm == arm && matches!(record.outcome, Outcome::Measured(_));
        state(&facts.as_ref().filter(|_| is_of_arm)?.values)
    });
    states.into_iter().next()
}

fn state(values: &BTreeMap<String, String>) -> Option<String> {
    let told = |name: &str| values.get(&format!("{PLACE}{name}")).map(String::as_str);
    let is_told = values.keys().any(|key| key.starts_with(PLACE));
    if !is_told {
        return None;
    }
    let mut words: Vec<&str> = Vec::new();
    for (vulnerability, part, word) in NAMES {
        let is_active = told(vulnerability).is_some_and(|said| said.contains(part));
        if is_active && !words.contains(&word) {
            words.push(word);
        }
    }
    words.push(match told("meltdown") {
        Some(said) if said.contains("PTI") => "page-table isolation",
        Some(_) | None => "no page-table isolation",
    });
    Some(words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::judged;
    use record::fixtures::web;

    const MAX: [(&str, &str); 4] = [
        ("meltdown", "Not affected"),
        (
            "spectre_v2",
            "Mitigation: Retpolines; STIBP: disabled; RSB filling; PBRSB-eIBRS: Not affected; BHI: Not affected",
        ),
        ("mds", "Not affected"),
        ("spec_store_bypass", "Vulnerable"),
    ];

    const HASWELL: [(&str, &str); 4] = [
        ("meltdown", "Mitigation: PTI"),
        (
            "spectre_v2",
            "Mitigation: Retpolines; BHI: SW loop, KVM: SW loop",
        ),
        (
            "mds",
            "Vulnerable: Clear CPU buffers attempted, no microcode",
        ),
        (
            "mmio_stale_data",
            "Vulnerable: Clear CPU buffers attempted, no microcode",
        ),
    ];

    const OFF: [(&str, &str); 2] = [("meltdown", "Vulnerable"), ("spectre_v2", "Vulnerable")];

    fn told(arms: &[(&str, &[(&str, &str)])]) -> Option<String> {
        let (mut run, _) = judged(web::two_kernels());
        for (record, facts) in run.attempts.iter().zip(&mut run.facts) {
            let values = &mut facts.get_or_insert_default().values;
            values.retain(|key, _| !key.starts_with(PLACE));
            let of_arm = arms.iter().find(|(arm, _)| *arm == record.trial.arm);
            for (name, said) in of_arm.map(|(_, state)| *state).unwrap_or_default() {
                values.insert(format!("{PLACE}{name}"), (*said).into());
            }
        }
        line(&run)
    }

    #[test]
    fn equal_arms_have_one_state() {
        assert_eq!(
            told(&[("6.1", &MAX), ("7.2", &MAX)]).unwrap(),
            "mitigations: retpolines, no page-table isolation"
        );
        assert_eq!(
            told(&[("6.1", &HASWELL), ("7.2", &HASWELL)]).unwrap(),
            "mitigations: retpolines, branch history clearing, buffer clearing, page-table isolation"
        );
    }

    #[test]
    fn arms_that_differ_are_told_apart() {
        assert_eq!(
            told(&[("6.1", &HASWELL), ("7.2", &OFF)]).unwrap(),
            "mitigations differ: 6.1: retpolines, branch history clearing, buffer clearing, page-table isolation; \
             7.2: no page-table isolation"
        );
    }

    #[test]
    fn where_no_kernel_told_them_nothing_is_said() {
        assert_eq!(told(&[]), None);
    }
}
