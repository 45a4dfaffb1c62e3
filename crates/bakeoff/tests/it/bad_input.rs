//! Mistakes of users: each gives one clear message with place, value and remedy, and exit status 2.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use expect_test::{Expect, expect};

use crate::program::bakeoff_with_new_cache as bakeoff;
use crate::program::{all_output, command, refusal, stdout};
use crate::simulated_lab::{PLAN, World};

/// Edits the plan, runs `bakeoff VERB plan.toml` and compares standard error. The status must be 2.
fn check(verb: &str, edits: &[(&str, &str)], want: &Expect) {
    let dir = tempfile::tempdir().unwrap();
    let mut text = PLAN.to_string();
    for (from, to) in edits {
        assert!(text.contains(from), "the plan has no {from:?}");
        text = text.replacen(from, to, 1);
    }
    std::fs::write(dir.path().join("plan.toml"), text).unwrap();
    let error = refusal(&bakeoff(dir.path(), &[verb, "plan.toml"]));
    want.assert_eq(&error.replace(&*dir.path().to_string_lossy(), "DIR"));
}

/// A new directory with this plan as `plan.toml`.
fn dir_with(plan: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("plan.toml"), plan).unwrap();
    dir
}

/// Runs the program where none of the programs that it needs is in the PATH.
fn without_programs(dir: &Path, args: &[&str]) -> Output {
    command(dir, args)
        .env("XDG_CACHE_HOME", dir.join("cache"))
        .env("PATH", "/nowhere")
        .env_remove("BAKEOFF_QEMU")
        .output()
        .unwrap()
}

