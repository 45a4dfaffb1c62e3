//! Helpers for the tests of checks. Each test makes its check fail and pass.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs::{self, File};
use std::io::Write;
use std::process::Command;

use plan::kernel::KernelRef;
use record::evidence::{FactLookup, Facts};
use record::fixtures::builder::RunBuilder;
use record::load_path::LoadPace;
use record::metric::{Direction, MetricSpec, Role};
use record::rundir::Run;
use record::trial::{Measurement, Outcome as TrialOutcome};
use record::verdict::fairness::{AcceptedBy, Detail, Outcome, Quantity, Unpinnable};
use record::verdict::finding::{Finding, Kind};
use record::verdict::limit::{ArmLimit, CeilingUse, Limit, LimitedArm};
use record::verdict::reason::Reason;
use record::verdict::weighed::{Class, Effective, EffectiveSetting, Pin, Seen, Weighed};
use record::verdict::{
    ArmSummary, Comparison, Conclusion, Difference, Headline, Judgement, Pair, VERSION, Verdict,
};

use crate::topics::fairness::{ALL, Check, Fact, Group, Judge, Subject};

/// A run without any trial.
pub(crate) fn empty() -> RunBuilder {
    RunBuilder::new()
}

/// Two blocks without facts.
pub(crate) fn whole() -> RunBuilder {
    empty().blocks(&[[100.0, 101.0]; 2])
}

/// A trial of each arm; the two differ in a fact.
pub(crate) fn two_arms(fact: &str, [old, new]: [&str; 2]) -> RunBuilder {
    empty()
        .observed(1, "6.1", facts(fact, old))
        .observed(1, "7.2", facts(fact, new))
}

