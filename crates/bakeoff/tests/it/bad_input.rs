//! What a user can get wrong: one clear message with place, value and remedy, and exit status 2.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use expect_test::{Expect, expect};

use crate::program::bakeoff_with_new_cache as bakeoff;
use crate::simulated_lab::{PLAN, World};

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
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("plan.toml"), plan).unwrap();
        let output = bakeoff(dir.path(), &[verb, "plan.toml"]);
        assert_eq!(output.status.code(), Some(2));
        let left = std::fs::read_dir(dir.path()).unwrap().flatten();
        let left = left.filter(|one| one.file_name() != "cache");
        assert_eq!(left.count(), 1, "{verb} leaves the plan alone");
        String::from_utf8(output.stderr).unwrap()
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
            bakeoff: plan.toml:10: no such file: no-such-vmlinuz (paths are taken from the plan's directory)
        "#]],
    );
}

#[test]
fn what_no_guest_can_boot_is_told_before_anything_is_fetched() {
    for verb in ["check", "run"] {
        check(
            verb,
            &[
                ("debian:bookworm/6.1", "tree:/etc"),
                ("debian:trixie-backports/7.2", "file:/etc/passwd"),
                ("[machine]\n", "[machine]\ncpu_model = \"486\"\n"),
            ],
            &expect![[r#"
                bakeoff: plan.toml:5: cpu_model without 64-bit mode: 486 (name another, such as "qemu64" or "EPYC")
                plan.toml:11: no built kernel: /etc/arch/x86/boot/bzImage (run make bzImage modules in it)
                plan.toml:13: not a bootable x86 kernel: /etc/passwd (name a bzImage or vmlinuz)
            "#]],
        );
    }
}

#[test]
fn a_model_to_repeat_on_that_is_none_is_refused_before_anything_is_fetched() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("plan.toml"), PLAN).unwrap();
    for model in ["486", "host", "max,-erms"] {
        let option = format!("--models={model}");
        let output = bakeoff(dir.path(), &["run", "plan.toml", &option]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        let start = format!("bakeoff: {option}: CPU model ");
        assert!(said.starts_with(&start), "{said}");
    }
    assert!(!dir.path().join("cache/bakeoff/kernels").exists());
    assert!(!dir.path().join("runs").exists());
}

#[test]
fn a_program_of_a_service_that_nothing_starts_is_refused() {
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
    let dir = tempfile::tempdir().unwrap();
    let plan = PLAN.replacen("[machine]\n", "[machine]\nmemory = \"1TiB\"\n", 1);
    std::fs::write(dir.path().join("plan.toml"), plan).unwrap();
    for verb in ["check", "run"] {
        let output = bakeoff(dir.path(), &[verb, "plan.toml"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        let start = "bakeoff: plan.toml:5: memory beyond what this host has: 1.00 TiB of ";
        assert!(said.starts_with(start), "{said}");
    }
    assert!(!dir.path().join("cache/bakeoff/kernels").exists());
}

#[test]
fn a_qemu_that_is_none_is_refused_without_a_cpu_model_too() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("plan.toml"), PLAN).unwrap();
    for (qemu, why) in [
        ("/bin/true", "not a QEMU: /bin/true"),
        ("/etc/passwd", "cannot use this QEMU: /etc/passwd"),
        ("nowhere/qemu", "cannot use this QEMU: nowhere/qemu"),
    ] {
        for verb in ["check", "run"] {
            let output = bakeoff(dir.path(), &[verb, "plan.toml", "--qemu", qemu]);
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{qemu}: {said}");
            assert!(said.contains(why), "{said}");
        }
    }
    assert!(!dir.path().join("cache/bakeoff/kernels").exists());
    assert!(!dir.path().join("runs").exists());
}

#[test]
fn a_qemu_without_plugins_is_warned_of_where_instructions_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let plan = PLAN.replacen(
        "[machine]\n",
        "[why]\n[machine]\nclock = \"instructions\"\n",
        1,
    );
    std::fs::write(dir.path().join("plan.toml"), plan).unwrap();
    let qemu = dir.path().join("qemu");
    let script = "#!/bin/sh\ncase \"$*\" in\n\
        --version) echo 'QEMU emulator version 10.0.13' ;;\n\
        *-plugin*) echo 'qemu: -plugin: invalid option' >&2; exit 1 ;;\nesac\n";
    std::fs::write(&qemu, script).unwrap();
    std::fs::set_permissions(&qemu, std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = bakeoff(dir.path(), &["check", "plan.toml", "--qemu", "./qemu"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("no profiles: QEMU 10.0.13 does not load the profiler's plugin: ")
            && said.contains("-plugin: invalid option (name another QEMU with --qemu PATH"),
        "{said}"
    );
    let counts = "no instructions can be counted: QEMU 10.0.13 does not load the plugin that counts string instructions: ";
    assert!(said.contains(counts), "{said}");
}

#[test]
fn an_explanation_in_two_formats_at_once_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for words in [
        &["why", "run", "--folded", "1", "--json"][..],
        &["why", "run", "--json", "--markdown"],
    ] {
        let output = bakeoff(dir.path(), words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("cannot be used with"), "{said}");
    }
}

#[test]
fn a_qemu_for_a_plan_that_emulates_nothing_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let plan = "title = \"t\"\nbaseline = \"one\"\n[machine]\nkind = \"local\"\n[arm.one]\n[arm.two]\n\
                [[workload]]\nkind = \"web-static\"\nserver = \"nginx\"\nconnections = 4\nwindow = \"1s\"\n";
    std::fs::write(dir.path().join("plan.toml"), plan).unwrap();
    for verb in ["check", "run"] {
        let output = bakeoff(dir.path(), &[verb, "plan.toml", "--qemu", "/usr/bin/qemu"]);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(
            String::from_utf8(output.stderr).unwrap(),
            "bakeoff: --qemu does not apply to a machine of kind \"local\": nothing is emulated (leave it out)\n"
        );
    }
    // The variable holds for every plan.
    let mut command = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
    command.args(["check", "plan.toml"]).current_dir(dir.path());
    let status = command.env("BAKEOFF_QEMU", "/bin/true").output().unwrap();
    assert_eq!(status.status.code(), Some(0));
}

