//! The full disclosure in words: groups of rows, the same in all forms of the report.

use std::collections::BTreeSet;
use std::time::Duration;

use base::input::units::{show_bytes, show_duration, show_share};
use plan::MachineKind;
use plan::setting::{ArmSetting, SettingKind};
use record::rundir::Run;
use record::verdict::Judgement;
use record::verdict::disclosure::{ArmTuning, Disclosure, Fact, Item, Rules, Side, Statement};
use record::verdict::fairness::{AcceptedBy, Outcome};
use record::verdict::finding::{Finding, Kind, Severity};
use serde_json::Value;

use crate::topics::disclosure::find as disclosure;
use crate::topics::host::tell as machine;
use crate::words::counted;

/// The section's title.
pub(crate) const TITLE: &str = "Full disclosure";

/// Printed if the plan states nothing.
const NOT_STATED: &str = "not stated";

/// Printed if no fact is recorded.
const NOT_KNOWN: &str = "not known";

/// Characters of one value.
const VALUE: usize = 240;

/// Rows of one kind.
pub(crate) struct Group {
    pub(crate) title: &'static str,
    pub(crate) rows: Vec<Row>,
}

/// A disclosed property: a line for each value.
pub(crate) struct Row {
    pub(crate) label: String,
    pub(crate) lines: Vec<String>,
    /// Whether the lines are hashes.
    pub(crate) is_hash: bool,
}

/// All groups.
pub(crate) fn groups(run: &Run, judgement: &Judgement) -> Vec<Group> {
    let disclosure = disclosure::of(run);
    let kind = run.plan.machine.kind;
    let (hashes, software): (Vec<&Fact>, Vec<&Fact>) = disclosure
        .software
        .iter()
        .partition(|fact| is_hash(fact.item));
    let hardware: Vec<&Fact> = disclosure.hardware.iter().collect();
    let mut hardware_rows = vec![row("machine", machine::machine(&disclosure.machine))];
    hardware_rows.extend(facts(kind, &hardware));
    let group = |title, rows| Group { title, rows };
    vec![
        group("Test", statement(&disclosure.statement)),
        group("Hardware", hardware_rows),
        group("Software", facts(kind, &software)),
        group("Tuning", tuning(&disclosure)),
        group("Workloads", workloads(&disclosure)),
        group("Rules", rules(&disclosure.rules, crate::words::mode(run))),
        group("Deviations", deviations(run, judgement)),
        group("SHA-256", sums(&disclosure, kind, &hashes)),
        group("To run it again", again()),
    ]
}

/// Where to find it, and its first row.
pub(crate) fn pointer(run: &Run) -> String {
    let stated = run.plan.disclosure.tested_by.as_deref();
    format!(
        "full disclosure: in report.html and report.md (tested by: {})",
        stated.unwrap_or(NOT_STATED)
    )
}

fn row(label: impl Into<String>, line: impl Into<String>) -> Row {
    Row {
        label: label.into(),
        lines: vec![line.into()],
        is_hash: false,
    }
}

fn statement(statement: &Statement) -> Vec<Row> {
    let stated = |text: &Option<String>| text.clone().unwrap_or(NOT_STATED.into());
    let at = |text: &Option<String>| {
        let text = text.as_deref().filter(|text| !text.is_empty());
        let minute = text.map(|text| text.chars().take(16).collect::<String>().replace('T', " "));
        minute.unwrap_or(NOT_KNOWN.into())
    };
    let mut rows = vec![
        row("tested by", stated(&statement.tested_by)),
        row("paid for by", stated(&statement.sponsor)),
        row("availability", stated(&statement.availability)),
        row(
            "measured",
            format!("{} to {}, UTC", at(&statement.began), at(&statement.ended)),
        ),
    ];
    rows.extend(statement.note.iter().map(|note| row("note", note)));
    rows
}

/// Facts by item; unknown ones in one row at the end.
fn facts(kind: MachineKind, facts: &[&Fact]) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut unknown: Vec<String> = Vec::new();
    let is_same_item =
        |a: &&Fact, b: &&Fact| (a.side, a.item, &a.name) == (b.side, b.item, &b.name);
    for properties in facts.chunk_by(is_same_item) {
        let label = label(kind, properties[0]);
        if properties.iter().all(|fact| fact.is_unknown()) {
            unknown.push(label);
            continue;
        }
        let lines = lines(properties);
        rows.push(Row {
            label,
            lines,
            is_hash: is_hash(properties[0].item),
        });
    }
    if !unknown.is_empty() {
        rows.push(row(NOT_KNOWN, unknown.join(", ")));
    }
    rows
}

