//! Disks and network cards. Virtual devices are left out, except bonds.

use std::collections::BTreeSet;

use crate::hardware::{Facts, System, insert};

const CARDS: &str = "sys/class/net";
const DISKS: &str = "sys/block";

pub(crate) fn collect(system: &System, facts: &mut Facts) {
    for disk in system.names(DISKS) {
        if system.has(&format!("{DISKS}/{disk}/device")) {
            collect_disk(system, &disk, facts);
        }
    }
    for card in cards(system) {
        collect_card(system, &card, facts);
    }
}

fn collect_disk(system: &System, disk: &str, facts: &mut Facts) {
    let read = |file: &str| system.read(&format!("{DISKS}/{disk}/{file}"));
    let mut add = |property: &str, value: Option<String>| {
        let name = format!("disk:{disk}:{property}");
        insert(facts, &name, value.as_deref().unwrap_or_default());
    };
    add("model", read("device/model"));
    // The kernel counts in sectors of 512 bytes, whatever the disk's sector size.
    let sectors = read("size").and_then(|text| text.parse::<u64>().ok());
    add("size", sectors.map(|count| format!("{} kB", count / 2)));
    let kind = read("queue/rotational").map(|text| match text.as_str() {
        "0" => "no".to_string(),
        _ => "yes".to_string(),
    });
    add("rotational", kind);
    let schedulers = read("queue/scheduler").unwrap_or_default();
    let chosen = schedulers
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    add("scheduler", chosen.map(|(name, _)| name.to_string()));
    add("write-cache", read("queue/write_cache"));
}

/// Network cards, and bonds of them, by name.
pub(crate) fn cards(system: &System) -> Vec<String> {
    let is_card = |name: &String| {
        let has = |part: &str| system.has(&format!("{CARDS}/{name}/{part}"));
        has("device") || has("bonding")
    };
    system.names(CARDS).into_iter().filter(is_card).collect()
}

fn collect_card(system: &System, card: &str, facts: &mut Facts) {
    let place = format!("{CARDS}/{card}");
    let read = |file: &str| system.read(&format!("{place}/{file}"));
    let mut add = |property: &str, value: Option<String>| {
        let name = format!("nic:{card}:{property}");
        insert(facts, &name, value.as_deref().unwrap_or_default());
    };
    add("driver", system.target(&format!("{place}/device/driver")));
    add("bus", system.target(&format!("{place}/device")));
    let ids = [read("device/vendor"), read("device/device")];
    if let [Some(vendor), Some(device)] = ids {
        add("pci-id", Some(format!("{vendor}:{device}")));
    }
    add(
        "numa-node",
        read("device/numa_node").filter(|node| node != "-1"),
    );
    add("state", read("operstate"));
    // -1 without a link.
    let speed = read("speed").filter(|text| !text.starts_with('-'));
    add("speed", speed.map(|text| format!("{text} Mbit/s")));
    add("duplex", read("duplex"));
    add("mtu", read("mtu"));
    add("bond", system.target(&format!("{place}/master")));
    add("bond-mode", read("bonding/mode"));
    add("bond-cards", read("bonding/slaves"));
    let queues = system.names(&format!("{place}/queues"));
    let queues_of =
        |prefix: &'static str| queues.iter().filter(move |name| name.starts_with(prefix));
    if !queues.is_empty() {
        let (receive, send) = (queues_of("rx-").count(), queues_of("tx-").count());
        add("queues", Some(format!("{receive} receive {send} send")));
    }
    let receive = queues_of("rx-");
    let masks = receive.filter_map(|name| read(&format!("queues/{name}/rps_cpus")));
    let masks: BTreeSet<String> = masks.collect();
    add("rps-cpus", joined(masks));
    let affinity = interrupts(system, &place)
        .into_iter()
        .filter_map(|number| system.read(&format!("proc/irq/{number}/smp_affinity_list")));
    add("irq-cpus", joined(affinity.collect()));
}

/// Numbers of a card's interrupts. A card on a virtio bus has none below its device: its queues are called
/// `virtio2-input.0` in `/proc/interrupts`, and their interrupts belong to the PCI device of the bus.
fn interrupts(system: &System, place: &str) -> Vec<String> {
    let numbers = system.names(&format!("{place}/device/msi_irqs"));
    let device = system.target(&format!("{place}/device"));
    let Some(device) = device.filter(|name| numbers.is_empty() && name.starts_with("virtio"))
    else {
        return numbers;
    };
    let table = system.read("proc/interrupts").unwrap_or_default();
    let lines = table.lines().filter_map(|line| line.split_once(':'));
    let named = lines.filter(|(_, rest)| serves_packets(rest, &device));
    let named: Vec<String> = named.map(|(number, _)| number.trim().into()).collect();
    if named.is_empty() {
        system.names(&format!("{place}/device/../msi_irqs"))
    } else {
        named
    }
}

/// Whether a line of `/proc/interrupts` belongs to a virtio device's queues: `virtio2-input.0`, `virtio2-virtqueues`, or `virtio2`
/// for a device with a single line.
fn serves_packets(line: &str, device: &str) -> bool {
    let mut names = line.split([' ', ',']);
    names.any(|name| match name.strip_prefix(device) {
        Some(rest) => rest.is_empty() || (rest.starts_with('-') && rest != "-config"),
        None => false,
    })
}

fn joined(values: BTreeSet<String>) -> Option<String> {
    (!values.is_empty()).then(|| values.into_iter().collect::<Vec<_>>().join(" "))
}