#[test]
fn several_mistakes_in_a_plan_are_listed_together() {
    check(
        "check",
        &[
            ("connections = 4", "conections = 4"),
            ("baseline = \"old\"", "baseline = \"oldd\""),
            ("window = \"1s\"", "window = \"2h\""),
            ("[machine]\n", "[machine]\nmemmory = \"1GiB\"\n"),
        ],
        &expect![[r#"
            bakeoff: plan.toml:3: baseline is not an arm: "oldd" (did you mean "old"?)
            plan.toml:5: unknown key in [machine]: memmory (did you mean "memory"?)
            plan.toml:14: missing key in [[workload]]: connections (add connections = 60)
            plan.toml:17: unknown key in [[workload]]: conections (did you mean "connections"?)
        "#]],
    );
}

#[test]
fn a_plan_that_its_machine_cannot_run_is_refused_by_check_and_run_alike() {
    let refused = |verb: &str, plan: &str| {
        let dir = dir_with(plan);
        let error = refusal(&bakeoff(dir.path(), &[verb, "plan.toml"]));
        let left = std::fs::read_dir(dir.path()).unwrap().flatten();
        let left = left.filter(|file| file.file_name() != "cache");
        assert_eq!(left.count(), 1, "{verb} leaves the plan alone");
        error
    };
    let local = "title = \"unfit\"\nbaseline = \"a\"\n[machine]\nkind = \"local\"\n[arm.a]\n[arm.b]\ncpus = 1\n[[workload]]\n";
    let io_mix = format!("{local}kind = \"io-mix\"\n");
    let web = "kind = \"web-static\"\nserver = \"nginx\"\nconnections = 1\nwindow = \"1s\"\n";
    let queue = format!("{local}{web}").replace("cpus = 1", "io_scheduler = \"none\"");
    let few = format!("{local}{web}").replace(
        "kind = \"local\"",
        "kind = \"ssh\"\nhost = \"root@box\"\npower.cycle = [\"true\"]\nclients = [\"ssh:one\", \"ssh:two\"]",
    );
    let few = few
        .replace(
            "[arm.a]",
            "[image]\nrecipe = \"web\"\n[arm.a]\nkernel = \"debian:bookworm/6.1\"",
        )
        .replace("cpus = 1", "kernel = \"debian:bookworm/6.12\"");
    for (plan, want) in [
        (
            &io_mix,
            "bakeoff: plan.toml: a workload that has a disk to itself on a machine of kind \"local\" (write kind = \"qemu\")\n",
        ),
        (
            &queue,
            "bakeoff: plan.toml: io_scheduler, queue or file_system in arm b but no workload with a disk to itself (remove it, or add a \
             workload such as io-mix)\n",
        ),
        (
            &few,
            "bakeoff: plan.toml:7: clients: fewer connections than hosts (2): workload web-static, 1 (write connections = 2 or more)\n",
        ),
    ] {
        for verb in ["check", "run"] {
            assert_eq!(refused(verb, plan), want, "{verb}");
        }
    }
}

#[test]
fn arms_on_machines_of_different_kinds_are_refused() {
    let kernel = "kernel = \"debian:trixie-backports/7.2\"";
    check(
        "check",
        &[(kernel, "url = \"http://192.0.2.10\"")],
        &expect![[r#"
            bakeoff: plan.toml:12: url in an arm of machines of kind "qemu" (all arms are on one kind of machine: kind in [machine], then a kernel in each arm, or kind = "url" and a url in each)
        "#]],
    );
    check(
        "run",
        &[(kernel, &format!("{kernel}\nkind = \"local\""))],
        &expect![[r#"
            bakeoff: plan.toml:13: kind in an arm of machines of kind "qemu" (all arms are on one kind of machine: kind in [machine], then a kernel in each arm, or kind = "url" and a url in each)
        "#]],
    );
}

#[test]
fn zero_connections_are_refused() {
    check(
        "check",
        &[("connections = 4", "connections = 0")],
        &expect![[r#"
            bakeoff: plan.toml:16: connections out of range: 0 (write 1 to 10000)
        "#]],
    );
}

#[test]
fn a_missing_plan_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let error = refusal(&bakeoff(dir.path(), &["run", "nowhere.toml"]));
    assert!(error.contains("cannot read plan: nowhere.toml"), "{error}");
}

#[test]
fn a_missing_kernel_file_is_named() {
    check(
        "run",
        &[("debian:bookworm/6.1", "./no-such-vmlinuz")],
        &expect![[r#"
            bakeoff: plan.toml:10: no such file: ./no-such-vmlinuz (paths in a plan are taken from its directory)
        "#]],
    );
}

#[test]
fn what_no_guest_can_boot_is_refused_before_anything_is_fetched() {
    for verb in ["check", "run"] {
        check(
            verb,
            &[
                ("debian:bookworm/6.1", "/etc"),
                ("debian:trixie-backports/7.2", "/etc/passwd"),
                ("[machine]\n", "[machine]\ncpu_model = \"486\"\n"),
            ],
            &expect![[r#"
                bakeoff: plan.toml:5: cpu_model without 64-bit mode: 486 (name another, such as "qemu64" or "EPYC")
                plan.toml:11: no built kernel: /etc/arch/x86/boot/bzImage (run make bzImage modules in it)
                plan.toml:13: not a bootable x86_64 kernel: /etc/passwd (name a bzImage or vmlinuz)
            "#]],
        );
    }
}

#[test]
fn an_invalid_cpu_model_to_repeat_on_is_refused_before_anything_is_fetched() {
    let dir = dir_with(PLAN);
    for model in ["486", "host", "max,-erms"] {
        let option = format!("--models={model}");
        let error = refusal(&bakeoff(dir.path(), &["run", "plan.toml", &option]));
        let start = format!("bakeoff: {option}: CPU model ");
        assert!(error.starts_with(&start), "{error}");
    }
    assert!(!dir.path().join("cache/bakeoff/kernels").exists());
    assert!(!dir.path().join("runs").exists());
}

#[test]
fn a_program_of_an_unused_service_is_refused() {
    check(
        "check",
        &[(
            "debian:bookworm/6.1\"",
            "debian:bookworm/6.1\"\nprogram = { ngnix = \"/bin/true\" }",
        )],
        &expect![[r#"
            bakeoff: plan.toml:11: program of a service that no workload has: "ngnix" (known: apache2)
        "#]],
    );
}

#[test]
fn more_memory_than_the_host_has_is_refused() {
    let plan = PLAN.replacen("[machine]\n", "[machine]\nmemory = \"1TiB\"\n", 1);
    let dir = dir_with(&plan);
    for verb in ["check", "run"] {
        let error = refusal(&bakeoff(dir.path(), &[verb, "plan.toml"]));
        let start = "bakeoff: plan.toml:5: memory beyond what this host has: 1.00 TiB of ";
        assert!(error.starts_with(start), "{error}");
    }
    assert!(!dir.path().join("cache/bakeoff/kernels").exists());
}

#[test]
fn a_program_that_is_not_qemu_is_refused() {
    let dir = dir_with(PLAN);
    for (qemu, why) in [
        ("/bin/true", "not a QEMU: /bin/true"),
        ("/etc/passwd", "cannot use this QEMU: /etc/passwd"),
        ("nowhere/qemu", "cannot use this QEMU: nowhere/qemu"),
    ] {
        for verb in ["check", "run"] {
            let error = refusal(&bakeoff(dir.path(), &[verb, "plan.toml", "--qemu", qemu]));
            assert!(error.contains(why), "{qemu}: {error}");
        }
    }
    assert!(!dir.path().join("cache/bakeoff/kernels").exists());
    assert!(!dir.path().join("runs").exists());
}

#[test]
fn check_warns_of_a_qemu_without_plugins_if_instructions_are_counted() {
    let plan = PLAN.replacen(
        "[machine]\n",
        "[why]\n[machine]\nclock = \"instructions\"\n",
        1,
    );
    let dir = dir_with(&plan);
    let qemu = dir.path().join("qemu");
    let script = "#!/bin/sh\ncase \"$*\" in\n\
        --version) echo 'QEMU emulator version 10.0.13' ;;\n\
        '-cpu help') echo 'Available CPUs:'; echo ' max'; echo ' neoverse-n1' ;;\n\
        *-plugin*) echo 'qemu: -plugin: invalid option' >&2; exit 1 ;;\nesac\n";
    std::fs::write(&qemu, script).unwrap();
    std::fs::set_permissions(&qemu, std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = bakeoff(dir.path(), &["check", "plan.toml", "--qemu", "./qemu"]);
    let report = stdout(&output);
    assert!(output.status.success(), "{report}");
    assert!(
        report.contains("no profiles: QEMU 10.0.13 does not load the profiler's plugin: ")
            && report.contains("-plugin: invalid option (name another QEMU with --qemu PATH"),
        "{report}"
    );
    let counts = "no instructions can be counted: QEMU 10.0.13 does not load the plugin that counts string instructions: ";
    assert!(report.contains(counts), "{report}");
}

#[test]
fn an_explanation_in_two_formats_at_once_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for args in [
        &["why", "run", "--folded", "1", "--json"][..],
        &["why", "run", "--json", "--markdown"],
    ] {
        let error = refusal(&bakeoff(dir.path(), args));
        assert!(error.contains("cannot be used with"), "{error}");
    }
}

#[test]
fn the_option_qemu_is_refused_if_nothing_is_emulated() {
    let plan = "title = \"t\"\nbaseline = \"one\"\n[machine]\nkind = \"local\"\n[arm.one]\n[arm.two]\n\
                [[workload]]\nkind = \"web-static\"\nserver = \"nginx\"\nconnections = 4\nwindow = \"1s\"\n";
    let dir = dir_with(plan);
    for verb in ["check", "run"] {
        let output = bakeoff(dir.path(), &[verb, "plan.toml", "--qemu", "/usr/bin/qemu"]);
        assert_eq!(
            refusal(&output),
            "bakeoff: --qemu does not apply to a machine of kind \"local\": nothing is emulated (leave it out)\n"
        );
    }
    // The environment variable is for every plan, so it is not refused.
    let mut check = command(dir.path(), &["check", "plan.toml"]);
    let output = check.env("BAKEOFF_QEMU", "/bin/true").output().unwrap();
    assert_eq!(output.status.code(), Some(0));
}

/// Runs a shell command; after a minute it is ended, because it may wait for a FIFO without a
/// writer.
fn shell(dir: &Path, command: &str) -> (Option<i32>, String) {
    let output = Command::new("timeout")
        .args(["60", "bash", "-c", command])
        .current_dir(dir)
        .env("BAKEOFF", env!("CARGO_BIN_EXE_bakeoff"))
        .env("XDG_CACHE_HOME", dir.join("cache"))
        .output()
        .unwrap();
    (output.status.code(), all_output(&output))
}

#[test]
fn fifos_devices_and_directories_are_refused_as_files() {
    let dir = dir_with(PLAN);
    let setup = "mkdir -p run night/begun/trials/001 other dir && cp plan.toml run && cp plan.toml night/begun && \
                   mkfifo fifo run/journal.jsonl night/begun/journal.jsonl other/plan.toml";
    assert_eq!(shell(dir.path(), setup).0, Some(0));
    for (command, why) in [
        (
            "check fifo",
            "cannot read plan: fifo: not a regular file: it is a FIFO",
        ),
        (
            "run dir",
            "cannot read plan: dir: not a regular file: it is a directory",
        ),
        (
            "check /dev/zero",
            "cannot read plan: /dev/zero: not a regular file: it is a device",
        ),
        (
            "show run",
            "cannot read journal: run/journal.jsonl: not a regular file: it is a FIFO",
        ),
        (
            "show night/begun",
            "cannot read journal: night/begun/journal.jsonl: not a regular file: it is a FIFO",
        ),
        // The second `index` checks whether the summary of the first one is still valid.
        (
            "show night > /dev/null && \"$BAKEOFF\" show night --fail-on worse",
            "begun: damaged: cannot read journal: ",
        ),
        (
            "show run --report",
            "cannot read journal: run/journal.jsonl: not a regular file: it is a FIFO",
        ),
        ("show other", "no runs in "),
        (
            "judge fifo",
            "fifo: cannot be read: not a regular file: it is a FIFO",
        ),
        (
            "load http://127.0.0.1:1/ --script fifo",
            "--script: cannot read fifo: not a regular file: it is a FIFO",
        ),
    ] {
        let (status, output) = shell(dir.path(), &format!("\"$BAKEOFF\" {command}"));
        // A damaged plan gives a gate no answer.
        let expected = if command.contains("--fail-on") { 3 } else { 2 };
        assert_eq!(status, Some(expected), "{command}: {output}");
        assert!(output.contains(why), "{command}: {output}");
    }
    // A FIFO as the lock counts as not locked.
    let setup = "mkdir -p runs/idle && cp plan.toml runs/idle && mkfifo runs/idle/lock";
    let command = format!("{setup} && \"$BAKEOFF\" list");
    let (status, output) = shell(dir.path(), &command);
    assert_eq!(status, Some(0), "{output}");
    assert!(output.contains("runs/idle"), "{output}");
    let command = "mkfifo dir/night.lock && cp plan.toml other.toml && \"$BAKEOFF\" run plan.toml other.toml --out dir";
    let (status, output) = shell(dir.path(), command);
    assert_eq!(status, Some(2), "{output}");
    let why = "cannot create dir/night.lock: not a regular file: it is a FIFO";
    assert!(output.contains(why), "{output}");
}

#[test]
fn plans_and_figures_may_come_through_a_pipe() {
    let dir = dir_with(PLAN);
    for command in [
        "cat plan.toml | \"$BAKEOFF\" check /dev/stdin",
        "\"$BAKEOFF\" check /dev/stdin < plan.toml",
        "\"$BAKEOFF\" check <(cat plan.toml)",
    ] {
        let (status, output) = shell(dir.path(), command);
        assert_eq!(status, Some(0), "{command}: {output}");
        assert!(output.contains("a simulated comparison"), "{output}");
    }
    let figures = "\"$BAKEOFF\" judge --lower-is-better old=<(seq 100 109) new=<(seq 200 209)";
    let (status, output) = shell(dir.path(), figures);
    assert_eq!(status, Some(0), "{output}");
}

#[test]
fn help_names_the_environment_variable_without_stray_backticks() {
    let dir = tempfile::tempdir().unwrap();
    for verb in ["check", "run", "doctor"] {
        let help = stdout(&bakeoff(dir.path(), &[verb, "--help"]));
        assert!(
            help.contains("BAKEOFF_QEMU") && !help.contains("$`"),
            "{help}"
        );
    }
}

#[test]
fn a_qemu_with_two_names_is_listed_once() {
    let dir = tempfile::tempdir().unwrap();
    let qemu = "#!/bin/sh\ncase $1 in\n--version) echo 'QEMU emulator version 10.0.1';;\n\
                *) echo 'Available CPUs:\n  max  all\n\nRecognized CPUID flags:\n  erms';;\nesac\n";
    let setup = format!(
        "mkdir bin && printf '%s' \"$0\" > bin/qemu-system-x86_64 && chmod 755 bin/* && ln -s bin link; \
         PATH=$PWD/bin:$PATH; for name in qemu-system-x86_64 bin/qemu-system-x86_64 link/qemu-system-x86_64; do \
         {} cache qemu list --qemu $name; done",
        env!("CARGO_BIN_EXE_bakeoff")
    );
    let mut bash = Command::new("bash");
    bash.args(["-c", &setup, qemu]).current_dir(dir.path());
    bash.env("XDG_CACHE_HOME", dir.path().join("cache"));
    let list = all_output(&bash.output().unwrap());
    assert_eq!(list.matches("QEMU 10.0.1").count(), 3, "{list}");
    assert_eq!(list.matches("used").count(), 3, "{list}");
}

#[test]
fn an_unknown_suite_is_named_with_the_known_ones() {
    check(
        "check",
        &[("debian:bookworm/6.1", "debian:bokworm/6.1")],
        &expect![[r#"
            bakeoff: plan.toml:10: unknown Debian suite: "bokworm" (did you mean "bookworm"?)
        "#]],
    );
}

#[test]
fn an_unknown_recipe_is_named_with_the_known_ones() {
    check(
        "check",
        &[("\"web\"", "\"wbe\"")],
        &expect![[r#"
            bakeoff: plan.toml:8: no such image recipe: "wbe" (did you mean "web"?; a path ending in .toml names one of your own)
        "#]],
    );
}

#[test]
fn an_unknown_suite_of_an_image_is_named() {
    check(
        "check",
        &[("recipe = \"web\"", "recipe = \"web\"\nsuite = \"trixy\"")],
        &expect![[r#"
            bakeoff: plan.toml:9: not a Debian suite for an image: "trixy" (did you mean "trixie"?)
        "#]],
    );
}

#[test]
fn all_missing_programs_are_reported_before_anything_is_fetched() {
    let dir = dir_with(PLAN);
    for args in [&["run", "plan.toml"][..], &["doctor"]] {
        let output = without_programs(dir.path(), args);
        let text = all_output(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        // QEMU is not among them, because a run fetches one.
        for missing in ["mmdebstrap", "apt-get", "unshare"] {
            assert!(text.contains(missing), "{missing} in {text}");
        }
        // Without apt-get, the remedy cannot be an apt-get command.
        let remedy = "on Debian the package mmdebstrap does";
        assert!(text.contains(remedy), "{text}");
    }
    assert!(!dir.path().join("cache/bakeoff/kernels").exists());
}

#[test]
fn a_directory_without_a_run_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let error = refusal(&bakeoff(dir.path(), &["show", "."]));
    assert!(error.contains("no runs in "), "{error}");
    let error = refusal(&bakeoff(dir.path(), &["show"]));
    assert!(error.contains("name a run directory"), "{error}");
}

#[test]
fn a_run_directory_that_holds_other_things_is_left_alone() {
    let dir = dir_with(PLAN);
    std::fs::create_dir(dir.path().join("thesis")).unwrap();
    std::fs::write(dir.path().join("thesis/chapter1"), "words").unwrap();
    let output = bakeoff(dir.path(), &["run", "plan.toml", "--out", "thesis"]);
    let error = refusal(&output);
    assert!(error.contains("something other than a run"), "{error}");
    assert_eq!(dir.path().join("thesis").read_dir().unwrap().count(), 1);
}

#[test]
fn an_invalid_cache_limit_is_refused_and_an_empty_cache_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let output = bakeoff(dir.path(), &["cache", "prune", "--to", "lots"]);
    let error = refusal(&output);
    assert!(error.contains("not a size: \"lots\""), "{error}");
    let output = bakeoff(dir.path(), &["cache", "list", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let cache: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(cache["entries"], serde_json::json!([]));
    assert!(cache["limit_bytes"].as_u64().unwrap() > 0);
    let kernels = stdout(&bakeoff(dir.path(), &["cache", "kernel", "list"]));
    assert!(
        kernels.starts_with("no kernels in the cache ("),
        "{kernels}"
    );
}

#[test]
fn an_invalid_setting_to_confirm_is_refused_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    World::new(1.1, 0.001, &[]).run(&run, |_| false).unwrap();
    let output = bakeoff(
        dir.path(),
        &["why", "run", "--confirm", "debugfs:/etc/passwd=1"],
    );
    expect![[r#"
        bakeoff: --confirm debugfs:/etc/passwd=1: not a path below debugfs: "/etc/passwd" (write it as "sched/features")
    "#]]
    .assert_eq(&refusal(&output));
    let files = dir.path().read_dir().unwrap();
    let names = files.map(|file| file.unwrap().file_name());
    let left: Vec<_> = names.filter(|name| name != "cache").collect();
    assert_eq!(left, ["run"]);
}

#[test]
fn control_characters_from_files_are_escaped() {
    const OBEYED: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J";
    let dir = tempfile::tempdir().unwrap();
    let plan = PLAN.replacen("title = \"", r#"title = "\u001b]0;owned\u0007\u001b[2J"#, 1);
    std::fs::write(dir.path().join("titled.toml"), plan).unwrap();
    let figures = format!(
        "arm,block,metric,value\nold,1,s,10\n{OBEYED},1,s,11\nold,2,s,10.5\n{OBEYED},2,s,11.5\n"
    );
    std::fs::write(dir.path().join("figures.csv"), figures).unwrap();
    let run = dir.path().join("run");
    World::new(1.1, 0.001, &[]).run(&run, |_| false).unwrap();
    let journal = run.join("journal.jsonl");
    let text = std::fs::read_to_string(&journal).unwrap();
    let hostile = text.replacen("\"fake\"", r#""\u001b]0;owned\u0007\u001b[2J""#, 1);
    assert_ne!(hostile, text);
    std::fs::write(&journal, hostile).unwrap();
    for (args, status) in [
        ("show run", 2),
        ("list .", 0),
        ("check titled.toml", 0),
        ("judge figures.csv --higher-is-better", 0),
    ] {
        let (code, output) = shell(dir.path(), &format!("\"$BAKEOFF\" {args}"));
        assert_eq!(code, Some(status), "{args}: {output}");
        assert!(output.contains(r"\u{1b}]0;owned\u{7}\u{1b}[2J"), "{output}");
        let is_control = |letter: char| letter.is_control() && letter != '\n';
        assert!(!output.contains(is_control), "{output:?}");
    }
}

#[test]
fn an_invalid_cache_limit_in_the_environment_is_refused_before_anything_is_done() {
    let dir = dir_with(PLAN);
    let limited = |args: &[&str]| {
        command(dir.path(), args)
            .env("XDG_CACHE_HOME", dir.path().join("cache"))
            .env("BAKEOFF_CACHE_LIMIT", "abc")
            .output()
            .unwrap()
    };
    let output = limited(&["run", "plan.toml"]);
    expect![[r#"
        bakeoff: BAKEOFF_CACHE_LIMIT is no size: "abc" (write one such as 20GiB, or unset it)
    "#]]
    .assert_eq(&refusal(&output));
    assert!(!dir.path().join("runs").exists());
    let output = limited(&["doctor"]);
    assert_eq!(output.status.code(), Some(2));
    let report = stdout(&output);
    let line =
        "BAKEOFF_CACHE_LIMIT is no size: \"abc\"\n         write one such as 20GiB, or unset it\n";
    assert!(report.contains(line), "{report}");
}

/// A valid index cannot be made without Debian's keys, so this test only checks which mirror is
/// used.
#[test]
fn a_failed_refresh_keeps_the_index_and_its_mirror() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("cache/bakeoff/apt/bookworm");
    std::fs::create_dir_all(&root).unwrap();
    std::fs::write(root.join("fetched"), "http://mirror.invalid/debian").unwrap();
    let list = |mirror: &str, refresh: &[&str]| {
        let mut list = command(dir.path(), &["cache", "kernel", "list", "debian:bookworm"]);
        list.args(refresh)
            .env("XDG_CACHE_HOME", dir.path().join("cache"))
            .env("BAKEOFF_DEBIAN_MIRROR", mirror);
        refusal(&list.output().unwrap())
    };
    expect![[r#"
        bakeoff: BAKEOFF_DEBIAN_MIRROR is no URI: "nonsense" (write one such as http://HOST/debian, or unset it)
    "#]]
    .assert_eq(&list("nonsense", &["--refresh"]));
    assert!(!root.join("sources.list").exists());
    let error = list("file:/nowhere/debian", &["--refresh"]);
    assert!(
        error.contains("cannot fetch the index of bookworm from file:/nowhere/debian"),
        "{error}"
    );
    let sources = || std::fs::read_to_string(root.join("sources.list")).unwrap();
    assert!(sources().contains("file:/nowhere/debian"), "{}", sources());
    let error = list("", &[]);
    assert!(
        error.contains("no packages in the index of bookworm: "),
        "{error}"
    );
    assert!(
        sources().contains(" http://mirror.invalid/debian bookworm"),
        "{}",
        sources()
    );
}

#[test]
fn output_to_a_full_device_ends_with_status_2() {
    let dir = tempfile::tempdir().unwrap();
    for command in ["--help", "run --help", "--version", "show --checks", "new"] {
        let (status, output) = shell(dir.path(), &format!("\"$BAKEOFF\" {command} > /dev/full"));
        assert_eq!(status, Some(2), "{command}: {output}");
        let why = "bakeoff: cannot write to standard output: No space left on device";
        assert!(output.contains(why), "{command}: {output}");
    }
    let (status, output) = shell(dir.path(), "\"$BAKEOFF\" --help");
    assert_eq!(status, Some(0));
    assert!(output.contains("Usage: bakeoff"), "{output}");
    let (status, output) = shell(dir.path(), "\"$BAKEOFF\" rnu > /dev/full");
    assert_eq!(status, Some(2));
    assert!(output.contains("unrecognized subcommand 'rnu'"), "{output}");
}

/// Even root cannot read a link to itself.
#[test]
fn a_cache_that_cannot_be_read_is_not_an_empty_one() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("cache")).unwrap();
    std::os::unix::fs::symlink("bakeoff", dir.path().join("cache/bakeoff")).unwrap();
    for args in [
        &["cache", "list"][..],
        &["cache", "prune"],
        &["cache", "kernel", "list"],
    ] {
        let output = bakeoff(dir.path(), args);
        let text = all_output(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {text}");
        assert!(text.contains("cannot read the cache: "), "{args:?}: {text}");
    }
    let doctor = stdout(&bakeoff(dir.path(), &["doctor"]));
    assert!(doctor.contains("cannot be read"), "{doctor}");
}

#[test]
fn check_names_the_kernels_that_it_could_not_look_up() {
    let dir = dir_with(PLAN);
    let output = bakeoff(dir.path(), &["check", "plan.toml"]);
    let report = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{report}");
    let line = "unchecked  arm old: whether bookworm has a kernel \"6.1\": no list of packages in the cache";
    assert!(report.contains(line), "{report}");
}

#[test]
fn a_run_that_is_refused_before_it_begins_leaves_nothing() {
    let dir = dir_with(PLAN);
    let compare = [
        "compare",
        "debian:bookworm/6.1",
        "debian:trixie-backports/7.2",
    ];
    for args in [&["run", "plan.toml"][..], &compare] {
        let error = refusal(&without_programs(dir.path(), args));
        let runs = dir.path().join("runs").read_dir();
        let left: Vec<_> = runs.into_iter().flatten().flatten().collect();
        assert!(left.is_empty(), "{args:?} left {left:?}: {error}");
    }
}
