use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use expect_test::expect;

use super::*;

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Two sockets of two cores with two threads each, a memory node for each socket, a disk, and two cards, one of them in a bond.
fn server() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    write(
        root,
        "proc/cpuinfo",
        "processor\t: 0\nmodel name\t: Xeon 7\nmicrocode\t: 0x2b\n",
    );
    write(root, "proc/meminfo", "MemTotal:       1024 kB\n");
    let cpu = |number: u32| format!("sys/devices/system/cpu/cpu{number}/topology");
    for number in 0..8 {
        let socket = number % 2;
        write(
            root,
            &format!("{}/core_id", cpu(number)),
            &format!("{}\n", number / 2 % 2),
        );
        write(
            root,
            &format!("{}/physical_package_id", cpu(number)),
            &format!("{socket}\n"),
        );
    }
    for (node, cpus) in [(0, "0,2,4,6"), (1, "1,3,5,7")] {
        let place = format!("sys/devices/system/node/node{node}");
        write(root, &format!("{place}/cpulist"), cpus);
        write(
            root,
            &format!("{place}/meminfo"),
            &format!("Node {node} MemTotal:  512 kB\n"),
        );
    }
    add_cpu_settings(root);
    write(root, "sys/block/sda/device/model", "FAST 1  \n");
    write(root, "sys/block/sda/size", "2048\n");
    write(
        root,
        "sys/block/sda/queue/scheduler",
        "none [mq-deadline]\n",
    );
    write(root, "sys/block/loop0/size", "8\n");
    add_cards(root);
    dir
}

fn add_cpu_settings(root: &Path) {
    let cache = "sys/devices/system/cpu/cpu0/cache/index3";
    for (file, text) in [
        ("level", "3"),
        ("size", "32768K"),
        ("type", "Unified"),
        ("shared_cpu_list", "0,2,4,6"),
    ] {
        write(root, &format!("{cache}/{file}"), text);
    }
    for (policy, governor) in [(0, "performance"), (1, "schedutil")] {
        let place = format!("sys/devices/system/cpu/cpufreq/policy{policy}");
        write(root, &format!("{place}/scaling_governor"), governor);
    }
    write(root, "sys/devices/system/cpu/intel_pstate/no_turbo", "0\n");
    write(root, "sys/devices/system/cpu/smt/control", "on\n");
}

fn add_cards(root: &Path) {
    write(root, "sys/class/net/lo/mtu", "65536\n");
    for card in ["eth0", "eth1"] {
        let place = format!("sys/class/net/{card}");
        write(root, &format!("{place}/device/vendor"), "0x8086\n");
        write(root, &format!("{place}/device/device"), "0x100e\n");
        write(root, &format!("{place}/device/numa_node"), "1\n");
        write(
            root,
            &format!("{place}/speed"),
            if card == "eth0" { "1000\n" } else { "-1\n" },
        );
        write(root, &format!("{place}/queues/rx-0/rps_cpus"), "0f\n");
        write(root, &format!("{place}/queues/tx-0/xps_cpus"), "0f\n");
        fs::create_dir_all(root.join(format!("{place}/device/msi_irqs/41"))).unwrap();
    }
    write(root, "proc/irq/41/smp_affinity_list", "1,3\n");
    symlink("../bond0", root.join("sys/class/net/eth1/master")).unwrap();
    write(root, "sys/class/net/bond0/bonding/mode", "802.3ad 4\n");
    write(root, "sys/class/net/bond0/bonding/slaves", "eth1\n");
}

#[test]
fn facts_describe_a_server() {
    let dir = server();
    let facts = facts_below(dir.path());
    let lines: Vec<String> = facts
        .iter()
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    expect![[r#"
        cpu:caches = L3 32768K for CPUs 0,2,4,6
        cpu:cores = 4
        cpu:governor = performance or schedutil
        cpu:microcode = 0x2b
        cpu:model = Xeon 7
        cpu:smt = on
        cpu:sockets = 2
        cpu:threads = 8
        cpu:turbo = on
        disk:sda:model = FAST 1
        disk:sda:scheduler = mq-deadline
        disk:sda:size = 1024 kB
        memory = 1024 kB
        nic:bond0:bond-cards = eth1
        nic:bond0:bond-mode = 802.3ad 4
        nic:eth0:irq-cpus = 1,3
        nic:eth0:numa-node = 1
        nic:eth0:pci-id = 0x8086:0x100e
        nic:eth0:queues = 1 receive 1 send
        nic:eth0:rps-cpus = 0f
        nic:eth0:speed = 1000 Mbit/s
        nic:eth1:bond = bond0
        nic:eth1:irq-cpus = 1,3
        nic:eth1:numa-node = 1
        nic:eth1:pci-id = 0x8086:0x100e
        nic:eth1:queues = 1 receive 1 send
        nic:eth1:rps-cpus = 0f
        numa = node0 CPUs 0,2,4,6, node1 CPUs 1,3,5,7
        numa:memory = node0 512 kB, node1 512 kB"#]]
    .assert_eq(&lines.join("\n"));
}

/// The CPUs that handle the interrupts of eth0, which is on a virtio bus of a PCI device.
fn virtio_cpus(interrupts: &str) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let device = root.join("sys/devices/pci0000:00/0000:00:03.0/virtio2");
    fs::create_dir_all(&device).unwrap();
    for (number, cpus) in [(37, "0-3"), (38, "1"), (39, "2"), (40, "3")] {
        fs::create_dir_all(device.join(format!("../msi_irqs/{number}"))).unwrap();
        write(root, &format!("proc/irq/{number}/smp_affinity_list"), cpus);
    }
    fs::create_dir_all(root.join("sys/class/net/eth0")).unwrap();
    symlink(&device, root.join("sys/class/net/eth0/device")).unwrap();
    write(root, "proc/interrupts", interrupts);
    facts_below(root).remove("nic:eth0:irq-cpus")
}

#[test]
fn interrupts_of_a_virtio_card_are_those_of_its_queues() {
    let queues = "           CPU0       CPU1\n\
                  \x20 36:   0   13  PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0\n\
                  \x20 37:   0    0  PCI-MSIX-0000:00:03.0   0-edge      virtio2-config\n\
                  \x20 38:   0   71  PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0\n\
                  \x20 39:  45    0  PCI-MSIX-0000:00:03.0   2-edge      virtio2-output.0\n\
                  \x20 40:  45    0  PCI-MSIX-0000:00:04.0   2-edge      virtio21-output.0\n\
                  LOC:  1  1  Local timer interrupts\n";
    assert_eq!(virtio_cpus(queues).as_deref(), Some("1 2"));
    // A single line for the device, shared with another one.
    let shared = " 40:  45    0  IO-APIC  11-fasteoi   uhci_hcd:usb1, virtio2\n";
    assert_eq!(virtio_cpus(shared).as_deref(), Some("3"));
    // No line names the device: all interrupts of its PCI device count.
    assert_eq!(virtio_cpus("").as_deref(), Some("0-3 1 2 3"));
}

#[test]
fn an_unknown_machine_has_no_facts() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(facts_below(dir.path()), Facts::new());
}

#[test]
fn facts_contain_no_identifiers_and_no_changing_values() {
    let facts = facts();
    assert_eq!(facts, super::facts());
    let is_specimen = |name: &&String| name.contains("serial") || name.contains("address");
    assert_eq!(facts.keys().find(is_specimen), None);
}