pub(crate) fn facts(fact: &str, value: &str) -> Facts {
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

/// The differences between the trials of both arms, none of them planned.
fn differences(run: &Run) -> Vec<Difference> {
    let all = || {
        let each = run.attempts.iter().zip(&run.facts);
        each.filter_map(|(record, facts)| Some((&record.trial, facts.as_ref()?)))
    };
    let names: BTreeSet<String> = all()
        .flat_map(|(_, facts)| {
            let sysctls = facts.sysctls.keys().map(|name| format!("sysctl {name}"));
            let others = facts.values.keys().chain(facts.kernel_config.keys());
            let log = facts
                .boot_log
                .iter()
                .map(|line| format!("boot log: {line}"));
            sysctls
                .chain(others.cloned())
                .chain(log)
                .collect::<Vec<_>>()
        })
        .collect();
    let value = |fact: &str, facts: &Facts| match fact.strip_prefix("boot log: ") {
        Some(_) if facts.boot_log.is_empty() => None,
        Some(line) => Some(facts.boot_log.iter().find(|other| *other == line).cloned()),
        None => match facts.look_up(fact) {
            FactLookup::Value(value) => Some(Some(value.to_string())),
            FactLookup::Absent => Some(None),
            FactLookup::NotKnown => None,
        },
    };
    let difference = |fact: String| {
        let (mut values, mut varying) = (BTreeMap::new(), BTreeMap::new());
        for arm in &run.plan.arms {
            let of_arm = all().filter(|(trial, _)| trial.arm == arm.name);
            let seen = Seen::of(
                of_arm.filter_map(|(trial, facts)| Some((trial.number, value(&fact, facts)?))),
            );
            if let Some(most) = seen.first() {
                values.insert(arm.name.clone(), most.value.clone());
            }
            if seen.len() > 1 {
                varying.insert(arm.name.clone(), seen);
            }
        }
        let differs = values.values().collect::<BTreeSet<_>>().len() > 1;
        (differs || !varying.is_empty()).then_some(Difference {
            fact,
            values,
            varying,
            declared: false,
            class: Class::Unclassified,
            formerly: None,
            pin: None,
        })
    };
    names.into_iter().filter_map(difference).collect()
}

/// A judgement with the differences between the trials of both arms.
pub(crate) fn judged(run: &Run) -> Judgement {
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
        soaks: Vec::new(),
        nodes: Vec::new(),
        planned: Vec::new(),
        differences: differences(run),
        weighed: Weighed::default(),
        defects: record::verdict::defects::Defects::default(),
        findings: Vec::new(),
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
    let outcome = check.judge.of(&Subject { run, judgement });
    if let Some(file) = env::var_os(SEEN) {
        let mut seen = File::options().append(true).open(file).unwrap();
        // One write for the whole line, because tests run in parallel.
        let line = format!("{} {}\n", check.id, outcome.word());
        seen.write_all(line.as_bytes()).unwrap();
    }
    outcome
}

/// The file to which tests of checks write each status that they see, if set.
const SEEN: &str = "BAKEOFF_SEEN_OUTCOMES";

/// The outcome of a check on a whole run with a finding of this kind about an arm.
pub(crate) fn found(kind: Kind, check: &Check) -> Outcome {
    with_finding(&whole().run(), Finding::new("web", "7.2", kind), check)
}

/// The outcome of a check on a run with only this finding.
pub(crate) fn with_finding(run: &Run, finding: Finding, check: &Check) -> Outcome {
    let mut judgement = judged(run);
    judgement.findings = vec![finding];
    outcome_of(check, run, &judgement)
}

/// A finding that a quantity is beyond its limit.
pub(crate) fn beyond(quantity: Quantity) -> Finding {
    let kind = Kind::Beyond {
        quantity,
        value: 0.4,
        limit: 0.1,
    };
    Finding::new("web", "7.2", kind)
}

/// Asserts that a check fails where a finding says that this quantity is beyond its limit, passes without, and does not know before
/// arms are measured.
pub(crate) fn quantity_is_watched(check: &Check, quantity: Quantity) {
    let run = whole().run();
    assert_eq!(outcome(check, &run), Outcome::Passed);
    assert!(is_failed(&with_finding(&run, beyond(quantity), check)));
    assert!(is_unknown(&outcome(check, &empty().run())));
}

/// Asserts the same, and that the check knows nothing of systems on the network.
pub(crate) fn system_quantity_is_watched(check: &Check, quantity: Quantity) {
    quantity_is_watched(check, quantity);
    let remote = whole().with(|run| run.plan.machine.kind = plan::MachineKind::Url);
    assert!(is_unknown(&outcome(check, &remote.run())));
}

pub(crate) fn is_failed(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed { .. })
}

pub(crate) fn is_accepted(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Accepted { .. })
}

pub(crate) fn is_unknown(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Unknown { .. })
}

/// A check passes where arms have the same fact, fails where arms of one kernel or trials of one arm differ in it, and says nothing where
/// it is missing.
pub(crate) fn arms_must_agree(check: &Check, fact: &str) {
    let whole_but = |value: &str| {
        let mut facts = complete(check);
        add(&mut facts, fact, value);
        facts
    };
    let arms = |values: [&str; 2]| {
        empty()
            .observed(1, "6.1", whole_but(values[0]))
            .observed(1, "7.2", whole_but(values[1]))
    };
    let result = |values: [&str; 2]| outcome(check, &arms(values).with(one_kernel).run());
    assert_eq!(result(["one", "one"]), Outcome::Passed, "{}", check.id);
    assert!(is_failed(&result(["one", "other"])), "{}", check.id);
    // No kernel comes with another value in each trial.
    let third = arms(["one", "one"]).observed(2, "7.2", whole_but("other"));
    let Outcome::Failed { details } = outcome(check, &third.run()) else {
        panic!("{} overlooks the third trial", check.id);
    };
    let is_named = details.iter().any(|detail| {
        matches!(detail, Detail::Varies { arm, values, .. }
            if arm == "7.2" && values.iter().any(|seen| seen.trials == [3]))
    });
    assert!(is_named, "{details:?}");
    assert!(is_unknown(&outcome(check, &whole().run())), "{}", check.id);
    assert!(is_unknown(&outcome(check, &empty().run())), "{}", check.id);
}

