use std::path::Path;

use expect_test::{Expect, expect};

use crate::fields::Fields;
use crate::{Checks, Plan, WorkloadPlan};

fn toy(fields: &Fields<'_>) -> Option<WorkloadPlan> {
    fields.choice("kind", &[("toy", ())])?;
    fields.finish();
    Some(WorkloadPlan {
        id: "toy".into(),
        kind: "toy".into(),
        options: serde_json::Value::Null,
        length: std::time::Duration::from_secs(1),
        window: std::time::Duration::from_secs(1),
        expected: None,
    })
}

fn read(machine: &str, arm: &str) -> Result<Plan, String> {
    let text = format!(
        "title = \"t\"\nbaseline = \"a\"\n[machine]\n{machine}\n[image]\nrecipe = \"web\"\n\
         [arm.a]\nkernel = \"debian:trixie/6.12\"\n{arm}\n[arm.b]\nkernel = \"debian:trixie/6.12\"\n\
         [[workload]]\nkind = \"toy\"\n"
    );
    let checks = Checks::of_the_past(&toy);
    crate::read("p.toml", &text, Path::new("/"), checks).map_err(|why| why.to_string())
}

/// What is wrong with a disk's keys, then with an arm's.
fn check(cases: &[(&str, &str)], want: &Expect) {
    let told = cases.iter().map(|(machine, arm)| match read(machine, arm) {
        Ok(_) => "good".to_string(),
        Err(why) => why.replace("p.toml:", ""),
    });
    want.assert_eq(&told.collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_drive_that_cannot_be_is_refused() {
    let cases = [
        "kind = \"seek\"",
        "",
        "kind = \"ssd\"",
        "kind = \"seek\", average_seek = \"1s\"",
        "kind = \"seek\", average_seek = \"14ms\"",
        "kind = \"seek\", track_to_track = \"20ms\"",
        "kind = \"seek\", full_stroke = \"1h\"",
        "kind = \"seek\", full_stroke = 15",
        "kind = \"seek\", rpm = 0",
        "kind = \"seek\", depth = 0",
        "kind = \"seek\", size = \"1MB\"",
        "kind = \"seek\", store = \"2GiB\"",
        "kind = \"seek\", inner_rate = \"90MB\"",
        "kind = \"seek\", outer_rate = \"fast\"",
        "kind = \"seek\", rotation = 7200",
    ];
    let cases = cases.map(|keys| format!("disk = {{ {keys} }}"));
    let cases: Vec<_> = cases.iter().map(|one| (one.as_str(), "")).collect();
    check(&cases, &expect![[r#""#]]);
}

#[test]
fn a_disk_with_seeks_is_a_guests() {
    let disk = "disk = { kind = \"seek\" }";
    check(
        &[
            (&format!("{disk}\ndisk_rate = \"60MiB\""), ""),
            (&format!("memory = \"300MiB\"\n{disk}"), ""),
            (&format!("clock = \"instructions\"\n{disk}"), ""),
            ("disk = \"seek\"", ""),
        ],
        &expect![[r#""#]],
    );
    let local = "title = \"t\"\nbaseline = \"a\"\n[machine]\nkind = \"local\"\ndisk = { kind = \"seek\" }\n[arm.a]\n[arm.b]\n\
                 [[workload]]\nkind = \"toy\"\n";
    let checks = Checks::of_the_past(&toy);
    let why = crate::read("p.toml", local, Path::new("/"), checks).unwrap_err();
    expect![[r#""#]].assert_eq(&why.to_string());
}

#[test]
fn settings_of_a_queue_are_those_of_its_scheduler() {
    let cases = [
        "io_scheduler = \"bfq\"\nqueue = { slice_idle = 0, low_latency = 0, nr_requests = 128 }",
        "queue = { wbt_lat_usec = 0 }",
        "queue = { slice_idle = 0 }",
        "io_scheduler = \"mq-deadline\"\nqueue = { slice_idle = 0 }",
        "io_scheduler = \"none\"\nqueue = { fifo_batch = 1 }",
        "io_scheduler = \"bfq\"\nqueue = { slice_idel = 0 }",
        "queue = { nr_requests = true }",
        "queue = 128",
    ];
    let cases = cases.map(|arm| ("", arm));
    check(&cases, &expect![[r#""#]]);
}

#[test]
fn what_is_not_written_is_the_drive_of_2003() {
    let plan = read(
        "memory = \"4GiB\"\ndisk = { kind = \"seek\", depth = 32 }",
        "",
    )
    .unwrap();
    let disk = plan.machine.seek_disk.unwrap();
    expect![[r#""#]].assert_eq(&disk.words());
}
