//! CPUs, their caches and frequencies, and memory nodes.

use std::collections::BTreeSet;

use crate::hardware::{Facts, System, insert, number};

const CPUS: &str = "sys/devices/system/cpu";
const NODES: &str = "sys/devices/system/node";

/// The first CPU's model in the text of `/proc/cpuinfo`. Arm's has numbers in place of a name: those of the implementer and of the part.
pub fn model(info: &str) -> Option<String> {
    if let Some(name) = field(info, "model name") {
        return Some(name.into());
    }
    let implementer = field(info, "CPU implementer")?;
    let part = field(info, "CPU part")?;
    Some(format!("implementer {implementer}, part {part}"))
}

fn field<'i>(info: &'i str, name: &str) -> Option<&'i str> {
    let lines = info.lines().filter_map(|line| line.split_once(':'));
    let mut values = lines.filter(|(key, _)| key.trim() == name);
    values.next().map(|(_, value)| value.trim())
}

pub(crate) fn collect(system: &System, facts: &mut Facts) {
    let info = system.read("proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| field(&info, name).map(String::from);
    let mut add = |name: &str, value: Option<String>| {
        insert(facts, name, value.as_deref().unwrap_or_default());
    };
    add("cpu:model", model(&info));
    add("cpu:microcode", field("microcode"));
    if let Some((sockets, cores, threads)) = topology(system) {
        add("cpu:sockets", Some(sockets.to_string()));
        add("cpu:cores", Some(cores.to_string()));
        add("cpu:threads", Some(threads.to_string()));
    }
    add("cpu:smt", system.read(&format!("{CPUS}/smt/control")));
    add("cpu:caches", caches(system));
    add(
        "cpu:frequency-driver",
        policy_values(system, "scaling_driver"),
    );
    add("cpu:governor", policy_values(system, "scaling_governor"));
    let highest = policy_values(system, "cpuinfo_max_freq");
    let mhz = |text: &str| text.parse::<u64>().ok().map(|khz| khz / 1000);
    add(
        "cpu:max-mhz",
        highest
            .and_then(|text| mhz(&text))
            .map(|mhz| mhz.to_string()),
    );
    add("cpu:turbo", turbo(system));
    let nodes = nodes(system);
    add(
        "numa",
        joined(&nodes, |node| {
            format!("node{} CPUs {}", node.number, node.cpus)
        }),
    );
    add(
        "numa:memory",
        joined(&nodes, |node| {
            format!("node{} {}", node.number, node.memory)
        }),
    );
    let memory = system.read("proc/meminfo").unwrap_or_default();
    let total = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"));
    add("memory", total.map(|text| text.trim().to_string()));
}

/// Sockets, cores and threads that are online.
fn topology(system: &System) -> Option<(usize, usize, usize)> {
    let (mut sockets, mut cores) = (BTreeSet::new(), BTreeSet::new());
    let mut threads = 0;
    for name in system.names(CPUS) {
        if number(&name, "cpu").is_none() {
            continue;
        }
        let part = |part: &str| system.read(&format!("{CPUS}/{name}/topology/{part}"));
        // An offline CPU has no topology.
        let Some(core) = part("core_id") else {
            continue;
        };
        let socket = part("physical_package_id");
        // Core numbers restart with each die.
        cores.insert((socket.clone(), part("die_id"), core));
        sockets.insert(socket);
        threads += 1;
    }
    (threads > 0).then_some((sockets.len(), cores.len(), threads))
}

/// `L1d 48K, L1i 32K, L2 1024K, L3 32768K for CPUs 0-7`, of the first CPU.
fn caches(system: &System) -> Option<String> {
    let place = format!("{CPUS}/cpu0/cache");
    let mut caches = Vec::new();
    for name in system.names(&place) {
        let part = |part: &str| system.read(&format!("{place}/{name}/{part}"));
        let (Some(level), Some(size)) = (part("level"), part("size")) else {
            continue;
        };
        let kind = match part("type").as_deref() {
            Some("Data") => "d",
            Some("Instruction") => "i",
            _ => "",
        };
        let shared = part("shared_cpu_list").filter(|list| list.contains([',', '-']));
        let shared = shared.map(|list| format!(" for CPUs {list}"));
        caches.push(format!(
            "L{level}{kind} {size}{}",
            shared.unwrap_or_default()
        ));
    }
    (!caches.is_empty()).then(|| caches.join(", "))
}

/// The values of all frequency policies, each once.
fn policy_values(system: &System, file: &str) -> Option<String> {
    let place = format!("{CPUS}/cpufreq");
    let policies = system.names(&place).into_iter();
    let policies = policies.filter(|name| number(name, "policy").is_some());
    let values = policies.filter_map(|name| system.read(&format!("{place}/{name}/{file}")));
    let values: BTreeSet<String> = values.collect();
    (!values.is_empty()).then(|| values.into_iter().collect::<Vec<_>>().join(" or "))
}

fn turbo(system: &System) -> Option<String> {
    let no_turbo = system.read(&format!("{CPUS}/intel_pstate/no_turbo"));
    let boost = system.read(&format!("{CPUS}/cpufreq/boost"));
    let is_on = no_turbo
        .map(|text| text == "0")
        .or(boost.map(|text| text == "1"))?;
    Some(if is_on { "on" } else { "off" }.into())
}

struct Node {
    number: u32,
    cpus: String,
    memory: String,
}

fn nodes(system: &System) -> Vec<Node> {
    let names = system.names(NODES).into_iter();
    let node = |name: String| {
        let number = number(&name, "node")?;
        let cpus = system.read(&format!("{NODES}/{name}/cpulist"));
        let memory = system
            .read(&format!("{NODES}/{name}/meminfo"))
            .unwrap_or_default();
        let total = memory.lines().find_map(|line| line.split_once("MemTotal:"));
        Some(Node {
            number,
            cpus: cpus.unwrap_or("none".into()),
            memory: total.map_or("not known".into(), |(_, text)| text.trim().to_string()),
        })
    };
    let mut nodes: Vec<Node> = names.filter_map(node).collect();
    nodes.sort_by_key(|node| node.number);
    nodes
}

fn joined(nodes: &[Node], describe: impl Fn(&Node) -> String) -> Option<String> {
    (!nodes.is_empty()).then(|| nodes.iter().map(describe).collect::<Vec<_>>().join(", "))
}
