//! Every key that is printed as JSON is documented in docs/reference/json.md.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use bakeoff::json_lines;
use machine::fake::Behaviour;
use record::bisect::{Bisection, Conclusion, Evidence, SeriesResult, Version};
use record::defect::{DefectSource, FoundDefect, Kind, Severity, When};
use record::journal;
use record::journal::{Entry, Event};
use record::load_path::{Ceiling, CeilingOutcome, ClientUnit, OneFewer, OneFewerOutcome};
use record::metric::{Direction, MetricSpec, Role};
use record::models::{ModelRow, ModelVerdict, Models, Standing};
use record::node::Node;
use record::trial::Trial;
use record::verdict::defects::{ArmDefect, FirstReport, Side, Sides};
use record::verdict::{Judgement, Verdict};
use serde_json::{Value, json};

use crate::fairness_command::one_sided_plan;
use crate::profiled_lab;
use crate::program::bakeoff;
use crate::simulated_lab::{World, disturbed_world, judged, load_run, undecided};

const RUN: &str = "## `bakeoff run --json`";
const RUN_DIRECTORY: &str = "## `bakeoff show RUN --json`";
const INDEX: &str = "## `bakeoff show NIGHT --json`";
const LIST: &str = "## `bakeoff list --json`";
const CHECKS: &str = "## `bakeoff show --checks --json`";
const FINDINGS: &str = "## `bakeoff show RUN --fairness --json`";
const BISECTION: &str = "## `bakeoff bisect --json`";
const SERIES: &str = "## `bakeoff bisect --series --json`";
const FIGURES: &str = "## `bakeoff judge FILE... --json`";

/// The keys that a section documents.
fn documented(section: &str) -> BTreeSet<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/json.md");
    let page = fs::read_to_string(page).unwrap();
    let lines = page.lines().skip_while(|line| *line != section).skip(1);
    let lines = lines.take_while(|line| !line.starts_with("## "));
    let keys = lines.filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let keys: BTreeSet<String> = keys.map(String::from).collect();
    assert!(
        keys.len() > 5,
        "docs/reference/json.md has no section {section}"
    );
    keys
}

/// Whether a documented key covers the path of a value: `*` stands for any name, and at the end for
/// everything below.
fn covers(key: &str, path: &[String]) -> bool {
    let key: Vec<&str> = key.split('.').collect();
    let is_same = key
        .iter()
        .zip(path)
        .all(|(part, name)| *part == "*" || part == name);
    let is_open = key.last() == Some(&"*") && key.len() <= path.len();
    is_same && (key.len() == path.len() || is_open)
}

/// Collects the paths of all values: names, with `[]` for elements of arrays.
fn collect_paths(value: &Value, path: &[String], found: &mut BTreeSet<Vec<String>>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                collect_paths(value, &[path, std::slice::from_ref(name)].concat(), found);
            }
        }
        Value::Array(elements) => {
            let mut path = path.to_vec();
            path.last_mut().unwrap().push_str("[]");
            for element in elements {
                collect_paths(element, &path, found);
            }
        }
        _ => drop(found.insert(path.to_vec())),
    }
}

/// Checks that all keys of a value are in a section of the page, and adds them to `seen`.
fn check(value: &Value, section: &str, seen: &mut BTreeSet<String>) {
    let keys = documented(section);
    let mut paths = BTreeSet::new();
    collect_paths(value, &[], &mut paths);
    for path in paths {
        let mut covering = keys.iter().filter(|key| covers(key, &path)).peekable();
        assert!(
            covering.peek().is_some(),
            "not in docs/reference/json.md under {section}: {}",
            path.join(".")
        );
        seen.extend(covering.cloned());
    }
}

/// Checks a line of `run --json`, and returns its kind.
pub(crate) fn check_line(line: &Value, seen: &mut BTreeSet<String>) -> String {
    assert_eq!(line["version"], json_lines::VERSION, "{line}");
    let mut line = line.clone();
    if let Some(judgement) = line.get_mut("judgement") {
        assert_eq!(judgement["version"], judge::report::JSON_VERSION);
        check(&judgement.take(), RUN_DIRECTORY, &mut BTreeSet::new());
    }
    check(&line, RUN, seen);
    line["kind"].as_str().unwrap().into()
}

