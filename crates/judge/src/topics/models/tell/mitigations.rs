//! The mitigations of the arms in one line. They are part of a kernel's cost, and depend on the CPU model.

use std::collections::BTreeMap;

use record::rundir::Run;
use record::trial::Outcome;

/// Directory with a file for each vulnerability, in which the kernel reports the mitigation.
const VULNERABILITIES: &str = "/sys/devices/system/cpu/vulnerabilities/";

/// A vulnerability, a part of the kernel's report, and the name shown here. Mitigations without a cost unless a program enables them
/// are left out.
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

/// `mitigations: retpolines, no page-table isolation`, by arm if arms differ. `None` if no trial reports them.
pub(crate) fn line(run: &Run) -> Option<String> {
    let arms = run.plan.arms.iter();
    let states: Vec<(&str, String)> = arms
        .filter_map(|arm| Some((arm.name.as_str(), of_arm(run, &arm.name)?)))
        .collect();
    let (_, first) = states.first()?;
    if states.iter().all(|(_, state)| state == first) {
        return Some(format!("mitigations: {first}"));
    }
    let by_arm: Vec<String> = states
        .iter()
        .map(|(arm, state)| format!("{arm}: {state}"))
        .collect();
    Some(format!("mitigations differ: {}", by_arm.join("; ")))
}

/// The mitigations in the arm's first measured trial that reports them.
fn of_arm(run: &Run, arm: &str) -> Option<String> {
    let mut trials = run.attempts.iter().zip(&run.facts);
    trials.find_map(|(record, facts)| {
        let is_of_arm = record.trial.arm == arm && matches!(record.outcome, Outcome::Measured(_));
        state(&facts.as_ref().filter(|_| is_of_arm)?.values)
    })
}

fn state(values: &BTreeMap<String, String>) -> Option<String> {
    if !values.keys().any(|key| key.starts_with(VULNERABILITIES)) {
        return None;
    }
    let is_reported = |vulnerability: &str, part: &str| {
        let report = values.get(&format!("{VULNERABILITIES}{vulnerability}"));
        report.is_some_and(|report| report.contains(part))
    };
    let mut names: Vec<&str> = Vec::new();
    for (vulnerability, part, name) in NAMES {
        if is_reported(vulnerability, part) && !names.contains(&name) {
            names.push(name);
        }
    }
    names.push(if is_reported("meltdown", "PTI") {
        "page-table isolation"
    } else {
        "no page-table isolation"
    });
    Some(names.join(", "))
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

    fn line_of(arms: &[(&str, &[(&str, &str)])]) -> Option<String> {
        let (mut run, _) = judged(web::two_kernels());
        for (record, facts) in run.attempts.iter().zip(&mut run.facts) {
            let values = &mut facts.get_or_insert_default().values;
            values.retain(|key, _| !key.starts_with(VULNERABILITIES));
            let reports = arms.iter().find(|(arm, _)| *arm == record.trial.arm);
            for (name, report) in reports.map(|(_, reports)| *reports).unwrap_or_default() {
                values.insert(format!("{VULNERABILITIES}{name}"), (*report).into());
            }
        }
        line(&run)
    }

    #[test]
    fn equal_arms_have_one_state() {
        assert_eq!(
            line_of(&[("6.1", &MAX), ("7.2", &MAX)]).unwrap(),
            "mitigations: retpolines, no page-table isolation"
        );
        assert_eq!(
            line_of(&[("6.1", &HASWELL), ("7.2", &HASWELL)]).unwrap(),
            "mitigations: retpolines, branch history clearing, buffer clearing, page-table isolation"
        );
    }

    #[test]
    fn arms_that_differ_have_a_state_each() {
        assert_eq!(
            line_of(&[("6.1", &HASWELL), ("7.2", &OFF)]).unwrap(),
            "mitigations differ: 6.1: retpolines, branch history clearing, buffer clearing, page-table isolation; \
             7.2: no page-table isolation"
        );
    }

    #[test]
    fn without_reports_there_is_no_line() {
        assert_eq!(line_of(&[]), None);
    }
}
