//! Format 1: a stored run is read and has its verdict, and formats of a newer bakeoff are refused.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use record::hash::sha256;
use serde_json::Value;

use crate::program::{bakeoff, refusal, stdout};

fn stored_run() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/samples/web-static")
}

fn versions(dir: &Path) -> Vec<(&'static str, u64)> {
    let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap();
    let journal = read("journal.jsonl");
    let opened: Value = serde_json::from_str(journal.lines().next().unwrap()).unwrap();
    let trial: Value = serde_json::from_str(&read("trials/001/trial.json")).unwrap();
    let facts: Value = serde_json::from_str(&read("trials/001/facts.json")).unwrap();
    let history: Value = serde_json::from_str(&read("a-a.json")).unwrap();
    [
        ("journal", &opened["event"]["opened"]),
        ("trial", &trial),
        ("facts", &facts),
        ("a-a", &history),
    ]
    .map(|(name, value)| (name, value["version"].as_u64().unwrap()))
    .into()
}

#[test]
fn a_stored_run_of_format_1_has_its_verdict() {
    let run = stored_run();
    let formats = [("journal", 1), ("trial", 1), ("facts", 1), ("a-a", 1)];
    assert_eq!(versions(&run), formats);
    let shown = bakeoff(Path::new("."), &["show", run.to_str().unwrap(), "--json"]);
    let judged: Value = serde_json::from_str(&stdout(&shown)).unwrap();
    let headline = &judged["headlines"][0];
    let primary = &judged["comparisons"][0];
    let kept = |value: &Value| format!("{:.6}", value.as_f64().unwrap());
    assert_eq!(
        (&judged["version"], &headline["verdict"]),
        (&1.into(), &"model-dependent".into())
    );
    assert_eq!(
        (&primary["metric"], &primary["verdict"]),
        (&"capacity".into(), &"worse".into())
    );
    let interval = ["ratio", "low", "high"].map(|key| kept(&primary[key]));
    assert_eq!(interval, ["0.990333", "0.983434", "0.991391"]);
}

#[test]
fn formats_of_a_newer_bakeoff_are_refused() {
    for (file, old, new) in [
        ("journal.jsonl", "{\"version\":1,", "{\"version\":2,"),
        (
            "trials/001/trial.json",
            "\"version\": 1,",
            "\"version\": 2,",
        ),
        ("a-a.json", "\"version\": 1,", "\"version\": 2,"),
    ] {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("run");
        let copied = Command::new("cp")
            .arg("-r")
            .arg(stored_run())
            .arg(&dir)
            .status();
        assert!(copied.unwrap().success());
        let text = fs::read_to_string(dir.join(file)).unwrap();
        let newer = text.replacen(old, new, 1);
        assert_ne!(newer, text, "{file}");
        fs::write(dir.join(file), &newer).unwrap();
        if file.starts_with("trials") {
            // The journal has the SHA-256 of each record.
            let journal = fs::read_to_string(dir.join("journal.jsonl")).unwrap();
            let digest = |text: &str| sha256(text.as_bytes());
            let journal = journal.replace(&digest(&text), &digest(&newer));
            fs::write(dir.join("journal.jsonl"), journal).unwrap();
        }
        let refused = refusal(&bakeoff(temp.path(), &["show", "run"]));
        assert!(refused.contains("newer bakeoff"), "{file}: {refused}");
    }
}
