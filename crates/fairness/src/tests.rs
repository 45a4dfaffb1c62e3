//! What the tests of checks have in common: each violates its check on purpose, and has it pass.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs::{self, File};
use std::io::Write;
use std::process::Command;

use fixtures::builder::RunBuilder;
use plan::kernel::KernelRef;
use record::evidence::Facts;
use record::load_path::LoadPace;
use record::metric::{Direction, MetricSpec, Role};
use record::rundir::Run;
use record::trial::{Measurement, Outcome as TrialOutcome};
use record::verdict::fairness::{Declaration, Detail, Outcome, Unpinnable};
use record::verdict::limit::{ArmLimit, CeilingUse, Limit, LimitedArm};
use record::verdict::reason::Reason;
use record::verdict::warning::{CpuState, Warning};
use record::verdict::weighed::{Class, Effective, Pin, Setting, Weighed};
use record::verdict::{
    ArmSummary, Comparison, Conclusion, Difference, Headline, Judgement, Pair, VERSION, Verdict,
};

use crate::{ALL, Check, Group, Judge, Subject};

/// A run without any trial.
pub(crate) fn empty() -> RunBuilder {
    RunBuilder::new()
}

/// Two blocks without facts.
pub(crate) fn whole() -> RunBuilder {
    empty().blocks(&[[100.0, 101.0]; 2])
}

/// A trial of each arm, that differ in a fact.
pub(crate) fn two_arms(fact: &str, [old, new]: [&str; 2]) -> RunBuilder {
    empty()
        .observed(1, "6.1", facts(fact, old))
        .observed(1, "7.2", facts(fact, new))
}

fn facts(fact: &str, value: &str) -> Facts {
    let pair = |name: &str| BTreeMap::from([(name.to_string(), value.to_string())]);
    let mut facts = Facts::default();
    if let Some(name) = fact.strip_prefix("sysctl ") {
        facts.sysctls = pair(name);
    } else if fact.starts_with("CONFIG_") {
        facts.kernel_config = pair(fact);
    } else if fact.starts_with("boot log") {
        facts.boot_log = vec![value.to_string()];
    } else {
        facts.values = pair(fact);
    }
    facts
}

/// Both arms name the kernel of the first.
pub(crate) fn one_kernel(run: &mut Run) {
    let kernel: KernelRef = run.plan.arms[0].kernel.clone();
    run.plan
        .arms
        .iter_mut()
        .for_each(|arm| arm.kernel = kernel.clone());
}

pub(crate) fn change_measured(run: &mut Run, change: impl Fn(&mut Measurement)) {
    for record in &mut run.attempts {
        if let TrialOutcome::Measured(measurement) = &mut record.outcome {
            change(measurement);
        }
    }
}

/// A judgement with the differences between the first trials of both arms, none of them declared.
pub(crate) fn judged(run: &Run) -> Judgement {
    let mut all = BTreeMap::<String, BTreeMap<String, Option<String>>>::new();
    for (record, facts) in run.attempts.iter().zip(&run.facts) {
        let Some(facts) = facts else { continue };
        let sysctls = facts
            .sysctls
            .iter()
            .map(|(name, value)| (format!("sysctl {name}"), value));
        let others = facts.values.iter().chain(&facts.kernel_config);
        let log = facts
            .boot_log
            .iter()
            .map(|line| (format!("boot log: {line}"), line));
        for (fact, value) in sysctls
            .chain(others.map(|(name, value)| (name.clone(), value)))
            .chain(log)
        {
            let arm = record.trial.arm.clone();
            all.entry(fact)
                .or_default()
                .insert(arm, Some(value.clone()));
        }
    }
    let arms = run.plan.arms.len();
    let differs = |values: &BTreeMap<String, Option<String>>| {
        values.len() < arms || values.values().collect::<BTreeSet<_>>().len() > 1
    };
    let differences = all.into_iter().filter(|(_, values)| differs(values));
    Judgement {
        version: VERSION,
        rule: String::new(),
        headlines: Vec::new(),
        comparisons: Vec::new(),
        arm_summaries: Vec::new(),
        curves: Vec::new(),
        by_load: Vec::new(),
        robustness: Vec::new(),
        host_speed: Vec::new(),
        one_sided: Vec::new(),
        a_a: record::verdict::host::History::NotKnown,
        scaling: Vec::new(),
        differences: differences
            .map(|(fact, values)| Difference {
                fact,
                values,
                declared: false,
                class: Class::Unclassified,
                formerly: None,
                pin: None,
            })
            .collect(),
        weighed: Weighed::default(),
        gates: Vec::new(),
        setbacks: Vec::new(),
        warnings: Vec::new(),
        fairness: Vec::new(),
        any_false: 0.0,
    }
}