/// A line for each value; with the arms' names if there are several.
fn lines(facts: &[&Fact]) -> Vec<String> {
    let mut arms: Vec<&String> = Vec::new();
    for arm in facts
        .iter()
        .flat_map(|fact| &fact.values)
        .flat_map(|value| &value.arms)
    {
        if !arms.contains(&arm) {
            arms.push(arm);
        }
    }
    let mut all: Vec<(Vec<&str>, String)> = Vec::new();
    for arm in arms {
        let pieces = facts.iter().map(|fact| piece(fact, arm));
        let text = pieces.collect::<Vec<_>>().join(", ");
        match all.iter_mut().find(|(_, line)| *line == text) {
            Some((names, _)) => names.push(arm),
            None => all.push((vec![arm], text)),
        }
    }
    if let [(_, text)] = all.as_slice() {
        return vec![text.clone()];
    }
    let line = |(arms, text): (Vec<&str>, String)| format!("{}: {text}", arms.join(", "));
    all.into_iter().map(line).collect()
}

/// One property, as an arm's trials recorded it.
fn piece(fact: &Fact, arm: &str) -> String {
    let of_arm = fact
        .values
        .iter()
        .filter(|recorded| recorded.arms.iter().any(|name| name == arm));
    let values: Vec<String> = of_arm
        .map(|recorded| {
            recorded
                .value
                .as_deref()
                .map_or(NOT_KNOWN.into(), |value| of_item(fact.item, value))
        })
        .collect();
    let text = values.join(" or ");
    match (fact.property.as_str(), fact.item) {
        ("", _) => text,
        ("sockets" | "cores" | "threads", _) if text != NOT_KNOWN => {
            let noun = match (fact.property.as_str(), text.as_str()) {
                ("threads", "1") => "hardware thread",
                ("threads", _) => "hardware threads",
                (nouns, "1") => nouns.trim_end_matches('s'),
                (nouns, _) => nouns,
            };
            format!("{text} {noun}")
        }
        (property, _) => format!("{property} {text}"),
    }
}

/// A value of an item in words.
fn of_item(item: Item, value: &str) -> String {
    match item {
        Item::Numa => numa(value),
        Item::Smt => smt(value),
        _ => shown(value),
    }
}

/// Nodes with their number: `2 (node0 CPUs 0-3, node1 CPUs 4-7)`; of a list of numbers as the kernel writes it, `2 (nodes 0-1)`.
fn numa(value: &str) -> String {
    if value.starts_with("node") {
        let count = value.matches("node").count();
        return format!("{count} ({})", shown(value));
    }
    let range = |range: &str| -> Option<u32> {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let [first, last] = [first, last].map(|end| end.trim().parse::<u32>().ok());
        Some(last?.checked_sub(first?)? + 1)
    };
    let count: Option<u32> = value.split(',').map(range).sum();
    match count {
        Some(1) => format!("1 (node {})", shown(value)),
        Some(count) => format!("{count} (nodes {})", shown(value)),
        None => shown(value),
    }
}

/// What `/sys/devices/system/cpu/smt/control` says, in words.
fn smt(value: &str) -> String {
    let text = match value.trim() {
        "on" => "on",
        "off" => "off (it can be switched on)",
        "forceoff" => "off until the next boot",
        "notsupported" => "not supported by the CPU",
        "notimplemented" => "not implemented by the kernel",
        other => return shown(other),
    };
    text.into()
}

/// A value on one line, not too long; kilobytes as sizes.
fn shown(value: &str) -> String {
    let kilobytes = value
        .strip_suffix(" kB")
        .and_then(|text| text.parse::<u64>().ok());
    if let Some(kilobytes) = kilobytes {
        return show_bytes(kilobytes << 10);
    }
    if value.is_empty() {
        return "none".into();
    }
    let line = value.split_whitespace().collect::<Vec<_>>().join(" ");
    let text: String = line.chars().take(VALUE).collect();
    let cut = if text.len() < line.len() { "..." } else { "" };
    format!("{text}{cut}")
}

