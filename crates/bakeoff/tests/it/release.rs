//! What a release is made of, as far as it needs no release: the package's dependencies, the version, the action of `action.yml`.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use bakeoff::build_id::build;

use crate::network::{plan, serve};
use crate::program::{all_output, bakeoff, stdout};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn file(name: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(name)).unwrap()
}

#[test]
fn the_debian_package_depends_on_what_a_run_needs() {
    // Every Debian system has these, and a package must not name them.
    let essential = ["dpkg", "util-linux"];
    let list = file("packages.txt");
    let needed: BTreeSet<&str> = list
        .lines()
        .filter_map(|line| line.strip_prefix("run "))
        .map(str::trim)
        .filter(|name| !essential.contains(name))
        .collect();
    let manifest: toml::Table = file("crates/bakeoff/Cargo.toml").parse().unwrap();
    let depends = manifest["package"]["metadata"]["deb"]["depends"].as_str();
    let named: BTreeSet<&str> = depends
        .unwrap()
        .split(',')
        .map(|item| item.trim().split(' ').next().unwrap())
        .collect();
    assert_eq!(named, needed);
}

#[test]
fn the_version_names_the_build() {
    let line = stdout(&bakeoff(Path::new("."), &["--version"]));
    let build = build();
    let (version, id) = build.split_once('-').unwrap();
    assert!(line.starts_with(&format!("bakeoff {version} (")), "{line}");
    assert!(line.ends_with(&format!(", build {id})\n")), "{line}");
}

/// Runs a step of the action in a directory, with files in place of GitHub's.
fn action(dir: &Path, step: &str, inputs: &[(&str, &str)]) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_bakeoff"));
    let path = env::join_paths(
        [program.parent().unwrap().to_path_buf()]
            .into_iter()
            .chain(env::split_paths(&env::var_os("PATH").unwrap())),
    );
    Command::new(Path::new(ROOT).join("tools/action-run"))
        .arg(step)
        .current_dir(dir)
        .env("PATH", path.unwrap())
        .env("GITHUB_OUTPUT", dir.join("outputs"))
        .env("GITHUB_STEP_SUMMARY", dir.join("summary"))
        .envs(inputs.iter().copied())
        .output()
        .unwrap()
}

#[test]
fn the_action_reports_a_run_and_ends_with_its_status() {
    let dir = tempfile::tempdir().unwrap();
    let addresses = [serve(), serve()].map(|address| format!("http://{address}"));
    let text = plan(addresses.each_ref().map(String::as_str), ["", ""], "");
    fs::write(dir.path().join("plan.toml"), text).unwrap();
    let inputs = [("INPUT_PLAN", "plan.toml"), ("INPUT_OUT", "out")];
    let output = action(dir.path(), "compare", &inputs);
    // Two blocks are too few for an answer.
    assert_eq!(output.status.code(), Some(3), "{}", all_output(&output));
    let outputs = fs::read_to_string(dir.path().join("outputs")).unwrap();
    // A busy host can fail a fairness check, which withholds the headline.
    let verdicts =
        ["undecided", "withheld"].map(|verdict| format!("status=3\nverdict={verdict}\n"));
    assert!(verdicts.contains(&outputs), "{outputs}");
    let summary = fs::read_to_string(dir.path().join("summary")).unwrap();
    assert!(summary.starts_with("## two systems\n"), "{summary}");
}

/// Checks the message of a step that must not start. The action's status must be 2.
#[track_caller]
fn check_refused(step: &str, inputs: &[(&str, &str)], want: &str) {
    let dir = tempfile::tempdir().unwrap();
    let output = action(dir.path(), step, inputs);
    assert_eq!(output.status.code(), Some(2), "{}", all_output(&output));
    assert!(stdout(&output).contains(want), "{}", all_output(&output));
}

#[test]
fn the_action_refuses_inputs_that_are_missing_or_hostile() {
    let nothing = "::error::name a plan, or a baseline and a candidate\n";
    check_refused("compare", &[("INPUT_BASELINE", "6.1")], nothing);
    let option = "::error::input plan begins with \"-\": --json\n";
    check_refused("compare", &[("INPUT_PLAN", "--json")], option);
    let one_line = "::error::input baseline begins with \"-\": - ::warning::x\n";
    check_refused(
        "compare",
        &[
            ("INPUT_BASELINE", "-\n::warning::x"),
            ("INPUT_CANDIDATE", "7.2"),
        ],
        one_line,
    );
    let version = "::error::another version is installed than 0.0.1; echo\n";
    check_refused("install", &[("INPUT_VERSION", "0.0.1; echo")], version);
}

#[test]
fn no_command_of_the_action_holds_text_of_an_input() {
    let action = file("action.yml");
    let commands: Vec<&str> = action
        .lines()
        .filter(|line| line.trim_start().starts_with("run:"))
        .collect();
    assert_eq!(commands.len(), 2);
    for command in commands {
        assert!(
            command.contains("tools/action-run") && !command.contains("${{"),
            "{command}"
        );
    }
}