/// A comparison of so many blocks, in some of which the arm ran first.
pub(crate) fn compared(blocks: u32, first: impl Fn(u32) -> bool) -> Comparison {
    Comparison {
        workload: "web".into(),
        spec: MetricSpec {
            name: "throughput".into(),
            unit: "requests/s".into(),
            direction: Direction::Higher,
            role: Role::Primary,
        },
        arm: "7.2".into(),
        verdict: Verdict::Undecided,
        ratio: None,
        low: None,
        high: None,
        confidence: None,
        difference: None,
        range: None,
        blocks,
        decided_at: None,
        noise: None,
        order_effect: None,
        spent: 0.0,
        more: None,
        outliers: None,
        estimate_history: Vec::new(),
        reason: Reason::Significant { blocks },
        pairs: (1..=blocks)
            .map(|block| Pair {
                block,
                baseline: 100.0,
                arm: 101.0,
                arm_first: first(block),
            })
            .collect(),
    }
}

pub(crate) fn outcome(check: &Check, run: &Run) -> Outcome {
    outcome_of(check, run, &judged(run))
}

pub(crate) fn outcome_of(check: &Check, run: &Run, judgement: &Judgement) -> Outcome {
    let outcome = match check.judge {
        Judge::Plan(judge) => judge(&run.plan),
        Judge::Run(judge) => judge(&Subject { run, judgement }),
    };
    if let Some(file) = env::var_os(SEEN) {
        let mut seen = File::options().append(true).open(file).unwrap();
        // A line in one piece: tests run side by side.
        let line = format!("{} {}\n", check.id, word(&outcome));
        seen.write_all(line.as_bytes()).unwrap();
    }
    outcome
}

/// Where the tests of checks write each outcome that they see, if anywhere.
const SEEN: &str = "BAKEOFF_SEEN_OUTCOMES";

fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "pass",
        Outcome::Declared { .. } => "declared",
        Outcome::Violation { .. } => "violation",
        Outcome::NotKnown { .. } => "not-known",
        Outcome::NotApplicable => "not-applicable",
    }
}

/// What a check says of a whole run with this warning.
pub(crate) fn warned(warning: Warning, check: &Check) -> Outcome {
    warned_of(&whole().run(), warning, check)
}

pub(crate) fn warned_of(run: &Run, warning: Warning, check: &Check) -> Outcome {
    let mut judgement = judged(run);
    judgement.warnings = vec![warning];
    outcome_of(check, run, &judgement)
}

pub(crate) fn is_violation(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Violation { .. })
}

pub(crate) fn is_declared(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Declared { .. })
}

pub(crate) fn is_unknown(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::NotKnown { .. })
}

/// A check passes where arms have the same fact, fails where arms of one kernel differ in it, and says nothing where it is missing.
pub(crate) fn arms_must_agree(check: &Check, fact: &str) {
    let told = |values: [&str; 2]| outcome(check, &two_arms(fact, values).with(one_kernel).run());
    assert_eq!(told(["one", "one"]), Outcome::Pass, "{}", check.id);
    assert!(is_violation(&told(["one", "other"])), "{}", check.id);
    assert!(is_unknown(&outcome(check, &whole().run())), "{}", check.id);
    assert!(is_unknown(&outcome(check, &empty().run())), "{}", check.id);
}

/// A check of CPU time fails where a warning tells of it, and says nothing of systems on the network.
pub(crate) fn cpu_state_is_watched(check: &Check, state: CpuState) {
    assert_eq!(outcome(check, &whole().run()), Outcome::Pass);
    let warning = Warning::UnusedCpu {
        workload: "web".into(),
        arm: "7.2".into(),
        state,
        share: 0.4,
    };
    assert!(is_violation(&warned(warning, check)));
    assert!(is_unknown(&outcome(check, &empty().run())));
    let remote = whole().with(|run| run.plan.machine.kind = plan::MachineKind::Url);
    assert!(is_unknown(&outcome(check, &remote.run())));
}

