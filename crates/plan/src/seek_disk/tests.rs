use std::path::Path;

use expect_test::{Expect, expect};

use crate::tests::toy_of_a_second;
use crate::{Checks, Plan};

fn read(machine: &str, arm: &str) -> Result<Plan, String> {
    let text = format!(
        "title = \"t\"\nbaseline = \"a\"\n[machine]\n{machine}\n[image]\nrecipe = \"web\"\n\
         [arm.a]\nkernel = \"debian:trixie/6.12\"\n{arm}\n[arm.b]\nkernel = \"debian:trixie/6.12\"\n\
         [[workload]]\nkind = \"toy\"\n"
    );
    let checks = Checks::of_the_past(&toy_of_a_second);
    crate::read("p.toml", &text, Path::new("/"), checks).map_err(|why| why.to_string())
}

/// Compares the mistakes of plans with these keys of the machine and of an arm.
fn check(cases: &[(&str, &str)], want: &Expect) {
    let results = cases.iter().map(|(machine, arm)| match read(machine, arm) {
        Ok(_) => "good".to_string(),
        Err(why) => why.replace("p.toml:", ""),
    });
    want.assert_eq(&results.collect::<Vec<_>>().join("\n"));
}

#[test]
fn impossible_drives_are_refused() {
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
    let cases: Vec<_> = cases.iter().map(|disk| (disk.as_str(), "")).collect();
    check(
        &cases,
        &expect![[r#"
        good
        4: missing key in [machine.disk]: kind (add kind = "seek")
        4: unknown kind: "ssd" (known: seek)
        4: no seek curve has this average between 1ms 100us and 15ms 100us: 1s (write average_seek = 5ms 767us to 11ms 366us)
        4: no seek curve has this average between 1ms 100us and 15ms 100us: 14ms (write average_seek = 5ms 767us to 11ms 366us)
        4: track_to_track not below full_stroke: 20ms and 15ms 100us (write the shorter one here)
        4: full_stroke out of range: 1h (write 10us to 1s)
        4: wrong type for full_stroke in [machine.disk]: integer (write a text in quotes)
        4: rpm out of range: 0 (write 1000 to 30000)
        4: depth out of range: 0 (write 1 to 256)
        4: size out of range: 1 MB (write 1 GB to 16 TB)
        4: store beyond memory: 2.00 GiB of 1.00 GiB (write memory = "2.25 GiB" or more in [machine], or a smaller store)
        4: inner_rate above outer_rate (write the smaller one as inner_rate: inner tracks are shorter)
        4: outer_rate: not a size: "fast" (write it like "512MiB" or "2GiB")
        4: unknown key in [machine.disk]: rotation (known: average_seek, depth, full_stroke, inner_rate, interface_rate, kind, outer_rate, read_ahead, rpm, size, store, track_to_track, write_cache)"#]],
    );
}

#[test]
fn a_disk_with_seeks_needs_a_guest_and_excludes_other_limits() {
    let disk = "disk = { kind = \"seek\" }";
    check(
        &[
            (&format!("{disk}\ndisk_rate = \"60MiB\""), ""),
            (&format!("memory = \"300MiB\"\n{disk}"), ""),
            (&format!("clock = \"instructions\"\n{disk}"), ""),
            ("disk = \"seek\"", ""),
        ],
        &expect![[r#"
            5: disk_rate beside a disk with seeks (remove it, or remove disk: it is how slow the host's disk is made)
            good
            good
            4: wrong type for disk in [machine]: string (write a table)"#]],
    );
    let local = "title = \"t\"\nbaseline = \"a\"\n[machine]\nkind = \"local\"\ndisk = { kind = \"seek\" }\n[arm.a]\n[arm.b]\n\
                 [[workload]]\nkind = \"toy\"\n";
    let checks = Checks::of_the_past(&toy_of_a_second);
    let why = crate::read("p.toml", local, Path::new("/"), checks).unwrap_err();
    expect![[r#"p.toml:5: disk of a machine of kind "local" (remove it, or write kind = "qemu": a disk with seeks is a guest's)"#]].assert_eq(&why.to_string());
}

#[test]
fn queue_settings_depend_on_the_io_scheduler() {
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
    check(
        &cases,
        &expect![[r#"
        good
        good
        9: slice_idle without io_scheduler (write io_scheduler = "bfq" beside it, or remove it)
        10: slice_idle is no setting of mq-deadline (write io_scheduler = "bfq" beside it, or remove it)
        10: fifo_batch is no setting of none (write io_scheduler = "mq-deadline" beside it, or remove it)
        10: unknown setting of a disk's queue: slice_idel (did you mean "slice_idle"?)
        9: wrong type for nr_requests in [arm."a".queue]: boolean (write a number or a text)
        9: wrong type for queue in [arm."a"]: integer (write a table)"#]],
    );
}

#[test]
fn the_default_is_a_drive_of_2003() {
    let plan = read(
        "memory = \"4GiB\"\ndisk = { kind = \"seek\", depth = 32 }",
        "",
    )
    .unwrap();
    let disk = plan.machine.seek_disk.unwrap();
    expect!["80.0 GB, 7200 rpm, seeks 1.10 / 8.50 / 15.1 ms (track to track, average, full stroke), 61.4 to 29.7 MB/s (outer to inner track), 100 MB/s interface, read-ahead 2.00 MiB, write cache 2.00 MiB, 32 at once; keeps 512 MiB in the guest's memory"].assert_eq(&disk.words());
}