/// The name of an arm's machine.
fn system(kind: MachineKind) -> &'static str {
    match kind {
        MachineKind::Qemu => "guest",
        MachineKind::Local => "host",
        MachineKind::Ssh => "box",
        MachineKind::Url => "system",
    }
}

fn label(kind: MachineKind, fact: &Fact) -> String {
    let side = match (fact.side, kind) {
        (Side::Whole, _) => "",
        (Side::Host, MachineKind::Url) => "clients' host: ",
        (Side::Host, _) => "host: ",
        (Side::System, _) if is_software(fact.item) => "",
        (Side::System, kind) => match system(kind) {
            "guest" => "guest: ",
            "host" => "host: ",
            "box" => "box: ",
            _ => "system: ",
        },
    };
    let item = item(fact.item);
    match fact.name.as_str() {
        "" => format!("{side}{item}"),
        name => format!("{side}{item} {name}"),
    }
}

fn is_hash(item: Item) -> bool {
    matches!(
        item,
        Item::UserLandHash | Item::ServerHash | Item::ConfigurationHash
    )
}

fn is_software(item: Item) -> bool {
    use Item::{
        Bakeoff, CommandLine, Compiler, ConfigurationHash, Image, Java, Kernel, KernelSource,
        Server, ServerHash, UserLand, UserLandHash,
    };
    matches!(
        item,
        Kernel
            | Compiler
            | KernelSource
            | CommandLine
            | UserLand
            | UserLandHash
            | Image
            | Server
            | Java
            | ServerHash
            | ConfigurationHash
            | Bakeoff
    )
}

fn item(item: Item) -> &'static str {
    match item {
        Item::Product => "product",
        Item::Firmware => "firmware",
        Item::Cpu => "CPU",
        Item::CpuTopology | Item::Cpus => "CPUs",
        Item::Caches => "caches",
        Item::Frequency => "CPU frequency",
        Item::Microcode => "microcode",
        Item::Smt => "SMT",
        Item::Numa => "NUMA nodes",
        Item::Memory => "memory",
        Item::Disk => "disk",
        Item::NetworkCard => "network card",
        Item::Kernel => "kernel",
        Item::Compiler => "kernel built by",
        Item::KernelSource => "kernel from",
        Item::CommandLine => "command line as booted",
        Item::UserLand => "user land",
        Item::UserLandHash => "user land's packages",
        Item::Image => "image recipe",
        Item::Server => "server",
        Item::Java => "Java",
        Item::ServerHash => "program",
        Item::ConfigurationHash => "configuration",
        Item::Evidence => "evidence",
        Item::Bakeoff => "bakeoff",
    }
}

fn tuning(disclosure: &Disclosure) -> Vec<Row> {
    let mut rows: Vec<Row> = disclosure.tuning.iter().map(of_arm).collect();
    let untuned: Vec<&str> = disclosure
        .untuned
        .iter()
        .map(|kind| kind.traits().plural)
        .collect();
    if !untuned.is_empty() {
        let text = format!(
            "{} (defaults of kernels, packages and bakeoff, in all arms)",
            untuned.join(", ")
        );
        rows.push(row("not tuned in any arm", text));
    }
    rows
}

fn of_arm(tuning: &ArmTuning) -> Row {
    let changes: Vec<String> = tuning.changes.iter().map(change).collect();
    let changes = match changes.as_slice() {
        [] => "changes nothing".into(),
        changes => changes.join("; "),
    };
    let by = tuning.tuned_by.as_deref().unwrap_or(NOT_STATED);
    let reason = tuning.reason.as_deref().unwrap_or(NOT_STATED);
    let author = match (&tuning.tuned_by, &tuning.reason) {
        (None, None) => format!("by whom and why: {NOT_STATED}"),
        _ => format!("by {by}; reason: {reason}"),
    };
    Row {
        label: format!("arm {}", tuning.arm),
        lines: vec![changes, author],
        is_hash: false,
    }
}

