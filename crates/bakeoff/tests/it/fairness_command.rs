//! `bakeoff fairness` on runs that are unfair on purpose.

use std::path::Path;

use expect_test::expect_file;

use crate::program::{all_output, bakeoff, refusal, stderr};
use crate::simulated_lab::{PLAN, World};

/// A plan that tunes only one arm.
pub(crate) fn one_sided_plan() -> String {
    let kernel = "kernel = \"debian:trixie-backports/7.2\"";
    let plan = PLAN.replace(kernel, &format!("{kernel}\ncmdline = \"quiet\""));
    assert_ne!(plan, PLAN);
    plan
}

/// Makes a finished run of that plan in `run`.
fn run_one_sided_plan(dir: &Path) {
    let world = World::new(1.2, 0.001, &[]);
    let run = dir.join("run");
    world.run_text(&run, &one_sided_plan(), |_| false).unwrap();
}

#[test]
fn the_page_in_the_docs_is_made_from_the_checks() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/fairness.md");
    expect_file![page].assert_eq(&judge::report::fairness_page());
}

#[test]
fn an_unfair_run_has_no_headline_until_it_is_accepted() {
    let dir = tempfile::tempdir().unwrap();
    run_one_sided_plan(dir.path());
    let judged = bakeoff(dir.path(), &["show", "run", "--fail-on", "regression"]);
    let text = all_output(&judged);
    assert_eq!(judged.status.code(), Some(3), "{text}");
    assert!(
        text.contains("withheld: ") && text.contains("one-sided-tuning"),
        "{text}"
    );
    assert!(!text.contains("better: "), "{text}");
    let gate = bakeoff(
        dir.path(),
        &["show", "run", "--fairness", "--fail-on", "unfair"],
    );
    let text = all_output(&gate);
    assert_eq!(gate.status.code(), Some(1), "{text}");
    assert!(
        text.contains("to mend it: Tune every arm or none"),
        "{text}"
    );
    let refused = |wrong: &str, why: &str| {
        let output = bakeoff(dir.path(), &["show", "run", "--accept", wrong]);
        let want = format!("bakeoff: --accept {wrong}: {why}\n");
        assert_eq!(refusal(&output), want);
    };
    refused(
        "one-sided=x",
        "no such check: \"one-sided\" (the nearest is \"one-sided-tuning\"; bakeoff show --checks lists all)",
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
    let accepted = bakeoff(dir.path(), &["show", "run", "--accept", accept]);
    let text = all_output(&accepted);
    assert!(accepted.status.success(), "{text}");
    assert!(text.contains("accepted: quiet changes nothing"), "{text}");
    let judged = bakeoff(dir.path(), &["show", "run"]);
    let text = all_output(&judged);
    let headline = text.find("better: new against old").expect(&text);
    let reason = "one-sided-tuning: settings in new, none in old; accepted: quiet changes nothing";
    let place = text.replace("\n    ", " ").find(reason).expect(&text);
    assert!(headline < place && place < headline + 500, "{text}");
    let markdown = all_output(&bakeoff(dir.path(), &["show", "run", "--markdown"]));
    assert!(
        markdown.contains("**accepted** - one-sided-tuning: "),
        "{markdown}"
    );
    bakeoff(dir.path(), &["show", "run", "--report"]);
    let page = std::fs::read_to_string(dir.path().join("run/report.html")).unwrap();
    let (headline, _) = page.split_once("Warnings").unwrap();
    assert!(
        headline.contains("accepted: quiet changes nothing"),
        "{headline}"
    );
    let json = bakeoff(dir.path(), &["show", "run", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(
        json["headlines"][0]["accepted"],
        serde_json::json!([{ "id": "one-sided-tuning", "reason": "quiet changes nothing" }])
    );
}

#[test]
fn unused_acceptances_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    run_one_sided_plan(dir.path());
    let twice = [
        "show", "run", "--accept", "memory=a", "--accept", "memory=b",
    ];
    assert_eq!(
        refusal(&bakeoff(dir.path(), &twice)),
        "bakeoff: --accept memory=b: memory is accepted twice (leave one reason)\n"
    );
    let passing = bakeoff(
        dir.path(),
        &["show", "run", "--accept", "responses-verified=x"],
    );
    let error = stderr(&passing);
    assert!(passing.status.success(), "{error}");
    assert!(
        error.contains("responses-verified was accepted without need: the check is \"passed\""),
        "{error}"
    );
    // As another version or a user could write it.
    let by_hand = r#"{ "memery": "x", "one-sided-tuning": "y" }"#;
    std::fs::write(dir.path().join("run/accepted.json"), by_hand).unwrap();
    for args in [
        &["show", "run"][..],
        &["show", "run", "--markdown"],
        &["show", "run", "--fairness"],
    ] {
        let text = all_output(&bakeoff(dir.path(), args)).replace('\n', " ");
        assert!(
            text.contains("accepted.json names an unknown check: \"memery\""),
            "{args:?} {text}"
        );
    }
    let json = bakeoff(dir.path(), &["show", "run", "--fairness", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["unused_acceptances"][0]["id"], "memery");
}

#[test]
fn check_foresees_failed_checks_of_a_plan() {
    let dir = tempfile::tempdir().unwrap();
    let kernel = "kernel = \"debian:trixie-backports/7.2\"";
    let plan = PLAN.replace(
        kernel,
        &format!("{kernel}\ncmdline = \"mem=256M\"\nnofile = 16"),
    );
    let plan = plan.replace("connections = 4", "connections = 40");
    std::fs::write(dir.path().join("plan.toml"), plan).unwrap();
    let report = all_output(&bakeoff(dir.path(), &["check", "plan.toml"]));
    for line in [
        "  failed     memory: memory of the guest: 256 MiB (new), 1.00 GiB (old). Remove ",
        "  failed     descriptors: web-static, arm new: 0.4 open files for each connection (at least 2). Raise ",
        "  failed     limits: nofile: 16 (new), absent (old). Start ",
        "  accepted   command-line: kernel parameters: mem=256M (new), absent (old); the plan sets it\n",
    ] {
        assert!(report.contains(line), "{line}\n{report}");
    }
    let json = bakeoff(dir.path(), &["check", "plan.toml", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let mut findings = json["fairness"].as_array().unwrap().iter();
    let memory = findings.find(|finding| finding["id"] == "memory");
    assert_eq!(memory.unwrap()["outcome"], "failed");
}

#[test]
fn settings_to_pin_are_printed_as_a_table_of_a_plan() {
    let dir = tempfile::tempdir().unwrap();
    run_one_sided_plan(dir.path());
    let pinned = bakeoff(dir.path(), &["show", "run", "--pin"]);
    let text = all_output(&pinned);
    assert!(pinned.status.success(), "{text}");
    let table: toml::Table = text.parse().unwrap();
    assert!(table.keys().all(|key| key == "pinned"), "{text}");
    let json = bakeoff(dir.path(), &["show", "run", "--pin", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["pinned"], text);
}

#[test]
fn a_run_with_an_invalid_acceptance_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("plan.toml"), PLAN).unwrap();
    for wrong in ["memery=x", "memory", "memory="] {
        let output = bakeoff(dir.path(), &["run", "plan.toml", "--accept", wrong]);
        let error = refusal(&output);
        let start = format!("bakeoff: --accept {wrong}: no ");
        assert!(error.starts_with(&start), "{error}");
        assert!(!dir.path().join("runs").exists());
    }
}

#[test]
fn checks_of_a_run_without_facts_are_unknown() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::new(1.2, 0.001, &[]);
    world.run(&dir.path().join("run"), |_| false).unwrap();
    for trial in dir.path().join("run/trials").read_dir().unwrap() {
        let facts = trial.unwrap().path().join("facts.json");
        if facts.exists() {
            std::fs::remove_file(facts).unwrap();
        }
    }
    let output = bakeoff(dir.path(), &["show", "run", "--fairness"]);
    let text = all_output(&output);
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("memory: unknown") && text.contains("missing: /proc/meminfo:MemTotal"),
        "{text}"
    );
    let gate = bakeoff(
        dir.path(),
        &["show", "run", "--fairness", "--fail-on", "unfair"],
    );
    let text = all_output(&gate);
    assert_eq!(gate.status.code(), Some(3), "{text}");
    assert!(
        text.contains("--fail-on unfair: no answer: no trial has facts, so "),
        "{text}"
    );
}
