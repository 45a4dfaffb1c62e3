//! `queue` of an arm: settings of its disk's queue and of its I/O scheduler.

use std::collections::BTreeMap;

use base::input::problem::remedy_among;

use crate::fields::Fields;

/// Settings of every queue: writable files of `/sys/block/DISK/queue`.
const QUEUE: [&str; 11] = [
    "add_random",
    "io_poll",
    "io_timeout",
    "iostats",
    "max_sectors_kb",
    "nomerges",
    "nr_requests",
    "read_ahead_kb",
    "rotational",
    "rq_affinity",
    "wbt_lat_usec",
];

/// Settings of each scheduler: files of `queue/iosched`. `none` has no such directory.
const SCHEDULERS: [(&str, &[&str]); 4] = [
    (
        "bfq",
        &[
            "back_seek_max",
            "back_seek_penalty",
            "fifo_expire_async",
            "fifo_expire_sync",
            "low_latency",
            "max_budget",
            "slice_idle",
            "slice_idle_us",
            "strict_guarantees",
            "timeout_sync",
        ],
    ),
    ("kyber", &["read_lat_usec", "write_lat_usec"]),
    (
        "mq-deadline",
        &[
            "async_depth",
            "fifo_batch",
            "front_merges",
            "prio_aging_expire",
            "read_expire",
            "write_expire",
            "writes_starved",
        ],
    ),
    ("none", &[]),
];

/// Reads `queue`. Names are checked here. Values are checked by the kernel, and if it refuses one, the trial is void.
pub(crate) fn read_queue(fields: &Fields<'_>, scheduler: &str) -> BTreeMap<String, String> {
    let Some(table) = fields.table("queue") else {
        return BTreeMap::new();
    };
    let mut settings = BTreeMap::new();
    for (name, value) in table.scalars() {
        check_name(&table, name, scheduler);
        settings.insert(name.into(), value);
    }
    settings
}

fn check_name(table: &Fields<'_>, name: &str, scheduler: &str) {
    if QUEUE.contains(&name) {
        return;
    }
    let scheduler_settings: &[&str] = SCHEDULERS
        .iter()
        .find(|(known, _)| *known == scheduler)
        .map_or(&[], |(_, names)| names);
    if scheduler_settings.contains(&name) {
        return;
    }
    let has_setting = |(_, names): &&(&str, &[&str])| names.contains(&name);
    if let Some((other, _)) = SCHEDULERS.iter().find(has_setting) {
        let what = match scheduler {
            "" => format!("{name} without io_scheduler"),
            _ => format!("{name} is no setting of {scheduler}"),
        };
        let remedy = format!("write io_scheduler = \"{other}\" beside it, or remove it");
        table.wrong(name, what, remedy);
        return;
    }
    let known = [&QUEUE[..], scheduler_settings].concat();
    let what = format!("unknown setting of a disk's queue: {name}");
    table.wrong(name, what, remedy_among(name, &known));
}