/// The facts that a check reads; other checks read the trials' records.
fn read_by(check: &Check) -> Vec<Fact> {
    match check.judge {
        Judge::Equal(facts, _) | Judge::OfServers(facts) => facts.to_vec(),
        Judge::Plan(_) | Judge::Run(_) | Judge::PlanThenRun(..) => {
            let of_check = READ_APART.iter().filter(|(id, _)| *id == check.id);
            of_check.map(|(_, fact)| Fact::Must(fact)).collect()
        }
    }
}

const READ_APART: [(&str, &str); 4] = [
    ("compiler", "/proc/version"),
    ("descriptors", "limit:*:open files"),
    ("listen-backlog", "sysctl net.core.somaxconn"),
    ("memory", "/proc/meminfo:MemTotal"),
];

/// Facts with all that a check reads.
fn complete(check: &Check) -> Facts {
    let mut facts = Facts::default();
    for fact in read_by(check) {
        add(&mut facts, fact.name(), value_of(fact.name()));
    }
    facts
}

fn value_of(fact: &str) -> &'static str {
    match fact {
        "/proc/version" => "Linux version 6.1 (a@b) (gcc 12.2, GNU ld 2.40) #1",
        _ => "4096",
    }
}

fn add(into: &mut Facts, fact: &str, value: &str) {
    let more = facts(&fact.replace('*', "x"), value);
    into.values.extend(more.values);
    into.sysctls.extend(more.sysctls);
    into.kernel_config.extend(more.kernel_config);
    // A log has other lines too.
    into.boot_log.extend(more.boot_log);
}

/// Facts without the list that has this fact, or without the fact if no list has it.
fn without(mut facts: Facts, fact: &str) -> Facts {
    if fact.starts_with("sysctl ") {
        facts.sysctls.clear();
    } else if fact.starts_with("CONFIG_") {
        facts.kernel_config.clear();
    } else if fact.starts_with("boot log") {
        facts.boot_log.clear();
    } else {
        facts.values.remove(&fact.replace('*', "x"));
    }
    facts
}

#[test]
fn a_check_is_unknown_if_an_arm_does_not_report_a_fact() {
    let result = |check: &Check, [old, new]: [Option<Facts>; 2], second: Option<Facts>| {
        let mut run =
            empty()
                .observed(1, "6.1", Facts::default())
                .observed(1, "7.2", Facts::default());
        if second.is_some() {
            run = run.observed(2, "6.1", Facts::default());
        }
        let mut run = run.run();
        run.facts = [Some(old), Some(new), second.map(Some)]
            .into_iter()
            .flatten()
            .collect();
        outcome(check, &run)
    };
    for check in ALL {
        let full = || Some(complete(check));
        let complete_result = result(check, [full(), full()], None);
        let facts = read_by(check);
        if facts.is_empty() {
            // A check that reads no facts gives the same result without them.
            assert_eq!(
                result(check, [None, full()], None),
                complete_result,
                "{}",
                check.id
            );
            continue;
        }
        assert_eq!(complete_result, Outcome::Passed, "{}", check.id);
        assert!(
            is_unknown(&result(check, [None, full()], None)),
            "{}",
            check.id
        );
        let nothing = Some(Facts::default());
        assert!(
            is_unknown(&result(check, [nothing, full()], None)),
            "{}",
            check.id
        );
        for fact in facts {
            let silent = || Some(without(complete(check), fact.name()));
            let cases = [
                result(check, [silent(), full()], None),
                result(check, [full(), silent()], None),
                result(check, [full(), full()], silent()),
            ];
            for outcome in cases {
                assert!(is_unknown(&outcome), "{}: {fact:?}: {outcome:?}", check.id);
            }
        }
    }
}