/// A setting of an arm.
pub(crate) fn change(change: &ArmSetting) -> String {
    let (name, value) = (&change.name, shown(&change.value));
    match (change.kind, name.as_str()) {
        (SettingKind::Injected, "slowdown") => {
            let share = change.value.parse().map(|share: f64| show_share(share, 3));
            change.show(&share.unwrap_or(value))
        }
        (SettingKind::Injected, "period") => format!("injected every {value}"),
        (SettingKind::Injected, name) => format!("injected cost {value} instructions in {name}"),
        _ => change.show(&value),
    }
}

fn workloads(disclosure: &Disclosure) -> Vec<Row> {
    let row_of = |workload: &record::verdict::disclosure::WorkloadOptions| {
        let mut options = Vec::new();
        flatten("", &workload.options, &mut options);
        // The kind may be among the options.
        options.retain(|option| *option != format!("kind {}", workload.kind));
        let options = options.join(", ");
        row(
            workload.id.clone(),
            format!("{}: {}", workload.kind, shown_long(&options)),
        )
    };
    disclosure.workloads.iter().map(row_of).collect()
}

/// Characters of all options of a workload.
const OPTIONS: usize = 700;

fn shown_long(options: &str) -> String {
    if options.is_empty() {
        return NOT_KNOWN.into();
    }
    let text: String = options.chars().take(OPTIONS).collect();
    let cut = if text.len() < options.len() {
        "... (the plan has all)"
    } else {
        ""
    };
    format!("{text}{cut}")
}

/// Options by name, `window 2s`; without those that are not set.
fn flatten(name: &str, value: &Value, into: &mut Vec<String>) {
    if let Some(time) = duration(value) {
        into.push(format!("{name} {}", show_duration(time)));
        return;
    }
    if let (Some(name), Some(ns)) = (name.strip_suffix(" ns"), value.as_u64()) {
        into.push(format!(
            "{name} {}",
            show_duration(Duration::from_nanos(ns))
        ));
        return;
    }
    if let (Some(name), Some(bytes)) = (name.strip_suffix(" bytes"), value.as_u64()) {
        into.push(format!("{name} {}", show_bytes(bytes)));
        return;
    }
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            for (key, value) in fields {
                let key = key.replace('_', " ");
                let path = match name {
                    "" => key,
                    name => format!("{name} {key}"),
                };
                flatten(&path, value, into);
            }
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(plain).collect();
            into.push(format!("{name} [{}]", items.join(", ")));
        }
        value => into.push(format!("{name} {}", plain(value))),
    }
}

fn plain(value: &Value) -> String {
    match (value, duration(value)) {
        (_, Some(time)) => show_duration(time),
        (Value::String(text), _) => shown(text),
        (value, _) => shown(&value.to_string()),
    }
}

/// Durations are written as seconds and nanoseconds.
fn duration(value: &Value) -> Option<Duration> {
    let fields = value.as_object().filter(|fields| fields.len() == 2)?;
    let seconds = fields.get("secs")?.as_u64()?;
    let nanos = u32::try_from(fields.get("nanos")?.as_u64()?).ok()?;
    Some(Duration::new(seconds, nanos))
}

fn rules(rules: &Rules, mode: &str) -> Vec<Row> {
    vec![
        row("question", mode),
        row(
            "order",
            format!(
                "each block runs every arm once, back to back, in an order drawn from seed {}",
                rules.seed
            ),
        ),
        row(
            "blocks",
            format!(
                "{} run; the plan sets at least {} and at most {}; {} during the run",
                rules.blocks,
                rules.min_blocks,
                rules.max_blocks,
                counted(rules.interim_analyses, "interim analysis")
            ),
        ),
        row(
            "decision",
            format!(
                "margin {} and error rate {}, fixed before the first trial{}; the warm-up is an option of each workload",
                show_share(rules.margin, 6),
                show_share(rules.planned_error_rate, 3),
                extended(rules)
            ),
        ),
    ]
}

/// How added blocks raised the fixed error rate.
fn extended(rules: &Rules) -> String {
    if rules.extensions == 0 {
        return String::new();
    }
    format!(
        "; blocks were added {}, which raised the error rate to at most {}",
        counted(rules.extensions, "time"),
        show_share(rules.error_rate, 3)
    )
}