/// Runs a shell command; one that waits for whom nobody writes to is ended.
fn shell(dir: &Path, command: &str) -> (Option<i32>, String) {
    let output = Command::new("timeout")
        .args(["60", "bash", "-c", command])
        .current_dir(dir)
        .env("BAKEOFF", env!("CARGO_BIN_EXE_bakeoff"))
        .env("XDG_CACHE_HOME", dir.join("cache"))
        .output()
        .unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.code(), said)
}

#[test]
fn only_regular_files_are_read_in_the_place_of_files() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("plan.toml"), PLAN).unwrap();
    let setting = "mkdir -p run night/begun/trials/001 other dir && cp plan.toml run && cp plan.toml night/begun && \
                   mkfifo fifo run/journal.jsonl night/begun/journal.jsonl other/plan.toml";
    assert_eq!(shell(dir.path(), setting).0, Some(0));
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
            "judge run",
            "cannot read journal: run/journal.jsonl: not a regular file: it is a FIFO",
        ),
        (
            "judge night/begun",
            "cannot read journal: night/begun/journal.jsonl: not a regular file: it is a FIFO",
        ),
        // The second one looks whether the first one's summary still holds.
        (
            "index night > /dev/null && \"$BAKEOFF\" index night --fail-on worse",
            "begun: damaged: cannot read journal: ",
        ),
        (
            "report run",
            "cannot read journal: run/journal.jsonl: not a regular file: it is a FIFO",
        ),
        (
            "report other",
            "cannot read plan: other/plan.toml: not a regular file: it is a FIFO",
        ),
        (
            "judge fifo",
            "fifo: cannot be read: not a regular file: it is a FIFO",
        ),
        (
            "load http://127.0.0.1:1/ --script fifo",
            "--script: cannot read fifo: not a regular file: it is a FIFO",
        ),
    ] {
        let (status, said) = shell(dir.path(), &format!("\"$BAKEOFF\" {command}"));
        assert_eq!(status, Some(2), "{command}: {said}");
        assert!(said.contains(why), "{command}: {said}");
    }
    // A lock that is none is held by nobody.
    let setting = "mkdir -p runs/idle && cp plan.toml runs/idle && mkfifo runs/idle/lock";
    let command = format!("{setting} && \"$BAKEOFF\" list");
    let (status, said) = shell(dir.path(), &command);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("runs/idle"), "{said}");
    let command = "mkfifo dir/night.lock && cp plan.toml other.toml && \"$BAKEOFF\" run plan.toml other.toml --out dir";
    let (status, said) = shell(dir.path(), command);
    assert_eq!(status, Some(2), "{said}");
    let why = "cannot create dir/night.lock: not a regular file: it is a FIFO";
    assert!(said.contains(why), "{said}");
}

#[test]
fn a_plan_and_figures_may_come_through_a_pipe() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("plan.toml"), PLAN).unwrap();
    for command in [
        "cat plan.toml | \"$BAKEOFF\" check /dev/stdin",
        "\"$BAKEOFF\" check /dev/stdin < plan.toml",
        "\"$BAKEOFF\" check <(cat plan.toml)",
    ] {
        let (status, said) = shell(dir.path(), command);
        assert_eq!(status, Some(0), "{command}: {said}");
        assert!(said.contains("a simulated comparison"), "{said}");
    }
    let figures = "\"$BAKEOFF\" judge --lower-is-better old=<(seq 100 109) new=<(seq 200 209)";
    let (status, said) = shell(dir.path(), figures);
    assert_eq!(status, Some(0), "{said}");
}