#[test]
fn no_check_of_a_run_passes_where_an_arm_has_no_trial() {
    for check in ALL.iter().filter(|check| !check.is_of_plan()) {
        let run = empty().observed(1, "6.1", complete(check)).run();
        assert_ne!(outcome(check, &run), Outcome::Passed, "{}", check.id);
    }
}

#[test]
fn what_a_complete_list_lacks_is_a_difference() {
    let check = crate::topics::fairness::find("sysctls").unwrap();
    let mut more = facts("sysctl vm.swappiness", "60");
    add(&mut more, "sysctl vm.new", "1");
    let run = empty()
        .observed(1, "6.1", facts("sysctl vm.swappiness", "60"))
        .observed(1, "7.2", more);
    assert!(is_failed(&outcome(check, &run.with(one_kernel).run())));
}

#[test]
fn checks_of_servers_need_a_server() {
    for id in [
        "descriptors",
        "limits",
        "server-configuration",
        "server-program",
        "workers",
    ] {
        let check = crate::topics::fairness::find(id).unwrap();
        let without_server = |run: &mut Run| {
            change_measured(run, |measurement| measurement.server = String::new());
        };
        let other = two_arms("/proc/cmdline", ["quiet", "quiet"]).with(without_server);
        assert_eq!(outcome(check, &other.run()), Outcome::NotApplicable, "{id}");
        let served = two_arms("command:service", ["program", "program"]).with(without_server);
        assert!(is_unknown(&outcome(check, &served.run())), "{id}");
        let silent = whole().with(without_server);
        assert!(is_unknown(&outcome(check, &silent.run())), "{id}");
    }
}

#[test]
fn details_leave_out_differences_of_the_plan() {
    let other = |run: &mut Run| run.plan.arms[1].kernel = KernelRef::path("new");
    let lists = |swappiness: &str, release: &str| {
        let mut sysctls = facts("sysctl vm.swappiness", swappiness);
        add(&mut sysctls, "sysctl kernel.osrelease", release);
        sysctls
    };
    let run = empty()
        .observed(1, "6.1", lists("60", "6.1"))
        .observed(1, "7.2", lists("10", "7.2"))
        .with(other)
        .run();
    let mut judgement = judged(&run);
    judgement.differences[0].declared = true;
    let result = outcome_of(
        crate::topics::fairness::find("sysctls").unwrap(),
        &run,
        &judgement,
    );
    let Outcome::Accepted {
        by: AcceptedBy::Kernel,
        details,
    } = result
    else {
        panic!("{result:?}");
    };
    assert_eq!(details.len(), 1);
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
            one_fewer: None,
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
        by_price: None,
    }];
    outcome_of(check, &run, &judgement)
}

#[test]
fn names_are_unique_and_texts_are_there() {
    let names: BTreeSet<_> = ALL.iter().map(|check| check.id).collect();
    assert_eq!(names.len(), ALL.len());
    for check in ALL {
        let is_sentence = |text: &str| text.ends_with('.') && !text.contains("; ");
        for text in [check.must_hold, check.why, check.mend] {
            assert!(is_sentence(text), "{}: {text}", check.id);
            let longest = text.split(". ").map(|sentence| sentence.split(' ').count());
            assert!(longest.max() <= Some(20), "{}: {text}", check.id);
        }
        assert!(!check.reads.ends_with('.'), "{}", check.id);
        assert_eq!(
            crate::topics::fairness::find(check.id).map(|found| found.id),
            Some(check.id)
        );
    }
}

#[test]
fn no_check_of_facts_passes_without_a_trial() {
    let run = empty().run();
    let judgement = judged(&run);
    for check in ALL {
        if !check.is_of_plan() {
            let subject = Subject {
                run: &run,
                judgement: &judgement,
            };
            assert_ne!(check.judge.of(&subject), Outcome::Passed, "{}", check.id);
        }
    }
}

/// The status of checks that never fail.
const MILDER: [(&str, &str); 5] = [
    ("clients-apart", "accepted"),
    ("error-rate", "accepted"),
    ("evidence", "unknown"),
    ("one-load", "accepted"),
    ("static-pages", "accepted"),
];

