//! `bakeoff fairness`: a run that is unfair on purpose, on the command line.

use std::path::Path;
use std::process::Output;

use expect_test::expect_file;

use crate::program::bakeoff;
use crate::simulated_lab::{PLAN, World};

fn said(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8(text).unwrap()
}

/// A plan that tunes one arm.
pub(crate) fn one_sided_plan() -> String {
    let kernel = "kernel = \"debian:trixie-backports/7.2\"";
    let plan = PLAN.replace(kernel, &format!("{kernel}\ncmdline = \"quiet\""));
    assert_ne!(plan, PLAN);
    plan
}

/// A finished run of it.
fn one_sided(dir: &Path) {
    let world = World::new(1.2, 0.001, &[]);
    let run = dir.join("run");
    world.run_text(&run, &one_sided_plan(), |_| false).unwrap();
}

#[test]
fn the_page_is_what_the_checks_say() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/fairness.md");
    expect_file![page].assert_eq(&judge::report::fairness_page());
}

#[test]
fn an_unfair_run_has_no_headline_until_it_is_accepted() {
    let dir = tempfile::tempdir().unwrap();
    one_sided(dir.path());
    let judged = bakeoff(dir.path(), &["judge", "run", "--fail-on", "worse"]);
    let text = said(&judged);
    assert_eq!(judged.status.code(), Some(2), "{text}");
    assert!(
        text.contains("withheld: ") && text.contains("one-sided-tuning"),
        "{text}"
    );
    assert!(!text.contains("serves "), "{text}");
    let found = bakeoff(dir.path(), &["fairness", "run", "--fail-on", "violation"]);
    let text = said(&found);
    assert_eq!(found.status.code(), Some(1), "{text}");
    assert!(
        text.contains("to mend it: give each arm settings"),
        "{text}"
    );
    let refused = |wrong: &str, why: &str| {
        let refused = bakeoff(dir.path(), &["fairness", "run", "--accept", wrong]);
        assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
        assert_eq!(
            said(&refused),
            format!("bakeoff: --accept {wrong}: {why}\n")
        );
    };
    refused(
        "one-sided=x",
        "no such check: \"one-sided\" (the nearest is \"one-sided-tuning\"; bakeoff fairness --list names all)",
    );
    for wrong in [
        "one-sided-tuning",
        "one-sided-tuning=",
        "one-sided-tuning= ",
    ] {
        let why = "no reason (write --accept one-sided-tuning='why it is fair all the same')";
        refused(wrong, why);
    }
    assert!(!dir.path().join("run/accepted.json").exists());
    let accept = "one-sided-tuning=quiet changes nothing";
    let accepted = bakeoff(dir.path(), &["fairness", "run", "--accept", accept]);
    let text = said(&accepted);
    assert!(accepted.status.success(), "{text}");
    assert!(text.contains("accepted: quiet changes nothing"), "{text}");
    let judged = bakeoff(dir.path(), &["judge", "run"]);
    let text = said(&judged);
    let headline = text.find("better: new serves").expect(&text);
    let reason = "one-sided-tuning: settings of its own for new, none for old; accepted: quiet changes nothing";
    let place = text.replace("\n    ", " ").find(reason).expect(&text);
    assert!(headline < place && place < headline + 500, "{text}");
    let markdown = said(&bakeoff(dir.path(), &["judge", "run", "--markdown"]));
    assert!(
        markdown.contains("**accepted** - one-sided-tuning: "),
        "{markdown}"
    );
    bakeoff(dir.path(), &["report", "run"]);
    let page = std::fs::read_to_string(dir.path().join("run/report.html")).unwrap();
    let (headline, _) = page.split_once("Warnings").unwrap();
    assert!(
        headline.contains("accepted: quiet changes nothing"),
        "{headline}"
    );
    let json = bakeoff(dir.path(), &["judge", "run", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(
        json["headlines"][0]["accepted"],
        serde_json::json!([{ "id": "one-sided-tuning", "reason": "quiet changes nothing" }])
    );
}

#[test]
fn what_is_accepted_in_vain_is_told() {
    let dir = tempfile::tempdir().unwrap();
    one_sided(dir.path());
    let twice = [
        "fairness", "run", "--accept", "memory=a", "--accept", "memory=b",
    ];
    let twice = bakeoff(dir.path(), &twice);
    assert_eq!(twice.status.code(), Some(2));
    assert_eq!(
        said(&twice),
        "bakeoff: --accept memory=b: memory is accepted twice (leave one reason)\n"
    );
    let passing = bakeoff(
        dir.path(),
        &["fairness", "run", "--accept", "responses-verified=x"],
    );
    let told = String::from_utf8(passing.stderr.clone()).unwrap();
    assert!(passing.status.success(), "{told}");
    assert!(
        told.contains("responses-verified was accepted without need: its outcome is \"pass\""),
        "{told}"
    );
    // Of another version, or written by hand.
    let by_hand = r#"{ "memery": "x", "one-sided-tuning": "y" }"#;
    std::fs::write(dir.path().join("run/accepted.json"), by_hand).unwrap();
    for words in [
        &["judge", "run"][..],
        &["judge", "run", "--markdown"],
        &["fairness", "run"],
    ] {
        let text = said(&bakeoff(dir.path(), words)).replace('\n', " ");
        assert!(
            text.contains("accepted.json names a check that there is not: \"memery\""),
            "{words:?} {text}"
        );
    }
    let json = bakeoff(dir.path(), &["fairness", "run", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["accepted_in_vain"][0]["id"], "memery");
}

#[test]
fn a_plan_tells_before_it_runs_what_will_not_be_fair() {
    let dir = tempfile::tempdir().unwrap();
    let kernel = "kernel = \"debian:trixie-backports/7.2\"";
    let plan = PLAN.replace(
        kernel,
        &format!("{kernel}\ncmdline = \"mem=256M\"\nnofile = 16"),
    );
    let plan = plan.replace("connections = 4", "connections = 40");
    std::fs::write(dir.path().join("plan.toml"), plan).unwrap();
    let told = said(&bakeoff(dir.path(), &["check", "plan.toml"]));
    for line in [
        "  violation  memory: memory of the guest: 256 MiB (new), 1.00 GiB (old) (to mend it: ",
        "  violation  descriptors: web-static, arm new: 0.4 open files for each connection (at least 2) (to mend it: ",
        "  violation  limits: nofile: 16 (new), absent (old) (to mend it: ",
        "  declared   command-line: kernel parameters: mem=256M (new), absent (old): declared by the plan\n",
    ] {
        assert!(told.contains(line), "{line}\n{told}");
    }
    let json = bakeoff(dir.path(), &["check", "plan.toml", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let found = json["fairness"].as_array().unwrap().iter();
    let memory = found.clone().find(|one| one["id"] == "memory").unwrap();
    assert_eq!(memory["outcome"], "violation");
}

#[test]
fn what_could_be_pinned_is_a_table_of_a_plan() {
    let dir = tempfile::tempdir().unwrap();
    one_sided(dir.path());
    let pinned = bakeoff(dir.path(), &["fairness", "run", "--pin"]);
    let text = said(&pinned);
    assert!(pinned.status.success(), "{text}");
    let read: toml::Table = text.parse().unwrap();
    assert!(read.keys().all(|key| key == "pinned"), "{text}");
    let json = bakeoff(dir.path(), &["fairness", "run", "--pin", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["pinned"], text);
}

#[test]
fn a_run_that_accepts_what_there_is_not_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("plan.toml"), PLAN).unwrap();
    for wrong in ["memery=x", "memory", "memory="] {
        let refused = bakeoff(dir.path(), &["run", "plan.toml", "--accept", wrong]);
        let text = said(&refused);
        assert_eq!(refused.status.code(), Some(2), "{text}");
        assert!(
            text.starts_with(&format!("bakeoff: --accept {wrong}: no ")),
            "{text}"
        );
        assert!(!dir.path().join("runs").exists());
    }
}

#[test]
fn a_run_without_facts_is_not_known_to_be_fair() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::new(1.2, 0.001, &[]);
    world.run(&dir.path().join("run"), |_| false).unwrap();
    for trial in dir.path().join("run/trials").read_dir().unwrap() {
        let facts = trial.unwrap().path().join("facts.json");
        if facts.exists() {
            std::fs::remove_file(facts).unwrap();
        }
    }
    let told = bakeoff(dir.path(), &["fairness", "run"]);
    let text = said(&told);
    assert!(told.status.success(), "{text}");
    assert!(
        text.contains("memory: not known") && text.contains("missing: /proc/meminfo:MemTotal"),
        "{text}"
    );
    let asked = bakeoff(dir.path(), &["fairness", "run", "--fail-on", "violation"]);
    let text = said(&asked);
    assert_eq!(asked.status.code(), Some(2), "{text}");
    assert!(
        text.contains("bakeoff: --fail-on violation: no answer: no trial has facts, so "),
        "{text}"
    );
}
