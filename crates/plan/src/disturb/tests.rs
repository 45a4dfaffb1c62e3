use std::path::Path;

use expect_test::{Expect, expect};

use super::*;
use crate::tests::toy_plan;
use crate::{Checks, Plan, read};

const GOOD: &str = r#"
title = "two kernels"
baseline = "6.1"
[machine]
cpus = 2
[image]
recipe = "web"
[arm."6.1"]
kernel = "debian:bookworm/6.1"
[arm."7.2"]
kernel = "debian:trixie-backports/7.2"
[[workload]]
kind = "toy"
[design]
seed = 7
"#;

fn toy(fields: &Fields<'_>) -> Option<WorkloadPlan> {
    let kind = fields.text("kind")?.to_string();
    Some(WorkloadPlan {
        id: kind.clone(),
        kind,
        length: Duration::from_secs(62),
        ..toy_plan(Duration::from_secs(60))
    })
}

fn plan(good: &str, disturb: &str) -> Result<Plan, String> {
    let checks = Checks {
        can_be_disturbed: &|workload| workload.kind == "toy",
        ..Checks::of_the_past(&toy)
    };
    let text = format!("{good}{disturb}");
    read("plan.toml", &text, Path::new("/plans"), checks).map_err(|why| why.to_string())
}

/// Compares one `[[disturb]]` table, or its mistakes; its keys begin on line 17 of the plan.
fn check(disturb: &str, want: &Expect) {
    check_with(GOOD, &format!("[[disturb]]\n{disturb}\n"), want);
}

fn check_with(good: &str, disturb: &str, want: &Expect) {
    let got = match plan(good, disturb) {
        Ok(plan) => {
            let show = |disturbance: &PlannedDisturbance| {
                let PlannedDisturbance {
                    name,
                    kind,
                    at_ms,
                    length_ms,
                } = disturbance;
                let at: Vec<_> = at_ms.iter().map(|at| (at / 1000).to_string()).collect();
                let at = at.join(" ");
                format!("{name} at {at} for {length_ms} ms: {kind:?}\n")
            };
            plan.disturbances.iter().map(show).collect()
        }
        Err(why) => why,
    };
    want.assert_eq(&got);
}

#[test]
fn hystart_stays_where_packets_are_delayed() {
    let disables = |kind: &str| {
        let table = format!("[[disturb]]\nkind = {kind}\nat = \"8s\"\nfor = \"1s\"\n");
        plan(GOOD, &table).unwrap().disables_hystart()
    };
    assert!(!disables("\"delay\"\ndelay = \"50ms\""));
    assert!(disables("\"link-down\""));
}