/// Runs the tests of all checks once more and reads which statuses they saw.
#[test]
fn each_check_has_a_test_that_fails_and_one_that_passes() {
    let seen = tempfile::NamedTempFile::new().unwrap();
    let mut tests = Command::new(env::current_exe().unwrap());
    tests.args(["--quiet", "checks::"]).env(SEEN, seen.path());
    let output = tests.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}");
    let text = fs::read_to_string(seen.path()).unwrap();
    let seen: BTreeSet<&str> = text.lines().collect();
    let fails = |id: &str| {
        let milder = MILDER.iter().find(|(milder, _)| *milder == id);
        milder.map_or("failed", |(_, status)| status)
    };
    let wanted = ALL.iter().flat_map(|check| {
        let fails = fails(check.id);
        [
            format!("{} passed", check.id),
            format!("{} {fails}", check.id),
        ]
    });
    let missing: Vec<_> = wanted
        .filter(|line| !seen.contains(line.as_str()))
        .collect();
    assert!(missing.is_empty(), "no test sees: {missing:?}");
    assert!(ALL.len() - MILDER.len() >= 35);
}

/// The trial's record itself has the kernel that ran.
#[test]
fn no_check_of_arms_passes_without_facts() {
    let run = whole().run();
    let judgement = judged(&run);
    let of_arms = ALL.iter().filter(|check| check.group == Group::Arms);
    for check in of_arms.filter(|check| check.id != "kernel-that-ran") {
        if !check.is_of_plan() {
            let subject = Subject {
                run: &run,
                judgement: &judgement,
            };
            let result = check.judge.of(&subject);
            assert!(is_unknown(&result), "{}", check.id);
        }
    }
}

#[test]
fn a_failed_check_can_be_accepted_with_a_reason() {
    let run = whole()
        .with(|run| run.plan.arms[1].cmdline = "quiet".into())
        .run();
    let judgement = judged(&run);
    let result = |accepted: &[(&str, &str)]| {
        let pairs = accepted
            .iter()
            .map(|(id, why)| ((*id).to_string(), (*why).to_string()));
        let findings = crate::topics::fairness::of_run(&run, &judgement, &pairs.collect());
        let found = findings
            .into_iter()
            .find(|result| result.id == "one-sided-tuning");
        found.map(|result| result.outcome)
    };
    assert!(is_failed(&result(&[]).unwrap()));
    let accepted = result(&[("one-sided-tuning", "asked for by the vendor")]).unwrap();
    assert!(
        format!("{accepted:?}").contains("asked for by the vendor"),
        "{accepted:?}"
    );
    assert!(is_accepted(&accepted));
}

/// The result of a check for two kernels under a mode, if the first difference has this pin.
fn under(mode: Option<plan::Mode>, id: &str, fact: &str, pin: Option<Pin>) -> Outcome {
    let other = |run: &mut Run| run.plan.arms[1].kernel = KernelRef::path("new");
    let run = two_arms(fact, ["60", "10"]).with(other).run();
    let mut judgement = judged(&run);
    judgement.differences[0].pin = pin;
    let mut run = run;
    run.plan.mode = mode;
    outcome_of(crate::topics::fairness::find(id).unwrap(), &run, &judgement)
}

fn swappiness() -> Pin {
    Pin::Sysctl {
        name: "vm.swappiness".into(),
        value: "60".into(),
    }
}