/// Runs of simulated labs that together have nearly every event of a journal.
fn runs_with_all_events() -> Vec<tempfile::TempDir> {
    let dirs = [(); 5].map(|()| tempfile::tempdir().unwrap());
    let [extended, disturbed, failed, broken, profiled] = &dirs;
    profiled_lab::run(
        &profiled_lab::world_with_why(1.1, &[]),
        profiled.path(),
        |_| false,
    );
    undecided(extended.path())
        .run(extended.path(), |_| false)
        .unwrap();
    disturbed_world(&[4])
        .run(disturbed.path(), |_| false)
        .unwrap();
    let world = World::new(1.0, 0.001, &[Behaviour::Panics; 100]);
    world.run(failed.path(), |_| false).unwrap();
    let world = World::new(1.1, 0.002, &[]);
    world.run(broken.path(), |entries| entries == 5).unwrap();
    world.run(broken.path(), |_| false).unwrap();
    dirs.into()
}

/// Simulated machines have no null server, so no journal here has a ceiling.
fn ceiling() -> Entry {
    let outcome = CeilingOutcome::Measured(Ceiling {
        requests_per_s: 1.0,
        body_bytes_per_s: 1.0,
        window_ns: 1,
        client_busy: 0.5,
        client_waited: 0.1,
        cpu_idle: 0.5,
        is_shared: true,
        cpu_ns_per_request: Some(1.0),
    });
    Entry {
        at: "2026-01-01T00:00:00Z".into(),
        event: Event::Ceiling {
            workload: "web".into(),
            cpus: None,
            outcome,
        },
    }
}

fn one_fewer() -> Entry {
    let outcome = OneFewerOutcome::Measured(OneFewer {
        unit: ClientUnit::Host,
        left: 1,
        metric: "throughput".into(),
        metric_unit: "requests/s".into(),
        value: 1.0,
    });
    Entry {
        at: "2026-01-01T00:00:00Z".into(),
        event: Event::OneFewer {
            workload: "web".into(),
            arm: "old".into(),
            outcome,
        },
    }
}

/// A block that started on one node and ended on another.
fn merged() -> Entry {
    let node = Node {
        name: "n2".into(),
        hostname: "rack7".into(),
        cpu_model: None,
        cpus: 2,
    };
    Entry {
        at: "2026-01-01T00:00:00Z".into(),
        event: Event::Merged {
            block: 1,
            node,
            given_up_on: vec!["n1".into()],
        },
    }
}

#[test]
fn every_key_of_an_event_is_documented_and_every_documented_key_is_printed() {
    let mut seen = BTreeSet::new();
    for dir in runs_with_all_events() {
        let entries = journal::read(dir.path()).unwrap();
        for entry in entries
            .into_iter()
            .chain([ceiling(), one_fewer(), merged()])
        {
            assert_eq!(
                check_line(&json_lines::event(&entry, None), &mut seen),
                "event"
            );
        }
    }
    let events = documented(RUN)
        .into_iter()
        .filter(|key| key.starts_with("event."));
    let never: Vec<String> = events.filter(|key| !seen.contains(key)).collect();
    assert_eq!(never, Vec::<String>::new(), "documented, and never printed");
}

#[test]
fn every_key_of_failed_checks_and_of_checks_is_documented() {
    let dir = tempfile::tempdir().unwrap();
    run_unfair_plan(&dir.path().join("run"));
    let findings = judged(&dir.path().join("run")).fairness;
    let failed_checks: Vec<_> = record::verdict::fairness::failed(&findings)
        .cloned()
        .collect();
    assert_ne!(failed_checks, []);
    let line = json_lines::failed_checks(1, 4, &failed_checks, None);
    assert_eq!(check_line(&line, &mut BTreeSet::new()), "failed-checks");
    let printed = |args: &[&str]| -> Value {
        serde_json::from_slice(&bakeoff(dir.path(), args).stdout).unwrap()
    };
    let mut seen = BTreeSet::new();
    let list = printed(&["show", "--checks", "--json"]);
    check(&list, CHECKS, &mut seen);
    assert_eq!(seen, documented(CHECKS), "documented, and never printed");
    assert_eq!(
        list["checks"].as_array().unwrap().len(),
        judge::topics::fairness::ALL.len()
    );
    check(
        &printed(&["show", "run", "--fairness", "--json"]),
        FINDINGS,
        &mut BTreeSet::new(),
    );
}

/// A hung task as a guest reports it.
fn hung_task() -> FoundDefect {
    let when = When {
        window_ms: Some(12_300),
        since_boot_ms: Some(20_000),
    };
    FoundDefect {
        source: DefectSource::Kernel,
        kind: Kind::HungTask,
        severity: Severity::Defect,
        top: "io_schedule".into(),
        count: 1,
        first: when,
        last: when,
        ok_per_s: Some(812),
        lines: vec!["INFO: task x:1 blocked for more than 10 seconds.".into()],
    }
}