/// What a check says where all arms' figures were set by this.
pub(crate) fn limited_by(check: &Check, limit: Limit) -> Outcome {
    let run = whole().run();
    let mut judgement = judged(&run);
    judgement.arm_summaries = vec![ArmSummary {
        workload: "web".into(),
        arm: "7.2".into(),
        kernel: String::new(),
        server: String::new(),
        measured: 2,
        voids: BTreeMap::new(),
        usage: None,
        clients: None,
        figures: Vec::new(),
        limit: Some(ArmLimit {
            limit: Some(limit),
            signs: Vec::new(),
            pace: LoadPace::Closed,
            ceiling: CeilingUse::NotKnown,
            client_busy: None,
            retransmitted: None,
            line_share: None,
        }),
    }];
    let limits = (limit != Limit::Server).then(|| LimitedArm {
        arm: "7.2".into(),
        limit,
    });
    judgement.headlines = vec![Headline {
        workload: "web".into(),
        arm: "7.2".into(),
        conclusion: Conclusion::Better,
        limits: limits.into_iter().collect(),
    }];
    outcome_of(check, &run, &judgement)
}

#[test]
fn names_are_unique_and_texts_are_there() {
    let names: BTreeSet<_> = ALL.iter().map(|check| check.id).collect();
    assert_eq!(names.len(), ALL.len());
    for check in ALL {
        let texts = [check.reads, check.passes, check.why, check.mend];
        assert!(check.question.ends_with('?'), "{}", check.id);
        assert!(texts.iter().all(|text| !text.is_empty()), "{}", check.id);
        assert_eq!(crate::find(check.id).map(|found| found.id), Some(check.id));
    }
}

#[test]
fn no_check_of_facts_passes_without_a_trial() {
    let run = empty().run();
    let judgement = judged(&run);
    for check in ALL {
        if let Judge::Run(judge) = check.judge {
            let subject = Subject {
                run: &run,
                judgement: &judgement,
            };
            assert_ne!(judge(&subject), Outcome::Pass, "{}", check.id);
        }
    }
}

/// What checks that never withhold a headline say instead.
const MILDER: [(&str, &str); 5] = [
    ("clients-apart", "declared"),
    ("error-rate", "declared"),
    ("evidence", "not-known"),
    ("one-load", "declared"),
    ("static-pages", "declared"),
];

/// Runs the tests of all checks once more and looks at what they saw.
#[test]
fn each_check_has_a_test_that_violates_it_and_one_that_passes() {
    let seen = tempfile::NamedTempFile::new().unwrap();
    let mut tests = Command::new(env::current_exe().unwrap());
    tests.args(["--quiet", "checks::"]).env(SEEN, seen.path());
    let output = tests.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    let text = fs::read_to_string(seen.path()).unwrap();
    let seen: BTreeSet<&str> = text.lines().collect();
    let fails = |id: &str| {
        let milder = MILDER.iter().find(|(own, _)| *own == id);
        milder.map_or("violation", |(_, word)| word)
    };
    let wanted = ALL.iter().flat_map(|check| {
        let fails = fails(check.id);
        [
            format!("{} pass", check.id),
            format!("{} {fails}", check.id),
        ]
    });
    let missing: Vec<_> = wanted.filter(|one| !seen.contains(one.as_str())).collect();
    assert!(missing.is_empty(), "no test sees: {missing:?}");
    assert!(ALL.len() - MILDER.len() >= 35);
}

/// Which kernel ran is told by the trial's record itself.
#[test]
fn no_check_of_arms_passes_without_facts() {
    let run = whole().run();
    let judgement = judged(&run);
    let of_arms = ALL.iter().filter(|check| check.group == Group::Arms);
    for check in of_arms.filter(|check| check.id != "kernel-that-ran") {
        if let Judge::Run(judge) = check.judge {
            let subject = Subject {
                run: &run,
                judgement: &judgement,
            };
            assert!(is_unknown(&judge(&subject)), "{}", check.id);
        }
    }
}

#[test]
fn an_accepted_violation_is_declared_with_its_reason() {
    let run = whole()
        .with(|run| run.plan.arms[1].cmdline = "quiet".into())
        .run();
    let judgement = judged(&run);
    let told = |accepted: &[(&str, &str)]| {
        let pairs = accepted
            .iter()
            .map(|(id, why)| ((*id).to_string(), (*why).to_string()));
        let findings = crate::of_run(&run, &judgement, &pairs.collect());
        let found = findings
            .into_iter()
            .find(|one| one.id == "one-sided-tuning");
        found.map(|one| one.outcome)
    };
    assert!(is_violation(&told(&[]).unwrap()));
    let accepted = told(&[("one-sided-tuning", "asked for by the vendor")]).unwrap();
    assert!(
        format!("{accepted:?}").contains("asked for by the vendor"),
        "{accepted:?}"
    );
    assert!(is_declared(&accepted));
}

