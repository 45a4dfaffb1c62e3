use super::*;
use expect_test::{Expect, expect};

const GOOD: &str = r#"
title = "two kernels"
baseline = "6.1"
[machine]
cpus = 2
memory = "2GiB"
[image]
recipe = "web"
[arm."7.2"]
kernel = "debian:trixie-backports/7.2"
cmdline = "mitigations=off"
sysctl = { "net.core.somaxconn" = 4096 }
[arm."6.1"]
kernel = "debian:bookworm/6.1"
[[workload]]
kind = "toy"
window = "10s"
[design]
margin = "2%"
max_blocks = 3
"#;

fn toy(fields: &Fields<'_>) -> Option<WorkloadPlan> {
    fields.choice("kind", &[("toy", ())])?;
    let length = fields.read("window", units::duration)?;
    fields.finish();
    Some(toy_plan(length))
}

/// A toy without keys.
pub(crate) fn toy_of_a_second(fields: &Fields<'_>) -> Option<WorkloadPlan> {
    fields.choice("kind", &[("toy", ())])?;
    fields.finish();
    Some(toy_plan(Duration::from_secs(1)))
}

pub(crate) fn toy_plan(window: Duration) -> WorkloadPlan {
    WorkloadPlan {
        traits: crate::Traits::default(),
        id: "toy".into(),
        kind: "toy".into(),
        options: serde_json::Value::Null,
        length: window,
        window,
        expected: None,
    }
}

/// Reads a plan without mistakes.
fn read_good(text: &str) -> Plan {
    let checks = Checks::of_the_past(&toy);
    read("plan.toml", text, Path::new("/plans"), checks).unwrap()
}

/// The number of arms of a plan, or its mistakes.
fn read_with(checks: Checks<'_>, text: &str) -> String {
    match read("plan.toml", text, Path::new("/plans"), checks) {
        Ok(plan) => format!("{} arms", plan.arms.len()),
        Err(problems) => problems.to_string(),
    }
}

/// Replaces texts in the good plan, and compares the number of arms or the mistakes.
fn check(edits: &[(&str, &str)], want: &Expect) {
    let mut text = GOOD.to_string();
    for (from, to) in edits {
        assert!(text.contains(from), "the good plan has no {from:?}");
        text = text.replacen(from, to, 1);
    }
    want.assert_eq(&read_with(Checks::of_the_past(&toy), &text));
}

#[test]
fn a_good_plan_is_read_with_its_baseline_first() {
    let plan = read_good(GOOD);
    let names: Vec<_> = plan.arms.iter().map(|arm| arm.name.as_str()).collect();
    assert_eq!(names, ["6.1", "7.2"]);
    assert_eq!(plan.arms[1].sysctl["net.core.somaxconn"], "4096");
    assert_eq!((plan.design.min_blocks, plan.design.max_blocks), (3, 3));
    assert!((plan.design.margin - 0.02).abs() < 1e-12);
}

