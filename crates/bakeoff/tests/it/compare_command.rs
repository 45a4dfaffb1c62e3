//! `compare`, `new` and `list`: comparisons without a plan file.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use expect_test::{Expect, expect};
use machine::fake::Behaviour;
use record::hash::sha256;
use record::journal;
use record::journal::{Entry, Event, Opening};
use record::machine::MachineDescription;
use serde_json::Value;

use crate::program::bakeoff_with_new_cache as bakeoff;
use crate::simulated_lab::{World, undecided};

fn without_dir(bytes: &[u8], dir: &Path) -> String {
    String::from_utf8_lossy(bytes).replace(&*dir.to_string_lossy(), "DIR")
}

/// Runs `compare` with a mistake. The status must be 2, and nothing may be written.
fn check(args: &[&str], want: &Expect) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("data"), "").unwrap();
    let output = bakeoff(dir.path(), &[&["compare"], args].concat());
    let error = without_dir(&output.stderr, dir.path());
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(!dir.path().join("runs").exists(), "{args:?}");
    want.assert_eq(&error);
}

const KERNELS: [&str; 2] = ["debian:bookworm/6.1", "debian:trixie-backports/7.2"];

#[test]
fn kernels_that_cannot_be_compared_are_refused_with_a_remedy() {
    check(
        &[],
        &expect![[r#"
        bakeoff: nothing to compare (name two kernels: bakeoff compare 6.1 7.2; or values of a sysctl of this host: --sysctl net.core.somaxconn=128,4096)
    "#]],
    );
    check(
        &KERNELS[..1],
        &expect![[r#"
        bakeoff: one kernel only: debian:bookworm/6.1 (name a second one; to see what this machine can show, add --a-a)
    "#]],
    );
    check(
        &[KERNELS[0], KERNELS[0]],
        &expect![[r#"
        bakeoff: two equal kernels: debian:bookworm/6.1 (name another; to see what this machine can show, add --a-a)
    "#]],
    );
    check(
        &[KERNELS[0], "./bzImage"],
        &expect![[r#"
        bakeoff: kernel ./bzImage: no such file: DIR/bzImage (paths in a plan are taken from its directory)
    "#]],
    );
    check(
        &[KERNELS[0], "./data"],
        &expect![[r#"
        bakeoff: kernel ./data: not a bootable x86_64 kernel: DIR/data (name a bzImage or vmlinuz)
    "#]],
    );
    check(
        &[KERNELS[0], "debian:trixi/7.2"],
        &expect![[r#"
        bakeoff: kernel debian:trixi/7.2: unknown Debian suite: "trixi" (did you mean "trixie"?)
    "#]],
    );
}

#[test]
fn invalid_workloads_and_values_are_refused_with_a_remedy() {
    check(
        &[KERNELS[0], KERNELS[1], "-w", "web-sttic"],
        &expect![[r#"
        bakeoff: unknown kind of workload: "web-sttic" (did you mean "web-static"?)
    "#]],
    );
    check(
        &[KERNELS[0], KERNELS[1], "-w", "smb,smb"],
        &expect![[r#"
        bakeoff: workload given twice: smb (leave one out; a plan may have both under two names)
    "#]],
    );
    check(
        &[KERNELS[0], KERNELS[1], "-w", "command"],
        &expect![[r#"
        bakeoff: workload command without a program (write it at the end: -- ./my-benchmark ARGUMENTS)
    "#]],
    );
    check(
        &[KERNELS[0], KERNELS[1], "--", "./no-such-program"],
        &expect![[r#"
            bakeoff: no such program: ./no-such-program (paths begin in the working directory)
        "#]],
    );
    check(
        &[KERNELS[0], KERNELS[1], "--", "./data"],
        &expect![[r#"
        bakeoff: not executable: ./data (chmod +x ./data)
    "#]],
    );
    check(
        &["--sysctl", "vm.swappiness=1"],
        &expect![[r#"
        bakeoff: sysctl with one value only: vm.swappiness = 1 (name another to compare it with: --sysctl vm.swappiness=1,OTHER)
    "#]],
    );
    check(
        &["--sysctl", "vm.swapiness=1,2"],
        &expect![[r#"
        bakeoff: this host has no such sysctl: vm.swapiness (did you mean "vm.swappiness"?)
    "#]],
    );
    check(
        &["--kernel", KERNELS[0]],
        &expect![[r#"
        bakeoff: --kernel without what is compared on it: debian:bookworm/6.1 (add --sysctl NAME=VALUE,VALUE or --cmdline '' TEXT)
    "#]],
    );
}

#[test]
fn a_dry_run_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let args = [
        "compare",
        KERNELS[0],
        KERNELS[1],
        "-w",
        "web-static,smb",
        "--dry-run",
        "--seed",
        "1",
    ];
    let output = bakeoff(dir.path(), &args);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        without_dir(&output.stderr, dir.path())
    );
    assert!(!dir.path().join("runs").exists());
    expect![[r##"
        # Written by bakeoff compare. To ask more, edit it before it runs, later a copy of it (docs/reference/plan.md has every key),
        # and take bakeoff run.
        title = "web-static, smb: 7.2 against 6.1"
        baseline = "6.1"            # the arm that the others are compared with

        [machine]
        kind = "qemu"               # each trial boots a virtual machine
        cpus = 1
        memory = "1GiB"
        clock = "auto"              # wall where KVM works, instructions under emulation

        [image]
        recipe = "smb+web"          # user land of all arms alike: bakeoff cache image list

        [arm."6.1"]
        kernel = "debian:bookworm/6.1"

        [arm."7.2"]
        kernel = "debian:trixie-backports/7.2"

        [[workload]]
        kind = "web-static"         # static pages in a closed loop: as many requests as the server answers
        server = "nginx"            # or "apache"
        connections = 16            # clients, each with one request under way
        # keep_alive = false        # a connection for each request; left out, one for many
        # decided_by = "server-cpu"  # CPU time of the server's own processes for a request, in place of throughput
        warmup = "500ms"            # load that is not counted
        window = "2s"               # load that is counted

        [[workload]]
        kind = "smb"                # Samba under office applications of the NetBench kind, as smbtorture plays them
        clients = 12                # each is a process, and has one of smbd's
        applications = ["EXCEL"]    # left out, the whole trace: for windows of minutes
        warmup = "3s"               # load that is not counted
        window = "8s"               # load that is counted

        [design]
        margin = "2%"               # differences below this are called equivalent
        error_rate = "5%"           # chance of a wrong verdict that is accepted
        min_blocks = 4              # a block is one trial of each arm; the first test comes after these
        max_blocks = 12             # what is undecided then stays so
        seed = 1                    # of order, data and schedules
    "##]].assert_eq(&without_dir(&output.stdout, dir.path()));
}

#[test]
fn a_seed_is_drawn_once_and_kept_in_the_plan() {
    let dir = tempfile::tempdir().unwrap();
    let seed = |more: &[&str]| {
        let args = [&["compare", KERNELS[0], KERNELS[1], "--plan-only"], more].concat();
        let output = bakeoff(dir.path(), &args);
        assert_eq!(output.status.code(), Some(0));
        let count = plans(dir.path()).len();
        let name = match count {
            1 => "compare-6.1-7.2.toml".to_string(),
            number => format!("compare-6.1-7.2-{number}.toml"),
        };
        let text = fs::read_to_string(dir.path().join("runs").join(name)).unwrap();
        (count, plan::seed_of(&text).unwrap())
    };
    let (_, drawn) = seed(&[]);
    // The seed is the time in seconds since 1970.
    assert!(drawn > 1_700_000_000, "{drawn}");
    assert_eq!(seed(&[]), (1, drawn));
    assert_eq!(seed(&["--seed", &drawn.to_string()]), (1, drawn));
    assert_eq!(seed(&["--seed", "5"]), (2, 5));
    assert_eq!(seed(&["--seed", "5"]), (2, 5));
}

/// The plans in `runs`.
fn plans(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir.join("runs")).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_plan_never_replaces_an_edited_one() {
    let dir = tempfile::tempdir().unwrap();
    let write_plan = |more: &[&str]| {
        let args = [&["compare", KERNELS[0], KERNELS[1], "--plan-only"], more].concat();
        let output = bakeoff(dir.path(), &args);
        (
            output.status.code(),
            without_dir(&output.stderr, dir.path()),
        )
    };
    for _ in 0..2 {
        assert_eq!(write_plan(&[]), (Some(0), String::new()));
        assert_eq!(plans(dir.path()), ["compare-6.1-7.2.toml"]);
    }
    write_plan(&["--margin", "5%"]);
    assert_eq!(
        plans(dir.path()),
        ["compare-6.1-7.2-2.toml", "compare-6.1-7.2.toml"]
    );
    let path = dir.path().join("runs/compare-6.1-7.2.toml");
    let edited = fs::read_to_string(&path).unwrap().replace("2%", "3%");
    fs::write(&path, &edited).unwrap();
    write_plan(&[]);
    assert_eq!(plans(dir.path()).len(), 3);
    assert_eq!(fs::read_to_string(&path).unwrap(), edited);

    assert_eq!(
        write_plan(&["--out", "runs/mine"]),
        (Some(0), String::new())
    );
    let (status, error) = write_plan(&["--out", "runs/mine", "--max-blocks", "8"]);
    assert_eq!(status, Some(2));
    expect![[r#"
        bakeoff: another plan is there: runs/mine.toml (name another --out, or run that one: bakeoff run runs/mine.toml --out runs/mine)
    "#]].assert_eq(&error);
}

#[test]
fn another_content_of_a_file_is_another_comparison() {
    let dir = tempfile::tempdir().unwrap();
    write_program(dir.path());
    let compare = |more: &[&str]| {
        let args = ["compare", KERNELS[0], KERNELS[1], "--plan-only"];
        let args = [&args, more, &["--", "./mine", "./input"]].concat();
        let output = bakeoff(dir.path(), &args);
        (
            output.status.code(),
            without_dir(&output.stderr, dir.path()),
        )
    };
    let begin_run = |name: &str, input: &[u8]| {
        let run = dir.path().join("runs").join(name);
        fs::create_dir(&run).unwrap();
        let event = Event::Opened(Opening {
            version: journal::VERSION,
            bakeoff: "0".into(),
            inputs: BTreeMap::from([
                (
                    "file mine".into(),
                    sha256(&fs::read(dir.path().join("mine")).unwrap()),
                ),
                ("file input".into(), sha256(input)),
            ]),
            machine: MachineDescription::Fake,
            ns_per_instruction: None,
            host_cpus: None,
            string_price: None,
            clients: None,
        });
        let entry = Entry {
            at: String::new(),
            event,
        };
        let line = serde_json::to_string(&entry).unwrap();
        fs::write(run.join("journal.jsonl"), line + "\n").unwrap();
    };
    assert_eq!(compare(&[]), (Some(0), String::new()));
    begin_run("compare-6.1-7.2", b"some words\n");
    assert_eq!(compare(&[]), (Some(0), String::new()));
    assert_eq!(
        plans(dir.path()),
        ["compare-6.1-7.2", "compare-6.1-7.2.toml"]
    );

    fs::write(dir.path().join("input"), "other words\n").unwrap();
    assert_eq!(compare(&[]), (Some(0), String::new()));
    assert!(dir.path().join("runs/compare-6.1-7.2-2.toml").exists());
    // The plan of a run that has not begun is replaced.
    fs::write(dir.path().join("input"), "still other words\n").unwrap();
    compare(&[]);
    assert!(!dir.path().join("runs/compare-6.1-7.2-3.toml").exists());

    assert_eq!(compare(&["--out", "runs/mine"]), (Some(0), String::new()));
    begin_run("mine", b"some words\n");
    let (status, error) = compare(&["--out", "runs/mine"]);
    assert_eq!(status, Some(2));
    expect![[r#"
        bakeoff: a run with another content of file input is there: runs/mine (name another --out)
    "#]]
    .assert_eq(&error);
}

#[test]
fn the_command_to_run_the_plan_is_printed_with_all_options() {
    let dir = tempfile::tempdir().unwrap();
    let printed = |more: &[&str]| {
        let args = [&["compare", KERNELS[0], KERNELS[1]], more].concat();
        without_dir(&bakeoff(dir.path(), &args).stdout, dir.path())
    };
    expect![[r#"
        plan: my runs/first.toml (edit it as you like, then: bakeoff run 'my runs/first.toml' --out 'my runs/first')
    "#]]
    .assert_eq(&printed(&["--plan-only", "--out", "my runs/first"]));
    expect![[r#"
        plan: runs/compare-6.1-7.2.toml (edit it as you like, then: bakeoff run runs/compare-6.1-7.2.toml --a-a)
    "#]]
    .assert_eq(&printed(&["--plan-only", "--a-a"]));
    // The missing emulator ends the command before anything is fetched.
    expect![[r#"
        plan: runs/mine.toml (the same again or after an interruption: bakeoff run runs/mine.toml --qemu ./none --out runs/mine; to ask more, edit a copy of it)
    "#]]
    .assert_eq(&printed(&["--out", "runs/mine", "--qemu", "./none"]));
}

#[test]
fn each_workload_has_a_plan_that_check_accepts_without_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let output = bakeoff(dir.path(), &["new", "--json"]);
    let kinds: Value = serde_json::from_slice(&output.stdout).unwrap();
    let kinds = kinds.as_array().unwrap();
    assert!(kinds.len() > 15, "{}", kinds.len());
    for kind in kinds {
        let kind = kind["kind"].as_str().unwrap();
        let file = format!("{kind}.toml");
        let made = bakeoff(dir.path(), &["new", kind, &file]);
        assert_eq!(made.status.code(), Some(0), "{kind}");
        let checked = bakeoff(dir.path(), &["check", &file, "--json"]);
        let report: Value = serde_json::from_slice(&checked.stdout).unwrap();
        assert_eq!(checked.status.code(), Some(0), "{report}");
        assert_eq!(report["warnings"], serde_json::json!([]), "{kind}");
    }
    let again = bakeoff(dir.path(), &["new", "smb", "smb.toml"]);
    assert_eq!(again.status.code(), Some(2));
    assert_eq!(
        without_dir(&again.stderr, dir.path()),
        "bakeoff: file exists: smb.toml (remove it, or name another one)\n"
    );
}

#[test]
fn compare_warns_as_check_does() {
    let dir = tempfile::tempdir().unwrap();
    let args = [
        "compare",
        KERNELS[0],
        KERNELS[1],
        "--max-blocks",
        "2",
        "--plan-only",
    ];
    let output = bakeoff(dir.path(), &args);
    assert_eq!(output.status.code(), Some(0));
    let error = without_dir(&output.stderr, dir.path());
    let checked = bakeoff(
        dir.path(),
        &["check", "runs/compare-6.1-7.2.toml", "--json"],
    );
    let checked: Value = serde_json::from_slice(&checked.stdout).unwrap();
    let warnings = checked["warnings"].as_array().unwrap().iter();
    let lines: Vec<String> = warnings
        .map(|warning| format!("warning: {}\n", warning.as_str().unwrap()))
        .collect();
    assert_eq!(error, lines.concat());
    assert_eq!(
        error.matches("no difference can be told").count(),
        1,
        "{error}"
    );
}

#[test]
fn files_that_are_too_large_are_refused_by_check() {
    let dir = tempfile::tempdir().unwrap();
    write_program(dir.path());
    let large = fs::File::create(dir.path().join("large")).unwrap();
    large.set_len(300 << 20).unwrap();
    let text = "title = \"t\"\nbaseline = \"a\"\n[machine]\nkind = \"local\"\n[arm.a]\ncpus = 1\n[arm.b]\ncpus = 1\n\
        sysctl = { \"vm.swappiness\" = \"1\" }\n[[workload]]\nkind = \"command\"\ncommand = [\"{dir}/mine\"]\n\
        files = [\"mine\", \"large\"]\nlimit = \"1s\"\n";
    fs::write(dir.path().join("plan.toml"), text).unwrap();
    let output = bakeoff(dir.path(), &["check", "plan.toml"]);
    assert_eq!(output.status.code(), Some(2));
    expect![[r#"
        bakeoff: plan.toml:13: files of workloads too large: 300 MiB, of these large 300 MiB (at most 256 MiB together; larger ones belong in an image, with [[copy]] in its recipe)
    "#]].assert_eq(&without_dir(&output.stderr, dir.path()));
}

#[test]
fn a_plan_that_cannot_be_written_completely_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let written = |args: &str| {
        // A file size limit of zero has the effect of a full disk.
        let limit = format!("trap '' XFSZ; ulimit -f 0; exec \"$0\" {args}");
        let output = Command::new("sh")
            .args(["-c", &limit, env!("CARGO_BIN_EXE_bakeoff")])
            .current_dir(dir.path())
            .env("XDG_CACHE_HOME", dir.path().join("cache"))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{args}");
        without_dir(&output.stderr, dir.path())
    };
    expect!["bakeoff: cannot write plan.toml: File too large (os error 27)\n"]
        .assert_eq(&written("new smb plan.toml"));
    assert!(!dir.path().join("plan.toml").exists());
    let args = format!("compare {} {} --plan-only", KERNELS[0], KERNELS[1]);
    expect!["bakeoff: cannot write runs/compare-6.1-7.2.toml: File too large (os error 27)\n"]
        .assert_eq(&written(&args));
    assert_eq!(plans(dir.path()), Vec::<String>::new());
}

#[test]
fn runs_are_listed_with_their_verdicts_and_damaged_ones_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let run_dir = |name: &str| dir.path().join("runs").join(name);
    let world = |ratio| World::new(ratio, 0.001, &[]);
    world(1.1).run(&run_dir("better"), |_| false).unwrap();
    world(1.1)
        .run(&run_dir("stopped"), |entries| entries == 5)
        .unwrap();
    drop(undecided(&run_dir("open")));
    let panics = World::new(1.0, 0.001, &[Behaviour::Panics; 100]);
    panics.run(&run_dir("panics"), |_| false).unwrap();
    world(1.0).run(&run_dir("torn"), |_| false).unwrap();
    fs::write(run_dir("torn").join("journal.jsonl"), "{}\n{}\n").unwrap();
    fs::create_dir(run_dir("no-run")).unwrap();
    let plan = fs::read(run_dir("better").join("plan.toml")).unwrap();
    for name in ["planned", "planned-empty", "robbed"] {
        fs::create_dir_all(run_dir(name).join("trials")).unwrap();
        fs::write(run_dir(name).join("plan.toml"), &plan).unwrap();
    }
    fs::write(run_dir("planned-empty").join("journal.jsonl"), "").unwrap();
    fs::create_dir(run_dir("robbed").join("trials/001")).unwrap();
    let output = bakeoff(dir.path(), &["list", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let lines = listed["runs"].as_array().unwrap().iter().map(|run| {
        let verdict = &run["run"]["verdicts"][0];
        format!(
            "{} {} {} {}\n",
            run["dir"], run["state"], verdict["arm"], verdict["verdict"]
        )
    });
    expect![[r#"
        "runs/better" "complete" "new" "better"
        "runs/open" "undecided" "new" "undecided"
        "runs/panics" "complete" "new" "failed"
        "runs/planned" "not-begun" null null
        "runs/planned-empty" "not-begun" null null
        "runs/robbed" "damaged" null null
        "runs/stopped" "interrupted" "new" "undecided"
        "runs/torn" "damaged" null null
    "#]]
    .assert_eq(&lines.collect::<String>());
    let output = bakeoff(dir.path(), &["list"]);
    assert_eq!(output.status.code(), Some(0));
    let text = without_dir(&output.stdout, dir.path());
    assert!(text.contains("new better +9.98 %"), "{text}");
    assert!(text.contains("runs/planned  not begun\n"), "{text}");
    let output = bakeoff(dir.path(), &["list", "nowhere"]);
    assert_eq!(output.status.code(), Some(2));
    expect![[r#"
        bakeoff: no such directory: nowhere (name the directory that holds them)
    "#]]
    .assert_eq(&without_dir(&output.stderr, dir.path()));
}

/// Writes a program and a file that it reads from the working directory.
pub(crate) fn write_program(dir: &Path) {
    let script = "#!/bin/sh\nread words < input || exit 3\n[ \"$1\" = \"$PWD/input\" ] || exit 4\necho \"$words\"\n";
    fs::write(dir.join("mine"), script).unwrap();
    fs::set_permissions(dir.join("mine"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(dir.join("input"), "some words\n").unwrap();
}