/// Deviations from the plan, and failed fairness checks.
fn deviations(run: &Run, judgement: &Judgement) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut unanswered = Vec::new();
    for check in &judgement.fairness {
        match &check.outcome {
            Outcome::Failed { .. } => {
                rows.push(row(
                    "failed fairness check",
                    format!("{}: the headline is withheld", check.id),
                ));
            }
            Outcome::Accepted {
                by: AcceptedBy::User(reason),
                ..
            } => rows.push(row(
                "accepted fairness check",
                format!("{}: {reason}", check.id),
            )),
            Outcome::Unknown { .. } => unanswered.push(check.id.as_str()),
            Outcome::Passed | Outcome::NotApplicable | Outcome::Accepted { .. } => {}
        }
    }
    if !unanswered.is_empty() {
        rows.push(row("checks without an answer", unanswered.join(", ")));
    }
    for extension in disclosure::extensions(run) {
        rows.push(row(
            "extended",
            format!(
                "undecided after block {}, then at most {}; error rate {}",
                extension.from,
                extension.to,
                show_share(extension.error_rate, 3)
            ),
        ));
    }
    rows.extend(judgement.findings.iter().filter_map(deviation));
    let resumptions = disclosure::resumptions(run);
    if !resumptions.is_empty() {
        let times = counted(resumptions.len() as u32, "time");
        let versions: BTreeSet<&str> = resumptions.into_iter().collect();
        let versions: Vec<&str> = versions.into_iter().collect();
        rows.push(row(
            "interrupted",
            format!("resumed {times}, by bakeoff {}", versions.join(", ")),
        ));
    }
    let warnings = judgement.findings.iter();
    let warnings = warnings.filter(|finding| finding.severity() == Severity::Warning);
    let warnings = warnings.count() as u32;
    if warnings > 0 {
        let warnings = counted(warnings, "warning");
        rows.push(row("warnings", format!("{warnings}, listed above")));
    }
    if run.closed().is_none() {
        rows.push(row("unfinished", "the run is not finished"));
    }
    if rows.is_empty() {
        rows.push(row(
            "none",
            "the run went as planned, and no fairness check failed",
        ));
    }
    rows
}

/// The row of a finding that is a deviation by itself.
fn deviation(finding: &Finding) -> Option<Row> {
    let Finding {
        workload,
        arm,
        kind,
    } = finding;
    match kind {
        Kind::DisturbedBlocks { blocks } => {
            let mut numbers = Vec::new();
            for block in blocks {
                let number = block.block.to_string();
                numbers.extend(vec![number; block.disturbances.len()]);
            }
            Some(row(
                "blocks run again",
                format!("{workload}: disturbed: {}", numbers.join(", ")),
            ))
        }
        Kind::FailedTrials {
            failed, attempts, ..
        } => Some(row(
            "failed trials",
            format!("{workload}, arm {arm}: {failed} of {attempts}, listed in the report"),
        )),
        Kind::MissingEvidence { files } => {
            let attempts = files.iter().flat_map(|files| &files.attempts);
            let attempts: BTreeSet<&str> = attempts.map(String::as_str).collect();
            let attempts: Vec<&str> = attempts.into_iter().collect();
            Some(row("lost evidence", attempts.join(", ")))
        }
        _ => None,
    }
}

fn sums(disclosure: &Disclosure, kind: MachineKind, hashes: &[&Fact]) -> Vec<Row> {
    let text = |hash: &Option<String>| hash.clone().unwrap_or(NOT_KNOWN.into());
    let sum = |label: String, hash: &str| Row {
        is_hash: true,
        ..row(label, hash)
    };
    let (keys, files): (Vec<_>, Vec<_>) = disclosure
        .hashes
        .iter()
        .partition(|(name, _)| is_cache_key(name));
    let files = files.into_iter();
    let mut rows: Vec<Row> = files
        .map(|(name, hash)| sum(name.clone(), &text(hash)))
        .collect();
    rows.extend(facts(kind, hashes));
    // Arms of one kernel together.
    let mut by_key: Vec<(String, Vec<&str>)> = Vec::new();
    for (name, hash) in &keys {
        let key = text(hash);
        match by_key.iter_mut().find(|(other, _)| *other == key) {
            Some((_, names)) => names.push(name),
            None => by_key.push((key, vec![name])),
        }
    }
    rows.extend(by_key.iter().map(|(key, names)| sum(key_label(names), key)));
    if !keys.is_empty() {
        rows.push(row(
            "cache keys",
            "hashes of the sources of a kernel or image, not of a file",
        ));
    }
    rows
}

