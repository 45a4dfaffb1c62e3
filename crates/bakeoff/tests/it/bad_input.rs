//! What a user can get wrong: one clear message with place, value and remedy, and exit status 2.

use std::path::Path;
use std::process::{Command, Output};

use expect_test::{Expect, expect};

/// A plan that needs nothing of the network to be refused.
const PLAN: &str = r#"title = "two kernels"
baseline = "old"
[machine]
memory = "1GiB"
[image]
recipe = "web"
[arm.old]
kernel = "debian:bookworm/6.1"
[arm.new]
kernel = "debian:trixie-backports/7.2"
[[workload]]
kind = "web-static"
server = "apache"
connections = 4
window = "2s"
"#;

fn bakeoff(dir: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
    command
        .args(words)
        .current_dir(dir)
        .env("XDG_CACHE_HOME", dir.join("cache"));
    command.output().expect("the binary under test runs")
}

/// Edits the plan, runs `bakeoff VERB plan.toml`, compares what is said; the status must be 2.
fn check(verb: &str, edits: &[(&str, &str)], want: &Expect) {
    let dir = tempfile::tempdir().unwrap();
    let mut text = PLAN.to_string();
    for (from, to) in edits {
        assert!(text.contains(from), "the plan has no {from:?}");
        text = text.replacen(from, to, 1);
    }
    std::fs::write(dir.path().join("plan.toml"), text).unwrap();
    let output = bakeoff(dir.path(), &[verb, "plan.toml"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    want.assert_eq(&said.replace(&*dir.path().to_string_lossy(), "DIR"));
}

#[test]
fn several_mistakes_in_a_plan_are_listed_together() {
    check(
        "check",
        &[
            ("connections = 4", "conections = 4"),
            ("baseline = \"old\"", "baseline = \"oldd\""),
            ("\"2s\"", "\"2h\""),
            ("[machine]\n", "[machine]\nmemmory = \"1GiB\"\n"),
        ],
        &expect![[r#"
            bakeoff: plan.toml:2: baseline is not an arm: "oldd" (did you mean "old"?)
            plan.toml:4: unknown key in [machine]: memmory (did you mean "memory"?)
            plan.toml:12: missing key in [[workload]]: connections (add connections = 60)
            plan.toml:15: unknown key in [[workload]]: conections (did you mean "connections"?)
        "#]],
    );
}

#[test]
fn zero_connections_are_refused() {
    check(
        "check",
        &[("connections = 4", "connections = 0")],
        &expect![[r#"
            bakeoff: plan.toml:14: connections out of range: 0 (write 1 to 10000)
        "#]],
    );
}

#[test]
fn a_plan_that_is_not_there_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let output = bakeoff(dir.path(), &["run", "nowhere.toml"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("cannot read plan: nowhere.toml"), "{said}");
}

#[test]
fn a_kernel_file_that_is_not_there_is_named() {
    check(
        "run",
        &[("debian:bookworm/6.1", "file:no-such-vmlinuz")],
        &expect![[r#"
            bakeoff: plan.toml:8: no such file: no-such-vmlinuz (paths are taken from the plan's directory)
        "#]],
    );
}

#[test]
fn an_unknown_suite_is_named_with_the_known_ones() {
    check(
        "check",
        &[("debian:bookworm/6.1", "debian:bokworm/6.1")],
        &expect![[r#"
            bakeoff: plan.toml:8: unknown Debian suite: "bokworm" (did you mean "bookworm"?)
        "#]],
    );
}

#[test]
fn an_unknown_recipe_is_named_with_the_known_ones() {
    check(
        "check",
        &[("\"web\"", "\"wbe\"")],
        &expect![[r#"
            bakeoff: plan.toml:6: no such image recipe: "wbe" (did you mean "web"?; a path ending in .toml names one of your own)
        "#]],
    );
}

#[test]
fn a_suite_that_no_image_can_be_made_of_is_named() {
    check(
        "check",
        &[("recipe = \"web\"", "recipe = \"web\"\nsuite = \"trixy\"")],
        &expect![[r#"
            bakeoff: plan.toml:7: not a Debian suite for an image: "trixy" (did you mean "trixie"?)
        "#]],
    );
}

#[test]
fn all_that_a_host_lacks_is_told_before_anything_is_fetched() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("plan.toml"), PLAN).unwrap();
    for verb in [&["run", "plan.toml"][..], &["doctor"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_bakeoff"))
            .args(verb)
            .current_dir(dir.path())
            .env("XDG_CACHE_HOME", dir.path().join("cache"))
            .env("PATH", "/nowhere")
            .env_remove("BAKEOFF_QEMU")
            .output()
            .unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        // Not QEMU: a run fetches one.
        for lack in ["mmdebstrap", "apt-get", "unshare"] {
            assert!(said.contains(lack), "{lack} in {said}");
        }
        // No apt-get, so it is not what is advised.
        let remedy = "on Debian the package mmdebstrap does";
        assert!(said.contains(remedy), "{said}");
    }
    assert!(!dir.path().join("cache/bakeoff/kernels").exists());
}

#[test]
fn a_directory_that_is_no_run_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for verb in ["judge", "report"] {
        let output = bakeoff(dir.path(), &[verb, "."]);
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("not a run directory"), "{said}");
    }
}

#[test]
fn a_run_directory_that_holds_other_things_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("plan.toml"), PLAN).unwrap();
    std::fs::create_dir(dir.path().join("thesis")).unwrap();
    std::fs::write(dir.path().join("thesis/chapter1"), "words").unwrap();
    let output = bakeoff(dir.path(), &["run", "plan.toml", "--out", "thesis"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("something other than a run"), "{said}");
    assert_eq!(dir.path().join("thesis").read_dir().unwrap().count(), 1);
}

#[test]
fn a_cache_limit_that_is_no_size_is_refused_and_an_empty_cache_is_listed() {
    let dir = tempfile::tempdir().unwrap();
    let output = bakeoff(dir.path(), &["cache", "prune", "--to", "lots"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("not a size: \"lots\""), "{said}");
    let output = bakeoff(dir.path(), &["cache", "list", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["entries"], serde_json::json!([]));
    assert!(told["limit_bytes"].as_u64().unwrap() > 0);
}