/// What a check says of two kernels under a mode, where the first difference has this pin.
fn under(mode: Option<plan::Mode>, id: &str, fact: &str, pin: Option<Pin>) -> Outcome {
    let other = |run: &mut Run| run.plan.arms[1].kernel = KernelRef::Tree("new".into());
    let run = two_arms(fact, ["60", "10"]).with(other).run();
    let mut judgement = judged(&run);
    judgement.differences[0].pin = pin;
    let mut run = run;
    run.plan.mode = mode;
    outcome_of(crate::find(id).unwrap(), &run, &judgement)
}

fn swappiness() -> Pin {
    Pin::Sysctl {
        name: "vm.swappiness".into(),
        value: "60".into(),
    }
}

#[test]
fn a_mode_says_what_becomes_of_what_kernels_bring() {
    let sysctl = |mode, pin| under(mode, "sysctls", "sysctl vm.swappiness", pin);
    let by = |outcome: &Outcome| match outcome {
        Outcome::Declared { by, .. } => Some(by.clone()),
        _ => None,
    };
    assert_eq!(
        by(&sysctl(None, Some(swappiness()))),
        Some(Declaration::Kernel)
    );
    let as_shipped = sysctl(Some(plan::Mode::AsShipped), Some(swappiness()));
    assert_eq!(by(&as_shipped), Some(Declaration::AsShipped));
    let controlled = Some(plan::Mode::Controlled);
    let Outcome::Violation { details } = sysctl(controlled, Some(swappiness())) else {
        panic!("what can be pinned is not declared");
    };
    assert!(
        matches!(details[..], [Detail::Pinnable { .. }]),
        "{details:?}"
    );
    assert!(details[0].concerns("web", "7.2", "6.1"));
    let Outcome::Declared { by, details } = sysctl(controlled, None) else {
        panic!("what cannot be pinned is declared");
    };
    assert_eq!(by, Declaration::NotPinnable);
    let fixed = Detail::NotPinnable {
        class: Class::Unclassified,
        facts: 1,
        why: Unpinnable::Fixed,
    };
    assert_eq!(details, [fixed]);
}

#[test]
fn settings_in_effect_are_pinned_where_their_facts_are_asked_about() {
    let controlled = |id: &str, fact: &str, setting: Setting| {
        let other = |run: &mut Run| run.plan.arms[1].kernel = KernelRef::Tree("new".into());
        let mut run = two_arms(fact, ["one", "other"]).with(other).run();
        run.plan.mode = Some(plan::Mode::Controlled);
        let mut judgement = judged(&run);
        judgement.weighed.settings = vec![Effective {
            setting,
            values: [("6.1".into(), Some("one".into()))].into(),
            pin: Some(swappiness()),
        }];
        outcome_of(crate::find(id).unwrap(), &run, &judgement)
    };
    let huge = "/sys/kernel/mm/transparent_hugepage/enabled";
    assert!(is_violation(&controlled(
        "huge-pages",
        huge,
        Setting::HugePages
    )));
    let config = |setting| controlled("kernel-configuration", "CONFIG_HZ", setting);
    assert!(is_violation(&config(Setting::Preemption)));
    assert!(is_declared(&config(Setting::HugePages)));
    let lsm = "/sys/kernel/security/lsm";
    assert!(is_violation(&controlled(
        "security-modules",
        lsm,
        Setting::SecurityModules
    )));
    let cpu = "/sys/devices/system/cpu/vulnerabilities/meltdown";
    assert!(is_violation(&controlled(
        "mitigations",
        cpu,
        Setting::Mitigations
    )));
}

#[test]
fn without_another_kernel_no_mode_excuses_anything() {
    let run = two_arms("sysctl vm.swappiness", ["60", "10"]).with(one_kernel);
    let run = run
        .with(|run| run.plan.mode = Some(plan::Mode::AsShipped))
        .run();
    assert!(is_violation(&outcome(
        crate::find("sysctls").unwrap(),
        &run
    )));
}