/// Whether an input is identified by its key in bakeoff's cache: a hash of its packages, not of a file.
fn is_cache_key(name: &str) -> bool {
    name == "image" || name.starts_with("kernel of ")
}

/// `cache key of the kernel of arms 6.1, 7.2`.
fn key_label(names: &[&str]) -> String {
    let arms: Vec<&str> = names
        .iter()
        .filter_map(|name| name.strip_prefix("kernel of arm "))
        .collect();
    match arms.as_slice() {
        [] => format!("cache key of the {}", names.join(", ")),
        [arm] => format!("cache key of the kernel of arm {arm}"),
        arms => format!("cache key of the kernel of arms {}", arms.join(", ")),
    }
}

fn again() -> Vec<Row> {
    vec![
        row(
            "one command",
            "bakeoff run plan.toml --out DIR, with plan.toml of the run directory",
        ),
        row(
            "the same figures",
            "bakeoff show RUN: the journal names each trial's record by its SHA-256",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use record::fixtures::builder::RunBuilder;
    use record::journal::{Entry, Event};
    use record::verdict::fairness::CheckResult;

    use super::*;
    use crate::topics::fairness::tests::judged;

    #[test]
    fn an_interruption_and_an_accepted_check_are_deviations() {
        let run = RunBuilder::new().with(|run| {
            let event = Event::Resumed {
                bakeoff: "0.1.0".into(),
            };
            let at = String::new();
            run.entries.push(Entry { at, event });
        });
        let run = run.run();
        let mut judgement = judged(&run);
        judgement.fairness = vec![CheckResult {
            id: "memory".into(),
            outcome: Outcome::Accepted {
                by: AcceptedBy::User("one box".into()),
                details: Vec::new(),
            },
        }];
        judgement.findings.clear();
        let rows = deviations(&run, &judgement);
        let labels: Vec<&str> = rows.iter().map(|row| &*row.label).collect();
        assert_eq!(
            labels,
            ["accepted fairness check", "interrupted", "unfinished"]
        );
        assert_eq!(rows[0].lines, ["memory: one box"]);
        assert_eq!(rows[1].lines, ["resumed 1 time, by bakeoff 0.1.0"]);
    }

    #[test]
    fn nodes_are_counted_and_smt_is_in_words() {
        let texts = ["0", "0-1", "0,2-3", "node0 CPUs 0-3, node1 CPUs 4-7"].map(numa);
        assert_eq!(
            texts,
            [
                "1 (node 0)",
                "2 (nodes 0-1)",
                "3 (nodes 0,2-3)",
                "2 (node0 CPUs 0-3, node1 CPUs 4-7)"
            ]
        );
        assert_eq!(smt("notsupported"), "not supported by the CPU");
    }

    #[test]
    fn a_raised_error_rate_is_printed_beside_the_fixed_one() {
        let mut plan = Rules {
            mode: None,
            blocks: 6,
            min_blocks: 4,
            max_blocks: 6,
            interim_analyses: 3,
            margin: 0.133,
            error_rate: 0.05,
            planned_error_rate: 0.05,
            extensions: 0,
            seed: 1,
        };
        let decision = |plan: &Rules| rules(plan, "").pop().map(|row| row.lines.concat());
        let fixed = "margin 13.3 % and error rate 5 %, fixed before the first trial";
        let warm_up = "; the warm-up is an option of each workload";
        assert_eq!(decision(&plan), Some(format!("{fixed}{warm_up}")));
        (plan.error_rate, plan.extensions) = (0.09, 2);
        let more = "; blocks were added 2 times, which raised the error rate to at most 9 %";
        assert_eq!(decision(&plan), Some(format!("{fixed}{more}{warm_up}")));
    }

    #[test]
    fn keys_of_the_cache_are_not_called_hashes_of_files() {
        assert!(is_cache_key("image") && is_cache_key("kernel of arm 6.1"));
        assert!(!is_cache_key("plan") && !is_cache_key("bakeoff's binary"));
        let names = ["kernel of arm 6.1", "kernel of arm 7.2"];
        assert_eq!(
            key_label(&names),
            "cache key of the kernel of arms 6.1, 7.2"
        );
        assert_eq!(key_label(&["image"]), "cache key of the image");
    }
}