#[test]
fn the_mode_decides_about_differences_that_come_with_kernels() {
    let sysctl = |mode, pin| under(mode, "sysctls", "sysctl vm.swappiness", pin);
    let by = |outcome: &Outcome| match outcome {
        Outcome::Accepted { by, .. } => Some(by.clone()),
        _ => None,
    };
    assert_eq!(
        by(&sysctl(None, Some(swappiness()))),
        Some(AcceptedBy::Kernel)
    );
    let as_shipped = sysctl(Some(plan::Mode::AsShipped), Some(swappiness()));
    assert_eq!(by(&as_shipped), Some(AcceptedBy::AsShipped));
    let controlled = Some(plan::Mode::Controlled);
    let Outcome::Failed { details } = sysctl(controlled, Some(swappiness())) else {
        panic!("what can be pinned is not accepted");
    };
    assert!(
        matches!(details[..], [Detail::Pinnable { .. }]),
        "{details:?}"
    );
    assert!(details[0].concerns("web", "7.2", "6.1"));
    let Outcome::Accepted { by, details } = sysctl(controlled, None) else {
        panic!("what cannot be pinned is accepted");
    };
    assert_eq!(by, AcceptedBy::NotPinnable);
    let fixed = Detail::NotPinnable {
        class: Class::Unclassified,
        facts: 1,
        why: Unpinnable::Fixed,
    };
    assert_eq!(details, [fixed]);
}

#[test]
fn settings_in_effect_are_pinned_by_the_checks_of_their_facts() {
    let controlled = |id: &str, fact: &str, setting: EffectiveSetting| {
        let other = |run: &mut Run| run.plan.arms[1].kernel = KernelRef::path("new");
        let mut run = two_arms(fact, ["one", "other"]).with(other).run();
        run.plan.mode = Some(plan::Mode::Controlled);
        let mut judgement = judged(&run);
        judgement.weighed.settings = vec![Effective {
            setting,
            values: [("6.1".into(), Some("one".into()))].into(),
            varying: BTreeMap::new(),
            pin: Some(swappiness()),
        }];
        outcome_of(crate::topics::fairness::find(id).unwrap(), &run, &judgement)
    };
    let huge = "/sys/kernel/mm/transparent_hugepage/enabled";
    assert!(is_failed(&controlled(
        "huge-pages",
        huge,
        EffectiveSetting::HugePages
    )));
    let config = |setting| controlled("kernel-configuration", "CONFIG_HZ", setting);
    assert!(is_failed(&config(EffectiveSetting::Preemption)));
    assert!(is_accepted(&config(EffectiveSetting::HugePages)));
    let lsm = "/sys/kernel/security/lsm";
    assert!(is_failed(&controlled(
        "security-modules",
        lsm,
        EffectiveSetting::SecurityModules
    )));
    let cpu = "/sys/devices/system/cpu/vulnerabilities/meltdown";
    assert!(is_failed(&controlled(
        "mitigations",
        cpu,
        EffectiveSetting::Mitigations
    )));
}

#[test]
fn without_another_kernel_no_mode_accepts_a_difference() {
    let run = two_arms("sysctl vm.swappiness", ["60", "10"]).with(one_kernel);
    let run = run
        .with(|run| run.plan.mode = Some(plan::Mode::AsShipped))
        .run();
    assert!(is_failed(&outcome(
        crate::topics::fairness::find("sysctls").unwrap(),
        &run
    )));
}

#[test]
fn sizes_come_with_the_kernels_only_if_memory_is_equal() {
    let accepted_by = |kilobytes: &str| {
        let whole = |swappiness: &str, memory: &str| {
            let mut facts = facts("sysctl vm.swappiness", swappiness);
            let total = ("/proc/meminfo:MemTotal".to_string(), format!("{memory} kB"));
            facts.values.extend([total]);
            facts
        };
        let run = empty()
            .observed(1, "6.1", whole("60", "995604"))
            .observed(1, "7.2", whole("10", kilobytes))
            .run();
        let findings = crate::topics::fairness::of_run(&run, &judged(&run), &BTreeMap::new());
        let found = findings.into_iter().find(|result| result.id == "sysctls");
        match found.unwrap().outcome {
            Outcome::Accepted { by, .. } => by,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(accepted_by("995608"), AcceptedBy::Kernel);
    assert_eq!(accepted_by("480416"), AcceptedBy::KernelOrMemory);
}
