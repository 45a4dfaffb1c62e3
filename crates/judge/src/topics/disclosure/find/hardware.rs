//! The hardware of a run: the host, and the machines of the arms.

use std::collections::BTreeSet;

use plan::MachineKind;
use record::evidence::Facts;
use record::fact;
use record::rundir::Run;
use record::verdict::disclosure::{Fact, Item, Side};

use super::recorded;
use crate::topics::fairness::subject::is_of_network;

/// A fact of a machine: the item, its property, and the keys under which trials record it; the first present key counts. A
/// key that begins with `:` is a fact of the hardware.
type Source = (Item, &'static str, &'static [&'static str]);

/// Facts of a real machine.
const REAL: [Source; 17] = [
    (Item::Product, "", &[":product"]),
    (Item::Firmware, "", &[":firmware"]),
    (Item::Cpu, "", &[":cpu:model", fact::CPU_MODEL]),
    (Item::CpuTopology, "sockets", &[":cpu:sockets"]),
    (Item::CpuTopology, "cores", &[":cpu:cores"]),
    (
        Item::CpuTopology,
        "threads",
        &[":cpu:threads", fact::CPU_COUNT],
    ),
    (Item::Smt, "", &[":cpu:smt", fact::SMT_CONTROL]),
    (Item::Caches, "", &[":cpu:caches"]),
    (
        Item::Frequency,
        "driver",
        &[":cpu:frequency-driver", fact::SCALING_DRIVER],
    ),
    (
        Item::Frequency,
        "governor",
        &[":cpu:governor", fact::SCALING_GOVERNOR],
    ),
    (Item::Frequency, "turbo", &[":cpu:turbo"]),
    (Item::Frequency, "highest MHz", &[":cpu:max-mhz"]),
    (
        Item::Microcode,
        "",
        &[":cpu:microcode", fact::CPU_MICROCODE],
    ),
    (Item::Numa, "", &[":numa", fact::NODES_ONLINE]),
    (Item::Memory, "", &[":memory", fact::MEMORY_TOTAL]),
    (Item::Memory, "swap", &[fact::SWAP_TOTAL]),
    (Item::Memory, "transparent huge pages", &[fact::HUGE_PAGES]),
];

/// Facts of a guest; its emulator and host have the rest.
const GUEST: [Source; 5] = [
    (Item::Cpu, "", &[fact::CPU_MODEL]),
    (Item::Cpus, "", &[fact::CPU_COUNT]),
    (Item::Numa, "", &[fact::NODES_ONLINE]),
    (Item::Memory, "", &[fact::MEMORY_TOTAL]),
    (Item::Memory, "swap", &[fact::SWAP_TOTAL]),
];

/// Of a guest whose workloads have a disk with seeks.
const SEEK_DISK: [Source; 1] = [(Item::Disk, "with seeks", &["seek-disk:geometry"])];

/// Of a system on the network that nobody can look into.
const REMOTE: [Source; 3] = [
    (Item::Cpu, "", &[]),
    (Item::Memory, "", &[]),
    (Item::Evidence, "", &[fact::REMOTE_EVIDENCE]),
];

/// Devices of which a machine has several, and what their facts begin with.
const DEVICES: [(Item, &str); 2] = [(Item::Disk, "disk"), (Item::NetworkCard, "nic")];

/// What facts of a machine's hardware begin with.
fn lead(side: Side) -> &'static str {
    match side {
        Side::Host => fact::HOST_HARDWARE,
        Side::System | Side::Whole => "hardware",
    }
}

pub(crate) fn of(run: &Run) -> Vec<Fact> {
    let mut facts = Vec::new();
    if is_of_network(&run.plan) {
        facts.extend(of_side(run, Side::System, &REMOTE));
        facts.extend(of_side(run, Side::Host, &REAL));
        facts.extend(devices(run, Side::Host));
        return facts;
    }
    match run.plan.machine.kind {
        MachineKind::Qemu => {
            facts.extend(of_side(run, Side::Host, &REAL));
            facts.extend(devices(run, Side::Host));
            facts.extend(of_side(run, Side::System, &GUEST));
            if run.plan.machine.seek_disk.is_some() {
                facts.extend(of_side(run, Side::System, &SEEK_DISK));
            }
        }
        MachineKind::Local | MachineKind::Ssh | MachineKind::Url => {
            facts.extend(of_side(run, Side::System, &REAL));
            facts.extend(devices(run, Side::System));
        }
    }
    facts
}

fn of_side(run: &Run, side: Side, sources: &[Source]) -> Vec<Fact> {
    let fact = |(item, property, keys): &Source| Fact {
        side,
        item: *item,
        name: String::new(),
        property: (*property).into(),
        values: recorded(run, |facts| first(facts, side, keys)),
    };
    sources.iter().map(fact).collect()
}

/// The first of these facts that a trial recorded. Facts of `/proc` belong to the arm's machine, never to its host.
fn first(facts: &Facts, side: Side, keys: &[&str]) -> Option<String> {
    let value = |key: &&str| {
        if key.starts_with(':') {
            return facts.values.get(&format!("{}{key}", lead(side)));
        }
        facts.values.get(*key).filter(|_| side != Side::Host)
    };
    keys.iter().find_map(value).cloned()
}

/// All disks and network cards, with all recorded facts.
fn devices(run: &Run, side: Side) -> Vec<Fact> {
    let mut found = Vec::new();
    for (item, word) in DEVICES {
        let lead = format!("{}:{word}:", lead(side));
        let keys = run
            .facts
            .iter()
            .flatten()
            .flat_map(|facts| facts.values.keys());
        let properties: BTreeSet<&str> = keys.filter_map(|key| key.strip_prefix(&lead)).collect();
        let fact = |name: &str, property: &str, key: &str| Fact {
            side,
            item,
            name: name.into(),
            property: property.into(),
            values: recorded(run, |facts| facts.values.get(key).cloned()),
        };
        found.extend(properties.iter().filter_map(|rest| {
            let (name, property) = rest.rsplit_once(':')?;
            Some(fact(name, property, &format!("{lead}{rest}")))
        }));
        if properties.is_empty() {
            found.push(fact("", "", &lead));
        }
    }
    found
}