#[test]
fn every_key_of_a_defect_is_documented() {
    let trial = Trial {
        number: 7,
        block: 4,
        slot: 1,
        arm: "new".into(),
        workload: "web".into(),
    };
    let line = json_lines::defect(&trial, &hung_task(), None);
    assert_eq!(check_line(&line, &mut BTreeSet::new()), "defect");
    assert_eq!(
        line["text"],
        "defect: hung task (io_schedule), 12.3 s into the window, 812 requests/s"
    );
}

/// Makes a finished run of a plan that tunes only one arm.
fn run_unfair_plan(dir: &Path) {
    let world = World::new(1.1, 0.002, &[]);
    world.run_text(dir, &one_sided_plan(), |_| false).unwrap();
}

/// Adds a defect to a judgement.
fn with_defect(mut judgement: Judgement) -> Judgement {
    let defect = hung_task();
    judgement.defects.found.push(ArmDefect {
        arm: "new".into(),
        side: Side::OnlyArm,
        kind: defect.kind,
        severity: defect.severity,
        top: defect.top,
        reports: Sides {
            arm: 1,
            baseline: 0,
        },
        trials: Sides {
            arm: 1,
            baseline: 0,
        },
        is_certain: true,
        workloads: vec!["web".into()],
        first: FirstReport {
            attempt: "007".into(),
            at: defect.first,
            ok_per_s: defect.ok_per_s,
            lines: defect.lines,
        },
    });
    judgement
}

fn models() -> Models {
    let finding = ModelVerdict {
        verdict: Verdict::Better,
        ratio: Some(1.1),
        low: Some(1.0),
        high: Some(1.2),
        confidence: Some(0.95),
        blocks: 8,
    };
    Models {
        version: record::models::VERSION,
        rows: vec![ModelRow {
            model: "EPYC-Milan".into(),
            dir: "EPYC-Milan".into(),
            workload: "web".into(),
            metric: "throughput".into(),
            arm: "new".into(),
            own: finding.clone(),
            other: finding,
            moved: Some(0.1),
            standing: Standing::Holds,
        }],
    }
}

#[test]
fn every_key_of_a_verdict_is_documented() {
    let models = models();
    for dir in runs_with_all_events() {
        let judgement = with_defect(judged(dir.path()));
        let run = load_run(dir.path());
        let page = Path::new("runs/x/report.html");
        for models in [None, Some(&models)] {
            let line = json_lines::verdict(&run, &judgement, models, page);
            assert_eq!(check_line(&line, &mut BTreeSet::new()), "verdict");
        }
    }
}

/// The JSON that `judge --json` prints.
fn judge(dir: &Path, args: &[&str]) -> Value {
    let output = bakeoff(dir, &[&["judge", "--json"], args].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output:?}"))
}

#[test]
fn every_key_of_judged_figures_is_documented() {
    let dir = tempfile::tempdir().unwrap();
    let pairs = "arm,block,metric,value\na,1,t,1\nb,1,t,2\na,2,t,1.1\nb,2,t,2.1\n";
    fs::write(dir.path().join("pairs.csv"), pairs).unwrap();
    fs::write(dir.path().join("old.txt"), "1\n2\n3\n4\n").unwrap();
    fs::write(dir.path().join("new.txt"), "2\n3\n4\n5\n").unwrap();
    for (name, ratio) in [("before", 1.0), ("after", 1.1)] {
        let world = World::new(ratio, 0.002, &[]);
        world.run(&dir.path().join(name), |_| false).unwrap();
    }
    run_unfair_plan(&dir.path().join("unfair"));
    run_unfair_plan(&dir.path().join("unfair-too"));
    let mut seen = BTreeSet::new();
    let commands: [&[&str]; 5] = [
        &["unfair", "unfair-too"],
        &["pairs.csv", "--lower-is-better"],
        &["old.txt", "new.txt", "--lower-is-better"],
        &["before", "after"],
        &["none.csv"],
    ];
    for args in commands {
        let judged = judge(dir.path(), args);
        assert_eq!(judged["version"], json!(1));
        check(&judged, FIGURES, &mut seen);
    }
    assert_eq!(seen, documented(FIGURES), "documented, and never printed");
    let shown = bakeoff(dir.path(), &["show", "before", "--json"]);
    let judged: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(judged["version"], json!(judge::report::JSON_VERSION));
    check(&judged, RUN_DIRECTORY, &mut BTreeSet::new());
}