#[test]
fn a_misspelt_key_is_named_with_the_right_one() {
    check(
        &[("memory", "memmory"), ("baseline", "base_line")],
        &expect![[r#"
            plan.toml:1: missing key in the file: baseline (add baseline = the name of an arm)
            plan.toml:3: unknown key in the file: base_line (did you mean "baseline"?)
            plan.toml:6: unknown key in [machine]: memmory (did you mean "memory"?)"#]],
    );
}

#[test]
fn a_baseline_that_is_no_arm_is_refused() {
    check(
        &[("baseline = \"6.1\"", "baseline = \"6.2\"")],
        &expect![[r#"plan.toml:3: baseline is not an arm: "6.2" (did you mean "6.1"?)"#]],
    );
}

#[test]
fn one_arm_is_not_a_comparison() {
    check(
        &[
            ("[arm.\"6.1\"]\nkernel = \"debian:bookworm/6.1\"\n", ""),
            ("\"6.1\"", "\"7.2\""),
        ],
        &expect!["plan.toml:9: one arm only: 7.2 (a comparison needs two: add another [arm.NAME])"],
    );
}

#[test]
fn a_window_longer_than_a_trial_is_refused() {
    check(
        &[("\"10s\"", "\"2h\"")],
        &expect![
            "plan.toml:17: warmup and window longer than a trial can be (1h): 2h (shorten window, or raise trial_limit in [machine])"
        ],
    );
}

#[test]
fn times_longer_than_a_trial_are_refused_if_the_plan_names_them() {
    let result = |keys: &str, has_run: bool| {
        let text = GOOD.replacen("cpus = 2", keys, 1);
        let checks = Checks {
            has_run,
            ..Checks::of_the_past(&toy)
        };
        read_with(checks, &text)
    };
    let long = "boot_timeout = \"2h\"\nsilence = \"61m\"";
    expect![[r#"
        plan.toml:5: boot_timeout longer than a trial can be (1h): 2h (shorten boot_timeout, or raise trial_limit)
        plan.toml:6: silence longer than a trial can be (1h): 1h 1m (shorten silence, or raise trial_limit)"#]]
    .assert_eq(&result(long, false));
    assert_eq!(result(long, true), "2 arms");
    for good in ["boot_timeout = \"1h\"", "trial_limit = \"1m\""] {
        assert_eq!(result(good, false), "2 arms", "{good}");
    }
}

#[test]
fn a_program_of_a_service_that_no_workload_starts_is_refused() {
    let result = |line: &str, services: &'static [&'static str]| {
        let text = GOOD.replacen("cmdline", &format!("{line}\ncmdline"), 1);
        let checks = Checks {
            services: &|_| services.to_vec(),
            has_run: false,
            ..Checks::of_the_past(&toy)
        };
        read_with(checks, &text)
    };
    let servers = &["nginx", "mariadbd"];
    expect!["2 arms"].assert_eq(&result("program = { mariadbd = \"/bin/true\" }", servers));
    expect![[r#"
        plan.toml:11: program of a service that no workload has: "apache2" (known: mariadbd, nginx)
        plan.toml:11: program of a service that no workload has: "ngnix" (did you mean "nginx"?)"#]]
    .assert_eq(&result(
        "program = { ngnix = \"/bin/true\", apache2 = \"/bin/true\" }",
        servers,
    ));
    expect!["plan.toml:11: program without a workload that starts a service (remove it)"]
        .assert_eq(&result("program = { nginx = \"/bin/true\" }", &[]));
    expect!["2 arms"].assert_eq(&result("program = {}", &[]));
}

#[test]
fn counted_instructions_need_one_cpu() {
    check(
        &[("cpus = 2", "cpus = 2\nclock = \"instructions\"")],
        &expect![[
            r#"plan.toml:5: clock "instructions" with more than one CPU: 2 (write cpus = 1: counted instructions need one CPU)"#
        ]],
    );
}

#[test]
fn clients_outside_the_guest_need_the_wall_clock() {
    check(
        &[("cpus = 2", "clock = \"instructions\"\nclients = \"host\"")],
        &expect![[
            r#"plan.toml:6: clients "host" with clock "instructions" (remove it, or write clock = "wall": a guest whose clock counts instructions has a time of its own, and clients outside it have the host's)"#
        ]],
    );
    check(
        &[("cpus = 2", "clock = \"wall\"\nclients = \"host\"")],
        &expect!["2 arms"],
    );
    check(
        &[("cpus = 2", "clients = \"nowhere\"")],
        &expect![[r#"plan.toml:5: unknown clients: "nowhere" (known: guest, host, guest2)"#]],
    );
}

#[test]
fn a_client_kernel_needs_a_second_guest() {
    check(
        &[(
            "cpus = 2",
            "clock = \"wall\"\nclients = \"guest2\"\nclient_kernel = \"debian:trixie/6.12\"",
        )],
        &expect!["2 arms"],
    );
    check(
        &[("cpus = 2", "client_kernel = \"debian:trixie/6.12\"")],
        &expect![[
            r#"plan.toml:5: client_kernel without clients = "guest2" (remove it, or add clients = "guest2": other clients have no kernel of their own)"#
        ]],
    );
    check(
        &[(
            "cpus = 2",
            "clock = \"wall\"\nclients = \"guest2\"\nclient_kernel = \"running\"",
        )],
        &expect![[
            r#"plan.toml:7: client_kernel "running": a guest boots a kernel of its own (write 6.1, debian:SUITE/VERSION, ./bzImage, the directory of a built tree, or ./FILE.deb)"#
        ]],
    );
}

/// The addresses of a system on the network, or the mistakes.
fn addresses(line: &str) -> String {
    let text = format!(
        "title = \"two\"\nbaseline = \"old\"\n[machine]\nkind = \"url\"\n[arm.old]\nurl = \"http://a\"\n{line}\n[arm.new]\n\
         url = \"http://b\"\n[[workload]]\nkind = \"toy\"\nwindow = \"1s\"\n"
    );
    match read("plan.toml", &text, Path::new(""), Checks::of_the_past(&toy)) {
        Ok(plan) => {
            let target = plan.target(&plan.arms[0], 1).unwrap();
            format!("{:?}", target.addresses)
        }
        Err(why) => why.to_string(),
    }
}

#[test]
fn a_system_may_have_several_addresses() {
    expect!["[]"].assert_eq(&addresses(""));
    expect!["[10.1.0.1, 10.2.0.1]"]
        .assert_eq(&addresses("addresses = [\"10.1.0.1\", \"10.2.0.1\"]"));
    expect![[r#"
        plan.toml:7: address twice: 10.1.0.1 (write each once: connections go to them in turn)
        plan.toml:7: not an IP address: "box" (write addresses = ["10.1.0.1", "10.2.0.1"]: the port is the URL's)"#]]
    .assert_eq(&addresses(
        "addresses = [\"10.1.0.1\", \"10.1.0.1\", \"box\"]",
    ));
    expect![[r#"plan.toml:7: addresses of both families (write those of one family)"#]]
        .assert_eq(&addresses("addresses = [\"10.1.0.1\", \"fd00::1\"]"));
    expect![[r#"plan.toml:7: no address (write addresses = ["10.1.0.1", "10.2.0.1"])"#]]
        .assert_eq(&addresses("addresses = []"));
}

/// The client hosts of a machine of kind "url", or the mistakes.
fn client_hosts(lines: &str) -> String {
    let text = format!(
        "title = \"two\"\nbaseline = \"old\"\n[machine]\nkind = \"url\"\n{lines}\n[arm.old]\nurl = \"http://a\"\n[arm.new]\n\
         url = \"http://b\"\n[[workload]]\nkind = \"toy\"\nwindow = \"1s\"\n"
    );
    let checks = Checks::of_the_past(&toy);
    match read("plan.toml", &text, Path::new("plans"), checks) {
        Ok(plan) => {
            let hosts = plan.machine.client_hosts.iter().map(|host| {
                let config = host.config.as_ref().map(|path| path.display().to_string());
                format!("{} {config:?}", host.name)
            });
            hosts.collect::<Vec<_>>().join(", ")
        }
        Err(why) => why.to_string(),
    }
}

#[test]
fn client_hosts_are_named_by_ssh_destinations() {
    expect![[r#"user@one Some("plans/config"), two Some("plans/config")"#]].assert_eq(
        &client_hosts("clients = [\"ssh:user@one\", \"ssh:two\"]\nssh_config = \"config\""),
    );
    expect![[r#"one None"#]].assert_eq(&client_hosts("clients = [\"ssh:one\"]"));
    expect![[r#"plan.toml:5: clients on no host: [] (write clients = ["ssh:client1", "ssh:client2"], or remove it: clients are then on this host)"#]]
    .assert_eq(&client_hosts("clients = []"));
    expect![[r#"
        plan.toml:5: no host for clients: "one" (write clients = ["ssh:client1", "ssh:client2"])
        plan.toml:5: no host for clients: "ssh:-oProxyCommand=x" (write clients = ["ssh:client1", "ssh:client2"])"#]]
    .assert_eq(&client_hosts("clients = [\"one\", \"ssh:-oProxyCommand=x\"]"));
    expect![[r#"plan.toml:5: a host for clients twice: "ssh:one" (remove it: a host has all its CPUs at once)"#]]
        .assert_eq(&client_hosts("clients = [\"ssh:one\", \"ssh:one\"]"));
    expect![[r#"plan.toml:5: clients of a machine of kind "url" (remove it, or name hosts: clients = ["ssh:HOST"])"#]]
        .assert_eq(&client_hosts("clients = \"host\""));
    expect![[r#"plan.toml:5: ssh_config of a machine of kind "url" (remove it, or name hosts for it: clients = ["ssh:USER@HOST"])"#]]
        .assert_eq(&client_hosts("ssh_config = \"config\""));
}

#[test]
fn client_hosts_are_refused_if_they_cannot_reach_the_servers() {
    check(
        &[("cpus = 2", "clients = [\"ssh:one\"]")],
        &expect![[
            r#"plan.toml:5: clients on hosts with a machine of kind "qemu" (write clients = "host": a guest's network ends in a namespace of this host, which no other host reaches)"#
        ]],
    );
}

#[test]
fn clients_that_are_programs_of_the_image_stay_in_the_guest() {
    let checks = Checks {
        is_driven_from_outside: &|_| false,
        can_be_disturbed: &|_| true,
        is_shareable: &|_| false,
        takes_addresses: &|_| false,
        ..Checks::of_the_past(&toy)
    };
    let result = |clients: &str| {
        let line = format!("clock = \"wall\"\nclients = \"{clients}\"");
        read_with(checks, &GOOD.replace("cpus = 2", &line))
    };
    expect![[r#"plan.toml:6: clients "host" with a workload that has none outside its guest: toy (write clients = "guest", or give the workload a plan of its own)"#]].assert_eq(&result("host"));
    expect!["2 arms"].assert_eq(&result("guest"));
}

#[test]
fn hystart_is_left_to_a_plan_that_sets_it_and_to_live_hosts() {
    let disables = |from: &str, to: &str| {
        let text = GOOD.replacen(from, to, 1);
        assert!(from.is_empty() || text != GOOD);
        read_good(&text).disables_hystart()
    };
    assert!(disables("", ""));
    assert!(!disables("mitigations=off", "quiet tcp_cubic.hystart=1"));
    let pinned = "[pinned]\ncmdline = \"tcp_cubic.hystart=0\"\n[machine]";
    assert!(!disables("[machine]", pinned));
}

// The plan has the host's architecture, and these are models and features of x86.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_cpu_model_is_checked_by_its_form_its_clock_and_the_emulator() {
    let check_line = |line: &str, want: &Expect| check(&[("cpus = 2", line)], want);
    check_line("cpu_model = \"EPYC,-avx2\"", &expect!["2 arms"]);
    check_line(
        "clock = \"wall\"\ncpu_model = \"max,-erms\"",
        &expect!["2 arms"],
    );
    check_line(
        "cpu_model = \"max,-erms,-fsrm\"",
        &expect![[
            r#"plan.toml:5: cpu_model without erms and fsrm where instructions may be counted (remove it, or write clock = "wall": kernels would copy and clear memory in loops that no server of today runs)"#
        ]],
    );
    check_line(
        "string_byte_price = 0.05\nstring_start_price = 20",
        &expect!["2 arms"],
    );
    check_line(
        "string_byte_price = -1",
        &expect!["plan.toml:5: string_byte_price out of range: -1 (write 0 to 1)"],
    );
    check_line(
        "string_start_price = 5000.0",
        &expect!["plan.toml:5: string_start_price out of range: 5000.0 (write 0 to 1000)"],
    );
    check_line(
        "string_byte_price = \"1/8\"",
        &expect![
            "plan.toml:5: wrong type for string_byte_price in [machine]: string (write a number)"
        ],
    );
    check_line(
        "clock = \"wall\"\nstring_byte_price = 0.1",
        &expect![
            "plan.toml:6: string_byte_price where no instructions are counted (remove it: only where instructions are counted a string instruction has a price)"
        ],
    );
    check_line("clients_apart = \"session\"", &expect!["2 arms"]);
    check_line(
        "clock = \"wall\"\nclients = \"host\"\nclients_apart = \"session\"",
        &expect![
            "plan.toml:7: clients_apart of clients that are elsewhere (remove it: only beside the servers, in a guest, clients can share their session)"
        ],
    );
    check_line(
        "cpu_model = \"host\"",
        &expect![[
            r#"plan.toml:5: cpu_model "host" where instructions may be counted (remove it, or write clock = "wall": only KVM shows a guest the host's CPU)"#
        ]],
    );
    check_line(
        "cpu_model = \"486\"",
        &expect![[
            r#"plan.toml:5: cpu_model without 64-bit mode: 486 (name another, such as "qemu64" or "EPYC")"#
        ]],
    );
    check_line(
        "cpu_model = \"max,kvm=off\"",
        &expect![[
            r#"plan.toml:5: feature without + or -: "kvm=off" (write it like "EPYC" or "Haswell-noTSX,-avx2")"#
        ]],
    );
    let text = GOOD.replacen("cpus = 2", "cpu_model = \"Hasswell\"", 1);
    let mut checks = Checks::of_the_past(&toy);
    checks.cpu_model = &|model, _| Err(format!("unknown CPU model: {}", model.name));
    let why = read("plan.toml", &text, Path::new("/plans"), checks).unwrap_err();
    assert_eq!(why.to_string(), "plan.toml:5: unknown CPU model: Hasswell");
}

#[test]
fn memory_is_checked_by_what_the_host_has() {
    let mut checks = Checks::of_the_past(&toy);
    let host = |bytes| match bytes {
        0..=0x8000_0000 => Ok(()),
        more => Err(format!("too much: {more}")),
    };
    checks.memory = &host;
    let result = |memory: &str| {
        let text = GOOD.replacen("2GiB", memory, 1);
        match read("plan.toml", &text, Path::new("/plans"), checks) {
            Ok(plan) => plan.machine.memory_bytes.to_string(),
            Err(problems) => problems.to_string(),
        }
    };
    assert_eq!(result("2GiB"), "2147483648");
    assert_eq!(result("3GiB"), "plan.toml:6: too much: 3221225472");
    expect![[r#"plan.toml:6: memory out of range: "2TiB" (write 256MiB to 1TiB)"#]]
        .assert_eq(&result("2TiB"));
    expect![[r#"plan.toml:6: memory: size above 16 EiB: "99999999999999999999GiB" (write it like "512MiB" or "2GiB")"#]]
        .assert_eq(&result("99999999999999999999GiB"));
}

#[test]
fn counted_instructions_need_one_cpu_in_each_arm() {
    let arm = "kernel = \"debian:bookworm/6.1\"";
    check(
        &[
            ("cpus = 2", "clock = \"instructions\""),
            (arm, &format!("{arm}\ncpus = 4")),
            ("cmdline", "cpus = 0\ncmdline"),
        ],
        &expect![[r#"
            plan.toml:11: cpus out of range: 0 (write 1 to 255)
            plan.toml:16: clock "instructions" with an arm of more than one CPU: 4 (write cpus = 1, or clock = "wall": counted instructions need one CPU)"#]],
    );
}

#[test]
fn an_arm_may_set_its_cpus_which_needs_the_wall_clock() {
    let clock_and_cpus = |arm: &str| {
        let arm = format!("kernel = \"debian:bookworm/6.1\"\n{arm}");
        let plan = read_good(&GOOD.replacen("kernel = \"debian:bookworm/6.1\"", &arm, 1));
        let cpus: Vec<_> = plan.arms.iter().map(|arm| plan.cpus(arm)).collect();
        (plan.machine.clock, cpus)
    };
    let (two, wall) = (Some(2), Clock::Wall);
    assert_eq!(clock_and_cpus("cpus = 4"), (wall, vec![Some(4), two]));
    assert_eq!(clock_and_cpus("cpus = 1"), (wall, vec![Some(1), two]));
    assert_eq!(clock_and_cpus(""), (Clock::Auto, vec![two, two]));
}

#[test]
fn an_arm_on_a_live_host_has_all_cpus_or_a_number_of_them() {
    let (head, _) = GOOD.split_once("[machine]").unwrap();
    let (_, rest) = GOOD.split_once("[[workload]]").unwrap();
    let text = format!(
        "{head}[machine]\nkind = \"local\"\n[arm.\"6.1\"]\n[arm.one]\ncpus = 1\n[[workload]]{rest}"
    );
    let plan = read_good(&text);
    let cpus: Vec<_> = plan.arms.iter().map(|arm| plan.cpus(arm)).collect();
    assert_eq!(cpus, [None, Some(1)]);
}

#[test]
fn all_mistakes_are_reported_at_once() {
    check(
        &[
            ("\"2GiB\"", "\"lots\""),
            ("debian:bookworm/6.1", "bzImage"),
            ("kind = \"toy\"", "kind = \"tot\""),
            ("margin = \"2%\"", "margin = \"200%\"\nmin_blocks = 9"),
            ("\"net.core.somaxconn\" = 4096", "somaxconn = [1]"),
        ],
        &expect![[r#"
            plan.toml:6: memory: not a size: "lots" (write it like "512MiB" or "2GiB")
            plan.toml:12: wrong type for somaxconn in [arm."7.2".sysctl]: array (write a number or a text)
            plan.toml:14: neither a version nor a path: "bzImage" (write 6.1, debian:SUITE/VERSION, ./bzImage, the directory of a built tree, or ./FILE.deb)
            plan.toml:16: unknown kind: "tot" (did you mean "toy"?)
            plan.toml:19: margin out of range: "200%" (write above 0 % to 50 %)
            plan.toml:20: min_blocks above max_blocks: 9 (write at most 3)"#]],
    );
}

#[test]
fn a_sysctl_without_quotes_is_refused() {
    check(
        &[("\"net.core.somaxconn\" = 4096", "net.core.somaxconn = 3")],
        &expect![[
            r#"plan.toml:12: dotted name without quotes in [arm."7.2".sysctl]: net.core.somaxconn (quote the dotted name: "net.core.somaxconn" = ...)"#
        ]],
    );
}

#[test]
fn the_sysctls_of_a_plan_become_paths_as_in_sysctl_8() {
    let path = |name| sysctl_path(name).display().to_string();
    assert_eq!(path("net.core.somaxconn"), "/proc/sys/net/core/somaxconn");
    assert_eq!(
        path("net.ipv4.conf.eth0/1.rp_filter"),
        "/proc/sys/net/ipv4/conf/eth0.1/rp_filter"
    );
    assert_eq!(path("kernel/pid_max"), "/proc/sys/kernel/pid_max");
    for name in ["net.core.somaxconn", "net.ipv4.conf.eth0/1.rp_filter"] {
        assert_eq!(sysctl_name(&sysctl_path(name)), name);
    }
}

#[test]
fn a_plan_against_itself_has_its_baseline_twice() {
    let text = against_itself(GOOD, 99).unwrap();
    let plan = read_good(&text);
    let names: Vec<_> = plan.arms.iter().map(|arm| arm.name.as_str()).collect();
    assert_eq!(names, ["6.1", "6.1-again"]);
    assert_eq!(plan.arms[0].kernel, plan.arms[1].kernel);
    assert!(plan.title.starts_with("A/A: "));
    assert_eq!((plan.design.seed, seed_of(&text)), (99, Some(99)));
}

#[test]
fn growth_is_a_share_within_a_time() {
    let growth = |table: &str| {
        let text = format!("{GOOD}{table}");
        let checks = Checks::of_the_past(&toy);
        read("plan.toml", &text, Path::new("/plans"), checks).map(|plan| plan.growth)
    };
    assert_eq!(growth("").unwrap(), GrowthPlan::default());
    let good = growth("[growth]\nleast = \"0.5%\"\nafter = \"14d\"\n").unwrap();
    let after = Some(std::time::Duration::from_secs(14 * 86_400));
    assert_eq!((good.least, good.after), (0.005, after));
    for wrong in [
        "after = \"0s\"",
        "after = \"20y\"",
        "least = \"200%\"",
        "leak = 1",
    ] {
        let why = growth(&format!("[growth]\n{wrong}\n")).unwrap_err();
        assert!(why.to_string().contains("plan.toml:"), "{wrong}: {why}");
    }
}

#[test]
fn a_plan_is_varied_by_its_model_or_by_its_mitigations() {
    let read_varied = |variation: &Variation| read_good(&varied(GOOD, variation, 2).unwrap());
    let model = CpuModel::parse("EPYC-Milan,-avx2").unwrap();
    let plan = read_varied(&Variation::Model(model.clone()));
    assert_eq!(plan.machine.cpu_model, Some(model));
    assert_eq!((plan.design.min_blocks, plan.design.max_blocks), (2, 2));
    let plan = read_varied(&Variation::NoMitigations);
    assert_eq!(plan.machine.cpu_model, None);
    let cmdlines: Vec<_> = plan.arms.iter().map(|arm| arm.cmdline.as_str()).collect();
    assert_eq!(
        cmdlines,
        ["mitigations=off", "mitigations=off mitigations=off"]
    );
}

#[test]
fn disturbed_blocks_are_repeated_or_kept() {
    let with = |line: &str| {
        let text = format!("{GOOD}{line}\n");
        let checks = Checks::of_the_past(&toy);
        let plan = read("plan.toml", &text, Path::new("/plans"), checks);
        plan.map(|plan| plan.disturbed_blocks)
            .map_err(|why| why.to_string())
    };
    assert_eq!(with(""), Ok(DisturbedBlocks::Repeat));
    assert_eq!(
        with("disturbed_blocks = \"repeat\""),
        Ok(DisturbedBlocks::Repeat)
    );
    assert_eq!(
        with("disturbed_blocks = \"keep\""),
        Ok(DisturbedBlocks::Keep)
    );
    let refused = |value: &str| with(&format!("disturbed_blocks = {value}")).unwrap_err();
    expect![[r#"plan.toml:21: unknown disturbed_blocks: "kept" (did you mean "keep"?)"#]]
        .assert_eq(&refused("\"kept\""));
    expect![[r#"plan.toml:21: unknown disturbed_blocks: "drop" (known: repeat, keep)"#]]
        .assert_eq(&refused("\"drop\""));
    expect!["plan.toml:21: wrong type for disturbed_blocks in [design]: boolean (write a text in quotes)"].assert_eq(&refused("true"));
}

#[test]
fn a_live_host_has_a_fixed_kernel_userland_and_size() {
    check(
        &[(
            "[machine]",
            "[machine]\nkind = \"local\"\nclock = \"instructions\"\ncpu_model = \"max\"",
        )],
        &expect![[r#"
            plan.toml:6: clock "instructions" on a machine of kind "local" (write "wall": only an emulator counts them)
            plan.toml:7: cpu_model of a machine of kind "local" (remove it: the CPU is this host's own)
            plan.toml:8: cpus of a machine of kind "local" (write it in each arm that is not to have all of this host's)
            plan.toml:8: clock "instructions" with more than one CPU: 2 (write cpus = 1: counted instructions need one CPU)
            plan.toml:9: memory of a machine of kind "local" (remove it: all that this host has is used)
            plan.toml:10: [image] on a machine of kind "local" (remove it: servers are this host's own)
            plan.toml:13: kernel of a machine of kind "local": "debian:trixie-backports/7.2" (remove it: the kernel is the one that runs)
            plan.toml:14: cmdline on a machine of kind "local" (remove it: the kernel is the one that runs)
            plan.toml:17: kernel of a machine of kind "local": "debian:bookworm/6.1" (remove it: the kernel is the one that runs)"#]],
    );
}

#[test]
fn the_tuning_of_an_arm_is_read_and_checked() {
    let tuned = "kernel = \"debian:bookworm/6.1\"\nenv = { GOMAXPROCS = 2 }\n\
                 program = { nginx = \"sbin/nginx\" }\ninjected_slowdown = \"60%\"";
    check(
        &[("kernel = \"debian:bookworm/6.1\"", tuned)],
        &expect![[r#"
            plan.toml:16: program of nginx without an absolute path: "sbin/nginx" (write program = { nginx = "/opt/nginx/sbin/nginx" })
            plan.toml:17: injected_slowdown out of range: "60%" (write above 0 % to 50 %)"#]],
    );
    let few = format!("{tuned}\nnofile = 8");
    check(
        &[("kernel = \"debian:bookworm/6.1\"", &few)],
        &expect![[r#"
            plan.toml:16: program of nginx without an absolute path: "sbin/nginx" (write program = { nginx = "/opt/nginx/sbin/nginx" })
            plan.toml:17: injected_slowdown out of range: "60%" (write above 0 % to 50 %)
            plan.toml:18: nofile out of range: 8 (write 16 to 1048576)"#]],
    );
    let good = tuned.replace("sbin", "/opt/sbin").replace("60%", "1%") + "\nnofile = 1024";
    let plan = read_good(&GOOD.replacen("kernel = \"debian:bookworm/6.1\"", &good, 1));
    let tuning = &plan.arms[0].tuning;
    assert_eq!(tuning.env["GOMAXPROCS"], "2");
    assert_eq!(tuning.programs["nginx"], "/opt/sbin/nginx");
    assert!((tuning.injected_slowdown - 0.01).abs() < 1e-12);
    assert_eq!(tuning.nofile, Some(1024));
}

#[test]
fn an_injected_cost_is_read_and_checked() {
    let kernel = "kernel = \"debian:bookworm/6.1\"";
    let with = |cost: &str| format!("{kernel}\ninjected_cost = {cost}");
    let refused = |cost: &str, expected: &expect_test::Expect| {
        check(&[(kernel, &with(cost))], expected);
    };
    refused(
        "{ function = \"tcp sendmsg\", instructions = 0, calls = 2 }",
        &expect![[r#"
            plan.toml:15: not the name of a kernel's function: "tcp sendmsg" (write one of /proc/kallsyms)
            plan.toml:15: instructions out of range: 0 (write 1 to 900000)
            plan.toml:15: unknown key in [arm."6.1".injected_cost]: calls (known: function, instructions)"#]],
    );
    refused(
        "{}",
        &expect![[r#"
        plan.toml:15: missing key in [arm."6.1".injected_cost]: function (add function = "tcp_sendmsg_locked")
        plan.toml:15: missing key in [arm."6.1".injected_cost]: instructions (add instructions = 4000)"#]],
    );
    let good = with("{ function = \"tcp_sendmsg_locked\", instructions = 4000 }");
    let plan = read_good(&GOOD.replacen(kernel, &good, 1));
    let tuning = &plan.arms[0].tuning;
    let expected = InjectedCost {
        function: "tcp_sendmsg_locked".into(),
        instructions: 4000,
    };
    assert_eq!(tuning.injected_cost, Some(expected));
}

#[test]
fn a_syntax_error_has_its_line() {
    check(
        &[("cpus = 2", "cpus = ")],
        &expect![
            "plan.toml:5: string values must be quoted, expected literal string (see docs/reference/plan.md for the form)"
        ],
    );
}

#[test]
fn paths_are_relative_to_the_plan_files_directory() {
    let plan = read_good(&GOOD.replacen("debian:bookworm/6.1", "boot/vmlinuz", 1));
    assert_eq!(plan.arms[0].kernel.to_string(), "/plans/boot/vmlinuz");
}

const BOX: (&str, &str) = (
    "cpus = 2\nmemory = \"2GiB\"",
    "kind = \"ssh\"\nhost = \"root@box\"",
);

#[test]
fn arms_on_a_box_have_the_same_keys_as_guests() {
    check(&[BOX], &expect!["2 arms"]);
    let power = "power.preset = \"ipmitool\"\npower.address = \"bmc\"\npower.user = \"admin\"\npower.password_file = \"pw\"";
    let text = format!("{}\nport = 7002\ninterface = \"eno1\"\n{power}", BOX.1);
    let plan = read_good(&GOOD.replace(BOX.0, &text));
    assert_eq!(plan.machine.clock, Clock::Wall);
    let ssh = plan.machine.ssh.unwrap();
    assert_eq!((ssh.host.as_str(), ssh.port), ("root@box", 7002));
    assert_eq!(
        ssh.power.status.join(" "),
        "ipmitool -I lanplus -H bmc -p 623 -U admin -f /plans/pw chassis power status"
    );
}

#[test]
fn all_mistakes_about_a_box_are_reported_at_once() {
    check(
        &[
            BOX,
            (
                "host = \"root@box\"",
                "memory = \"2GiB\"\nclock = \"instructions\"\nport = 70000\nboot = \"kexek\"\npower.status = [\"true\"]",
            ),
        ],
        &expect![[r#"
            plan.toml:4: missing key in [machine]: host (add host = "root@box")
            plan.toml:6: memory of a machine of kind "ssh" (remove it: all that the box has is used)
            plan.toml:7: clock "instructions" on a machine of kind "ssh" (write "wall": only an emulator counts them)
            plan.toml:8: port out of range: 70000 (write 1 to 65535)
            plan.toml:9: unknown boot: "kexek" (did you mean "kexec"?)
            plan.toml:10: missing key in [machine.power]: cycle (add cycle = ["./power.sh", "cycle"])"#]],
    );
    check(
        &[(
            "cpus = 2",
            "cpus = 2\nhost = \"root@box\"\npower.cycle = [\"true\"]",
        )],
        &expect![[r#"
            plan.toml:6: host of a machine of kind "qemu" (remove it, or write kind = "ssh": only a box by ssh has it)
            plan.toml:7: power of a machine of kind "qemu" (remove it, or write kind = "ssh": only a box by ssh has it)"#]],
    );
    check(
        &[
            BOX,
            ("root@box", "-oProxyCommand=x"),
            ("[image]\nrecipe = \"web\"\n", ""),
        ],
        &expect![[r#"
            plan.toml:1: missing key in the file: image (add image = { recipe = "web" })
            plan.toml:6: host that is no name: "-oProxyCommand=x" (write host = "root@box")"#]],
    );
}

#[test]
fn a_disclosure_is_read_and_checked() {
    let text = GOOD.replace(
        "[design]",
        "[disclosure]\ntested_by = \" the kernel team \"\nsponsor = \"nobody\"\n[design]",
    );
    let text = text.replace(
        "[arm.\"6.1\"]\n",
        "[arm.\"6.1\"]\ntuned_by = \"nobody\"\ntuning_reason = \"as shipped\"\n",
    );
    let plan = read_good(&text);
    assert_eq!(
        plan.disclosure.tested_by.as_deref(),
        Some("the kernel team")
    );
    assert_eq!(plan.disclosure.note, None);
    assert!(plan.arms[0].tuned.is_stated() && !plan.arms[1].tuned.is_stated());
    let long = format!("[disclosure]\nsponsor = \"{}\"\n[design]", "x".repeat(301));
    check(
        &[("[design]", &long)],
        &expect![
            "plan.toml:19: sponsor of more than 300 characters: 301 (shorten it: the disclosure is one page)"
        ],
    );
    check(
        &[
            (
                "[design]",
                "[disclosure]\ntested_by = \"\"\nnote = \"a\\nb\"\n[design]",
            ),
            ("cmdline =", "tuned_by = 7\ncmdline ="),
        ],
        &expect![[r#"
            plan.toml:11: wrong type for tuned_by in [arm."7.2"]: integer (write a text in quotes)
            plan.toml:20: empty tested_by (leave the key out: the report says "not stated")
            plan.toml:21: note of several lines, or with a control character (write one line)"#]],
    );
}

#[test]
fn pinned_settings_are_in_all_arms() {
    let plan = read_good(&format!(
        "{GOOD}[pinned]\ncmdline = \"preempt=full\"\n[pinned.sysctl]\n\"vm.swappiness\" = 60\n"
    ));
    let cmdlines: Vec<_> = plan.arms.iter().map(|arm| arm.cmdline.as_str()).collect();
    assert_eq!(cmdlines, ["preempt=full", "preempt=full mitigations=off"]);
    let has_sysctl = |arm: &Arm| arm.sysctl["vm.swappiness"] == "60";
    assert!(plan.arms.iter().all(has_sysctl));
    assert_eq!(plan.pinned.cmdline, "preempt=full");
    assert_eq!(plan.mode, None);
}

/// The number of arms of a new plan with a table, or its mistakes.
fn with_table(table: &str) -> String {
    let checks = Checks {
        has_run: false,
        ..Checks::of_the_past(&toy)
    };
    read_with(
        checks,
        &GOOD.replace("[design]", &format!("{table}\n[design]")),
    )
}

#[test]
fn the_table_why_takes_no_keys() {
    expect!["plan.toml:19: unknown key in [why]: foo (remove it: the table takes no keys)"]
        .assert_eq(&with_table("[why]\nfoo = 1"));
}

#[test]
fn empty_contradictory_and_impossible_pinned_settings_are_refused_in_new_plans() {
    expect!["plan.toml:18: nothing in [pinned] (write what is pinned, or remove the table)"]
        .assert_eq(&with_table("[pinned]"));
    expect![[r#"plan.toml:19: cmdline of [pinned] is empty: "" (write parameters, or remove it)"#]]
        .assert_eq(&with_table("[pinned]\ncmdline = \"\""));
    expect!["plan.toml:19: unknown key in [pinned]: boot (known: cmdline, sysctl)"]
        .assert_eq(&with_table("[pinned]\nboot = \"\"\ncmdline = \"psi=1\""));
    expect!["plan.toml:18: nothing in [pinned.sysctl] (write what is pinned, or remove the table)"]
        .assert_eq(&with_table("[pinned.sysctl]"));
    expect![[r#"
        plan.toml:19: no value of a parameter that is pinned: preempt=ful (write preempt= and one of none, voluntary, full, lazy)
        plan.toml:19: a parameter pinned to two values: psi=1 psi=0 (leave one of them)
        plan.toml:19: no value for a parameter that is pinned: lsm= (write its value, or remove it)"#]].assert_eq(&with_table(
        "[pinned]\ncmdline = \"preempt=ful psi=1 psi=0 lsm=\"",
    ));
    let sysctls = "[pinned.sysctl]\n\"vm.swappiness\" = \"\"\n\"kernel.osrelease\" = \"6.1\"\n\"net.ipv4.conf.eth0/1.rp_filter\" = 1";
    expect![[r#"
        plan.toml:19: no value for a sysctl that is pinned: vm.swappiness = "" (write its value in one line, or remove it)
        plan.toml:20: a sysctl that cannot be set: kernel.osrelease (remove it)"#]].assert_eq(&with_table(sysctls));
    let good = "[pinned]\ncmdline = \"preempt=full console=ttyS0 console=tty0 nokaslr\"\n[pinned.sysctl]\n\"vm.swappiness\" = 60";
    assert_eq!(with_table(good), "2 arms");
    // A plan that has already run is accepted.
    check(&[("[design]", "[pinned]\n[design]")], &expect!["2 arms"]);
}

#[test]
fn an_empty_list_of_client_hosts_is_refused() {
    check(
        &[("cpus = 2", "clients = []")],
        &expect![
            "plan.toml:5: clients on no host: [] (remove it: the machine chooses where clients are)"
        ],
    );
}

#[test]
fn a_setting_of_an_arm_cannot_be_pinned() {
    let pinned = "[pinned]\ncmdline = \"mitigations=auto\"\n[pinned.sysctl]\n\"net/core/somaxconn\" = 1\n[design]";
    check(
        &[("[design]", pinned)],
        &expect![[r#"
            plan.toml:18: arm 7.2 has a parameter that is pinned: mitigations=off (remove it there or here)
            plan.toml:18: arm 7.2 has a sysctl that is pinned: net.core.somaxconn = 4096, pinned to 1 (remove it there or here)
            plan.toml:21: not a sysctl name: "net/core/somaxconn" (write it dotted and quoted: "net.core.somaxconn")"#]],
    );
    check(
        &[("[design]", "[pinned]\nsysctls = {}\n[design]")],
        &expect![[r#"plan.toml:19: unknown key in [pinned]: sysctls (did you mean "sysctl"?)"#]],
    );
}

/// The clients of a box with these lines in `[machine]`, or the mistakes. `is_outside`: whether clients can run on another system.
fn clients_of_box(lines: &str, is_outside: bool) -> String {
    let checks = Checks {
        is_driven_from_outside: &|_| is_outside,
        is_shareable: &|_| false,
        takes_addresses: &|_| false,
        ..Checks::of_the_past(&toy)
    };
    let text = GOOD.replacen(BOX.0, BOX.1, 1);
    let text = text.replacen("host = ", &format!("{lines}\nhost = "), 1);
    let plan = read("plan.toml", &text, Path::new("/plans"), checks);
    plan.map_or_else(
        |why| why.to_string(),
        |plan| format!("{:?}", plan.machine.clients),
    )
}

#[test]
fn clients_of_a_box_run_on_it_unless_the_plan_moves_them() {
    let clients = |lines: &str| clients_of_box(lines, true);
    assert_eq!(clients(""), "Some(Guest)");
    assert_eq!(clients_of_box("", false), "Some(Guest)");
    assert_eq!(clients("clients = \"host\""), "Some(Host)");
    assert_eq!(clients("interfaces = [\"eth1\"]"), "Some(Host)");
}

#[test]
fn impossible_clients_of_a_box_are_refused() {
    let check = |lines: &str, want: &Expect| want.assert_eq(&clients_of_box(lines, true));
    check(
        "clients = \"guest2\"",
        &expect![[
            r#"plan.toml:6: clients of a machine of kind "ssh" (write "host", or name hosts: clients = ["ssh:HOST"])"#
        ]],
    );
    check(
        "clients = [\"ssh:me@box\", \"ssh:one\", \"ssh:one\"]\nceiling = \"http://a\"",
        &expect![[r#"
            plan.toml:6: a host for clients twice: "ssh:one" (remove it: a host has all its CPUs at once)
            plan.toml:6: the box as a host of its own clients: "me@box" (name another host, or write clients = "guest": beside the servers)
            plan.toml:6: a workload that hosts cannot share: toy (write clients = "host": this host can have all of them; or give it a plan of its own)
            plan.toml:7: ceiling of a machine of kind "ssh" (remove it: bakeoff starts its null server itself)"#]],
    );
    check(
        "clients = \"guest\"\ninterfaces = [\"eth1\", \"eth1\", \"-x\"]",
        &expect![[r#"
            plan.toml:7: an interface twice: "eth1" (write each once: connections go to them in turn)
            plan.toml:7: no name of an interface: "-x" (write interfaces = ["eno1", "eno2"])
            plan.toml:7: interfaces with clients "guest" (remove it, or write clients = "host": beside the servers they use no card)"#]],
    );
    check(
        "interfaces = [\"eth1\", \"eth2\"]",
        &expect![[
            r#"plan.toml:6: several interfaces with a workload that uses one: toy (name one, or give the workload a plan of its own)"#
        ]],
    );
    expect![[r#"plan.toml:6: clients "host" with a workload that has none outside its guest: toy (write clients = "guest", or give the workload a plan of its own)"#]].assert_eq(&clients_of_box("clients = \"host\"", false));
}