#[test]
fn help_names_the_variable_without_stray_signs() {
    let dir = tempfile::tempdir().unwrap();
    for verb in ["check", "run", "doctor"] {
        let said = String::from_utf8(bakeoff(dir.path(), &[verb, "--help"]).stdout).unwrap();
        assert!(
            said.contains("BAKEOFF_QEMU") && !said.contains("$`"),
            "{said}"
        );
    }
}

#[test]
fn one_qemu_by_two_names_is_listed_once() {
    let dir = tempfile::tempdir().unwrap();
    let qemu = "#!/bin/sh\ncase $1 in\n--version) echo 'QEMU emulator version 10.0.1';;\n\
                *) echo 'Available CPUs:\n  max  all\n\nRecognized CPUID flags:\n  erms';;\nesac\n";
    let setting = format!(
        "mkdir bin && printf '%s' \"$0\" > bin/qemu-system-x86_64 && chmod 755 bin/* && ln -s bin link; \
         PATH=$PWD/bin:$PATH; for name in qemu-system-x86_64 bin/qemu-system-x86_64 link/qemu-system-x86_64; do \
         {} qemu list --qemu $name; done",
        env!("CARGO_BIN_EXE_bakeoff")
    );
    let mut command = Command::new("bash");
    let command = command.args(["-c", &setting, qemu]).current_dir(dir.path());
    let output = command.env("XDG_CACHE_HOME", dir.path().join("cache"));
    let output = output.output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert_eq!(said.matches("QEMU 10.0.1").count(), 3, "{said}");
    assert_eq!(said.matches("used").count(), 3, "{said}");
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
fn a_suite_that_no_image_can_be_made_of_is_named() {
    check(
        "check",
        &[("recipe = \"web\"", "recipe = \"web\"\nsuite = \"trixy\"")],
        &expect![[r#"
            bakeoff: plan.toml:9: not a Debian suite for an image: "trixy" (did you mean "trixie"?)
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
fn a_cache_limit_that_is_no_size_is_refused_and_an_empty_cache_is_told() {
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
    let output = bakeoff(dir.path(), &["kernel", "list"]);
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.starts_with("no kernels in the cache ("), "{told}");
}

#[test]
fn a_setting_that_no_plan_can_have_is_refused_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    World::new(1.1, 0.001, &[]).run(&run, |_| false).unwrap();
    let output = bakeoff(
        dir.path(),
        &["why", "run", "--confirm", "debugfs:/etc/passwd=1"],
    );
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    expect![[r#"
        bakeoff: --confirm debugfs:/etc/passwd=1: not a path below debugfs: "/etc/passwd" (write it as "sched/features")
    "#]]
    .assert_eq(&said);
    let left = dir.path().read_dir().unwrap();
    let left = left.map(|file| file.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name != "cache").collect();
    assert_eq!(left, ["run"]);
}

#[test]
fn what_a_file_says_gives_a_terminal_nothing_to_obey() {
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
    let wrong = text.replacen("\"fake\"", r#""\u001b]0;owned\u0007\u001b[2J""#, 1);
    assert_ne!(wrong, text);
    std::fs::write(&journal, wrong).unwrap();
    for (words, status) in [
        ("judge run", 2),
        ("list .", 0),
        ("check titled.toml", 0),
        ("judge figures.csv --higher-is-better", 0),
    ] {
        let (ended, said) = shell(dir.path(), &format!("\"$BAKEOFF\" {words}"));
        assert_eq!(ended, Some(status), "{words}: {said}");
        assert!(said.contains(r"\u{1b}]0;owned\u{7}\u{1b}[2J"), "{said}");
        let is_bare = |letter: char| letter.is_control() && letter != '\n';
        assert!(!said.contains(is_bare), "{said:?}");
    }
}

#[test]
fn a_cache_limit_of_the_environment_that_is_no_size_is_refused_before_anything_is_done() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("plan.toml"), PLAN).unwrap();
    let limited = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
        command
            .args(words)
            .current_dir(dir.path())
            .env("XDG_CACHE_HOME", dir.path().join("cache"))
            .env("BAKEOFF_CACHE_LIMIT", "abc");
        command.output().unwrap()
    };
    let output = limited(&["run", "plan.toml"]);
    assert_eq!(output.status.code(), Some(2));
    expect![[r#"
        bakeoff: BAKEOFF_CACHE_LIMIT is no size: "abc" (write one such as 20GiB, or unset it)
    "#]]
    .assert_eq(&String::from_utf8(output.stderr).unwrap());
    assert!(!dir.path().join("runs").exists());
    let output = limited(&["doctor"]);
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8(output.stdout).unwrap();
    let line =
        "BAKEOFF_CACHE_LIMIT is no size: \"abc\"\n         write one such as 20GiB, or unset it\n";
    assert!(told.contains(line), "{told}");
}

/// No index that apt would take can be made without Debian's keys; what is asked here is which mirror it is of.
#[test]
fn a_refresh_that_fails_leaves_the_index_of_the_mirror_that_it_is_of() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("cache/bakeoff/apt/bookworm");
    std::fs::create_dir_all(&root).unwrap();
    std::fs::write(root.join("fetched"), "http://mirror.invalid/debian").unwrap();
    let list = |mirror: &str, refresh: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
        command
            .args(["kernel", "list", "debian:bookworm"])
            .args(refresh)
            .env("XDG_CACHE_HOME", dir.path().join("cache"))
            .env("BAKEOFF_DEBIAN_MIRROR", mirror);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    expect![[r#"
        bakeoff: BAKEOFF_DEBIAN_MIRROR is no URI: "nonsense" (write one such as http://HOST/debian, or unset it)
    "#]]
    .assert_eq(&list("nonsense", &["--refresh"]));
    assert!(!root.join("sources.list").exists());
    let said = list("file:/nowhere/debian", &["--refresh"]);
    assert!(
        said.contains("cannot fetch the index of bookworm from file:/nowhere/debian"),
        "{said}"
    );
    let source = || std::fs::read_to_string(root.join("sources.list")).unwrap();
    assert!(source().contains("file:/nowhere/debian"), "{}", source());
    let said = list("", &[]);
    assert!(
        said.contains("no packages in the index of bookworm: "),
        "{said}"
    );
    assert!(
        source().contains(" http://mirror.invalid/debian bookworm"),
        "{}",
        source()
    );
}

#[test]
fn output_to_a_full_device_is_told_with_status_2() {
    let dir = tempfile::tempdir().unwrap();
    for command in [
        "--help",
        "run --help",
        "--version",
        "fairness --list",
        "new",
    ] {
        let (status, told) = shell(dir.path(), &format!("\"$BAKEOFF\" {command} > /dev/full"));
        assert_eq!(status, Some(2), "{command}: {told}");
        let why = "bakeoff: cannot write to standard output: No space left on device";
        assert!(told.contains(why), "{command}: {told}");
    }
    let (status, told) = shell(dir.path(), "\"$BAKEOFF\" --help");
    assert_eq!(status, Some(0));
    assert!(told.contains("Usage: bakeoff"), "{told}");
    let (status, told) = shell(dir.path(), "\"$BAKEOFF\" rnu > /dev/full");
    assert_eq!(status, Some(2));
    assert!(told.contains("unrecognized subcommand 'rnu'"), "{told}");
}

/// A link to itself cannot be read by anybody, root included.
#[test]
fn a_cache_that_cannot_be_read_is_not_an_empty_one() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("cache")).unwrap();
    std::os::unix::fs::symlink("bakeoff", dir.path().join("cache/bakeoff")).unwrap();
    for words in [
        &["cache", "list"][..],
        &["cache", "prune"],
        &["kernel", "list"],
    ] {
        let output = bakeoff(dir.path(), words);
        let told = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {told}");
        assert!(
            told.contains("cannot read the cache: "),
            "{words:?}: {told}"
        );
    }
    let output = bakeoff(dir.path(), &["doctor"]);
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("cannot be read"), "{told}");
}

#[test]
fn check_says_which_kernels_it_could_not_look_up() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("plan.toml"), PLAN).unwrap();
    let output = bakeoff(dir.path(), &["check", "plan.toml"]);
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{told}");
    let line = "unchecked  arm old: whether bookworm has a kernel \"6.1\": no list of packages in the cache";
    assert!(told.contains(line), "{told}");
}

#[test]
fn a_run_that_is_refused_before_it_begins_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("plan.toml"), PLAN).unwrap();
    let compare = [
        "compare",
        "debian:bookworm/6.1",
        "debian:trixie-backports/7.2",
    ];
    for words in [&["run", "plan.toml"][..], &compare] {
        let output = Command::new(env!("CARGO_BIN_EXE_bakeoff"))
            .args(words)
            .current_dir(dir.path())
            .env("XDG_CACHE_HOME", dir.path().join("cache"))
            .env("PATH", "/nowhere")
            .env_remove("BAKEOFF_QEMU")
            .output()
            .unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{told}");
        let runs = dir.path().join("runs").read_dir();
        let left: Vec<_> = runs.into_iter().flatten().flatten().collect();
        assert!(left.is_empty(), "{words:?} left {left:?}: {told}");
    }
}