#[test]
fn every_key_of_an_index_is_documented() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    crate::night::nights(&dir.join("all"));
    let broken = dir.join("all/nights/2026-11-16/broken");
    fs::create_dir_all(&broken).unwrap();
    fs::write(broken.join("journal.jsonl"), "").unwrap();
    let output = bakeoff(&dir, &["show", "all/nights", "--json"]);
    let index = serde_json::from_slice(&output.stdout);
    let mut index: Value = index.unwrap_or_else(|why| panic!("{why}: {output:?}"));
    assert_eq!(index["version"], json!(record::night::VERSION));
    let mut seen = BTreeSet::new();
    check(&index, INDEX, &mut seen);
    let line = json_lines::night(
        &serde_json::from_value(index.clone()).unwrap(),
        Path::new("index.html"),
    );
    assert_eq!(check_line(&line, &mut BTreeSet::new()), "night");
    // A fake machine boots no series of versions, and its arms always work.
    index["plans"][0]["run"]["series"] = json!({ "version": 1 });
    index["plans"][0]["run"]["failures"] = json!(["web: arm new fails"]);
    index["plans"][0]["run"]["unanswered"] = json!(["the run is not finished"]);
    index["trends"][0]["changes"][0]["beside"] = json!(["machine"]);
    check(&index, INDEX, &mut seen);
    assert_eq!(seen, documented(INDEX), "documented, and never printed");
}

#[test]
fn every_key_of_a_list_of_runs_is_documented() {
    let dir = tempfile::tempdir().unwrap();
    let runs = dir.path().join("runs");
    let world = World::new(1.1, 0.002, &[]);
    world.run(&runs.join("good"), |_| false).unwrap();
    fs::create_dir(runs.join("bad")).unwrap();
    fs::write(runs.join("bad/journal.jsonl"), "").unwrap();
    let output = bakeoff(dir.path(), &["list", "--json"]);
    let mut seen = BTreeSet::new();
    check(
        &serde_json::from_slice(&output.stdout).unwrap(),
        LIST,
        &mut seen,
    );
    assert_eq!(seen, documented(LIST), "documented, and never printed");
}

/// Fake machines boot no series of versions.
#[test]
fn every_key_of_a_bisection_is_documented() {
    let version = |files: &[&str]| Version {
        name: "9db7d1aee746".into(),
        about: "tcp: settle before sending".into(),
        source: "9db7d1aee746".into(),
        files: files.iter().map(ToString::to_string).collect(),
    };
    let evidence = Evidence {
        candidate: 1,
        like_from: 1,
        like_to: 2,
        position: None,
        beyond: false,
        skipped: Some("does not build".into()),
    };
    let spec = MetricSpec {
        name: "throughput".into(),
        unit: "requests/s".into(),
        direction: Direction::Higher,
        role: Role::Primary,
    };
    let conclusion = Conclusion::Found {
        before: 0,
        after: 1,
        probability: 0.99,
        share: None,
    };
    let mut seen = BTreeSet::new();
    for (conclusion, metric) in [
        (conclusion, Some(spec)),
        (Conclusion::Open { next: 1 }, None),
        (Conclusion::Undecided, None),
    ] {
        let bisection = Bisection {
            version: record::bisect::VERSION,
            title: "Web".into(),
            metric,
            versions: vec![version(&[]), version(&["net/ipv4/tcp.c"])],
            evidence: vec![evidence.clone()],
            steps: vec![0.99],
            no_difference: 0.01,
            ratio: None,
            blocks: 1,
            max_blocks: 60,
            error_rate: 0.01,
            conclusion,
        };
        check(&json!(bisection), BISECTION, &mut seen);
    }
    assert_eq!(seen, documented(BISECTION), "documented, and never printed");
}

#[test]
fn every_key_of_a_version_series_is_documented() {
    let dir = tempfile::tempdir().unwrap();
    World::new(1.1, 0.002, &[])
        .run(&dir.path().join("run"), |_| false)
        .unwrap();
    let output = bakeoff(dir.path(), &["bisect", "run", "--series", "--json"]);
    let series: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(series["version"], json!(record::bisect::VERSION));
    let mut seen = BTreeSet::new();
    check(&series, SERIES, &mut seen);
    // With too few blocks, the interval is null.
    let mut series: SeriesResult = serde_json::from_value(series).unwrap();
    series.metrics[0].steps[0].interval = None;
    check(&json!(series), SERIES, &mut seen);
    assert_eq!(seen, documented(SERIES), "documented, and never printed");
}