#[test]
fn every_kind_is_read() {
    let all = [
        "kind = \"loss\"\nshare = \"2%\"\nat = \"3s\"\nfor = \"5s\"",
        "kind = \"delay\"\ndelay = \"50ms\"\njitter = \"10ms\"\nat = \"8s\"\nfor = \"1s\"",
        "kind = \"reorder\"\nshare = 0.25\ndelay = \"10ms\"\nat = \"9s\"\nfor = \"1s\"",
        "kind = \"duplicate\"\nshare = \"1%\"\nat = \"10s\"\nfor = \"1s\"",
        "kind = \"corrupt\"\nshare = \"1%\"\nat = \"11s\"\nfor = \"1s\"",
        "kind = \"link-down\"\nat = [\"20s\", \"12s\"]\nfor = \"2s\"",
        "kind = \"disk-full\"\nat = \"1s\"\nfor = \"59s\"",
        "kind = \"memory\"\nsize = \"256MiB\"\nat = \"1s\"\nfor = \"2s\"",
        "kind = \"cpu-offline\"\nat = \"1s\"\nfor = \"2s\"",
        "kind = \"clock-step\"\nstep = \"-1h\"\nat = \"1s\"\nfor = \"2s\"",
        "kind = \"kill-worker\"\nevery = \"20s\"",
        "kind = \"syn-flood\"\nrate = 1000\nat = \"1s\"\nfor = \"2s\"",
        "kind = \"slow-clients\"\nconnections = 50\nat = \"1s\"\nfor = \"2s\"",
        "kind = \"descriptors\"\nname = \"no-files\"\nat = \"1s\"\nfor = \"2s\"",
    ];
    let all = all.map(|keys| format!("[[disturb]]\n{keys}\n"));
    check_with(
        GOOD,
        &all.concat(),
        &expect![[r#"
            loss at 3 for 5000 ms: Loss { share: 0.02 }
            delay at 8 for 1000 ms: Delay { delay_ms: 50, jitter_ms: 10 }
            reorder at 9 for 1000 ms: Reorder { share: 0.25, delay_ms: 10 }
            duplicate at 10 for 1000 ms: Duplicate { share: 0.01 }
            corrupt at 11 for 1000 ms: Corrupt { share: 0.01 }
            link-down at 12 20 for 2000 ms: LinkDown
            disk-full at 1 for 59000 ms: DiskFull
            memory at 1 for 2000 ms: Memory { bytes: 268435456 }
            cpu-offline at 1 for 2000 ms: CpuOffline { cpu: 1 }
            clock-step at 1 for 2000 ms: ClockStep { step_ms: -3600000 }
            kill-worker at 20 40 for 1000 ms: KillWorker
            syn-flood at 1 for 2000 ms: SynFlood { rate_per_s: 1000 }
            slow-clients at 1 for 2000 ms: SlowClients { connections: 50 }
            no-files at 1 for 2000 ms: Descriptors
        "#]],
    );
}

#[test]
fn wrong_times_are_refused() {
    check(
        "kind = \"los\"\nat = \"3s\"\nfor = \"5s\"",
        &expect![[r#"plan.toml:17: unknown kind of disturbance: "los" (did you mean "loss"?)"#]],
    );
    check(
        "kind = \"link-down\"\nat = \"3s\"\nfor = \"0s\"",
        &expect![[r#"
        plan.toml:19: for below 1 s: 0s (write "1s" or more: service is seen by the second)"#]],
    );
    check(
        "kind = \"link-down\"\nat = \"3s\"\nfor = 0",
        &expect![[r#"
        plan.toml:19: wrong type for for in [[disturb]]: integer (write a text in quotes)"#]],
    );
    check(
        "kind = \"link-down\"\nat = \"50s\"\nfor = \"11s\"",
        &expect![
            "plan.toml:18: disturbance beyond the window of 1m: link-down at 50s for 11s (let it end within the window, or lengthen window)"
        ],
    );
    check(
        "kind = \"link-down\"\nat = \"0s\"\nfor = \"1s\"",
        &expect![
            "plan.toml:18: at before 1 s: 0s (begin later: there is nothing before it to compare with)"
        ],
    );
    check(
        "kind = \"link-down\"\nevery = \"5s\"\nfor = \"5s\"",
        &expect!["plan.toml:18: every not above for: 5s (let it end before it begins again)"],
    );
    check(
        "kind = \"link-down\"\nevery = \"2m\"\nfor = \"5s\"",
        &expect![
            "plan.toml:18: disturbance beyond the window of 1m: link-down at 2m for 5s (let it end within the window, or lengthen window)"
        ],
    );
    check(
        "kind = \"link-down\"\nrandom = 20\nfor = \"5s\"",
        &expect![
            "plan.toml:18: no room for so many in the window: random = 20 (ask for fewer, shorten for, or lengthen window)"
        ],
    );
    check(
        "kind = \"link-down\"\nat = \"5s\"\nevery = \"9s\"\nfor = \"5s\"",
        &expect![[r#"
        plan.toml:19: times of a disturbance told twice: at and every (keep one of them)"#]],
    );
    check(
        "kind = \"link-down\"\nfor = \"5s\"",
        &expect![[
            r#"plan.toml:16: missing key in [[disturb]]: at (add at = "90s", or every = "5m", or random = 3)"#
        ]],
    );
    check(
        "kind = \"link-down\"\nat = \"5s\"",
        &expect![[r#"
        plan.toml:16: missing key in [[disturb]]: for (add for = "20s")"#]],
    );
    check(
        "kind = \"link-down\"\nat = []\nfor = \"5s\"",
        &expect![[r#"plan.toml:18: at without an instant (write at = "90s")"#]],
    );
}

#[test]
fn wrong_parameters_are_refused() {
    check(
        "kind = \"loss\"\nat = \"5s\"\nfor = \"5s\"",
        &expect![[r#"plan.toml:16: missing key in [[disturb]]: share (add share = "1%")"#]],
    );
    check(
        "kind = \"loss\"\nshare = \"0%\"\nat = \"5s\"\nfor = \"5s\"",
        &expect![[r#"plan.toml:18: share out of range: "0%" (write above 0 % to 100 %)"#]],
    );
    check(
        "kind = \"memory\"\nsize = \"1GiB\"\nat = \"5s\"\nfor = \"5s\"",
        &expect![
            "plan.toml:18: size out of range: 1.00 GiB (write more than 0 and less than the guest has, 1.00 GiB)"
        ],
    );
    check(
        "kind = \"cpu-offline\"\ncpu = 2\nat = \"5s\"\nfor = \"5s\"",
        &expect!["plan.toml:18: cpu out of range: 2 (write 1 to 1)"],
    );
    check(
        "kind = \"clock-step\"\nstep = \"2days\"\nat = \"5s\"\nfor = \"5s\"",
        &expect![[
            r#"plan.toml:18: step: not a step: "2days" (write it like "+30s" or "-1h", a day at the most)"#
        ]],
    );
    check(
        "kind = \"link-down\"\nrate = 3\nat = \"5s\"\nfor = \"5s\"",
        &expect!["plan.toml:18: unknown key in [[disturb]]: rate (known: at, for, kind, name)"],
    );
    check(
        "name = \"A b\"\nkind = \"link-down\"\nat = \"5s\"\nfor = \"5s\"",
        &expect![[
            r#"plan.toml:17: not a name of a disturbance: "A b" (write up to 40 small letters, digits and hyphens)"#
        ]],
    );
}

#[test]
fn disturbances_of_a_resource_must_not_overlap() {
    let two = |first: &str, second: &str| format!("[[disturb]]\n{first}\n[[disturb]]\n{second}\n");
    let loss = "kind = \"loss\"\nshare = \"1%\"\nat = \"10s\"\nfor = \"5s\"";
    let link = |at: &str| format!("kind = \"link-down\"\nat = \"{at}\"\nfor = \"5s\"");
    let descriptors = "kind = \"descriptors\"\nat = \"12s\"\nfor = \"5s\"";
    check_with(
        GOOD,
        &two(loss, &link("14s")),
        &expect![
            "plan.toml:23: overlapping disturbances of the network: link-down and loss at 14s (let one end before the other begins)"
        ],
    );
    check_with(
        GOOD,
        &two(loss, loss),
        &expect![[r#"
        plan.toml:22: two disturbances of one name: "loss" (give one of them another name = "...")
        plan.toml:24: overlapping disturbances of the network: loss and loss at 10s (let one end before the other begins)"#]],
    );
    check_with(
        GOOD,
        &two(
            "kind = \"link-down\"\nat = [\"3s\", \"5s\"]\nfor = \"5s\"",
            loss,
        ),
        &expect![
            "plan.toml:18: overlapping disturbances of the network: link-down and link-down at 5s (let one end before the other begins)"
        ],
    );
    // One after the other, and of different resources.
    assert!(plan(GOOD, &two(loss, &link("15s"))).is_ok());
    assert!(plan(GOOD, &two(loss, descriptors)).is_ok());
}

#[test]
fn disturbances_that_the_machine_does_not_support_are_refused() {
    let link = "[[disturb]]\nkind = \"link-down\"\nat = \"5s\"\nfor = \"5s\"\n";
    let disk = "[[disturb]]\nkind = \"disk-full\"\nat = \"5s\"\nfor = \"5s\"\n";
    let cpu = "[[disturb]]\nkind = \"cpu-offline\"\nat = \"5s\"\nfor = \"5s\"\n";
    let one_cpu = GOOD.replace("cpus = 2", "cpus = 1");
    check_with(
        &one_cpu,
        cpu,
        &expect![
            "plan.toml:17: cpu-offline with so few CPUs: 1 (write cpus = 2 in [machine], or remove it)"
        ],
    );
    let local = GOOD
        .replace("cpus = 2", "kind = \"local\"")
        .replace("[image]\nrecipe = \"web\"\n", "")
        .replace("debian:bookworm/6.1", "running")
        .replace("debian:trixie-backports/7.2", "running");
    check_with(
        &local,
        disk,
        &expect![[
            r#"plan.toml:15: disturbance on a machine of kind "local": disk-full (write kind = "qemu" in [machine]: it would be felt by more than the trial)"#
        ]],
    );
    assert_eq!(
        plan(&local, link).map(|plan| plan.disturbances.len()),
        Ok(1)
    );
    let apart = GOOD.replace("cpus = 2", "clients = \"host\"");
    check_with(
        &apart,
        link,
        &expect![[
            r#"plan.toml:17: [[disturb]] with clients "host" (write clients = "guest" in [machine]: the network that is disturbed lies in the guest)"#
        ]],
    );
    let other = GOOD.replace("kind = \"toy\"", "kind = \"other\"");
    check_with(
        &other,
        link,
        &expect![[
            r#"plan.toml:17: [[disturb]] with a workload that ends at the first failure: other (give it a plan of its own; "web-soak" and "web-static" go on)"#
        ]],
    );
}

#[test]
fn random_times_follow_from_the_seed() {
    let random = "[[disturb]]\nkind = \"link-down\"\nrandom = 4\nfor = \"2s\"\n";
    let times = |seed: u32| {
        let good = GOOD.replace("seed = 7", &format!("seed = {seed}"));
        plan(&good, random).unwrap().disturbances[0].at_ms.clone()
    };
    assert_eq!(times(7), times(7));
    assert_ne!(times(7), times(8));
    for seed in 0..100 {
        for (part, at_ms) in times(seed).into_iter().enumerate() {
            // One in each part of 15 seconds.
            let begin = 15_000 * part as u64 + 1000;
            assert!(begin <= at_ms && at_ms + 2000 <= begin + 14_000, "{at_ms}");
        }
    }
}

#[test]
fn disturbances_keep_the_clients_in_the_guest() {
    let link = "[[disturb]]\nkind = \"link-down\"\nat = \"5s\"\nfor = \"5s\"\n";
    assert_eq!(plan(GOOD, "").unwrap().machine.clients, None);
    let disturbed = plan(GOOD, link).unwrap();
    assert_eq!(disturbed.machine.clients, Some(Clients::Guest));
}
