//! The machine on which trials ran, in words.

use base::input::units::show_bytes;
use record::machine::{
    Acceleration, BoxCard, BoxClients, Choice, ClientsApart, GuestClock, Guests, HostOfGuests,
    Locality, MachineDescription, Placement,
};

/// `QEMU 10.0.13, KVM, clock wall, CPUs 2 (host), memory 1.00 GiB`.
pub fn machine(machine: &MachineDescription) -> String {
    match machine {
        MachineDescription::Qemu(guests) => qemu(guests),
        MachineDescription::Local { release, cpus } => {
            format!("this host, Linux {release}, clock wall, CPUs {cpus}")
        }
        MachineDescription::Ssh {
            host,
            cpu,
            cpus,
            memory_bytes,
            interface,
            driver,
            boot,
            cards,
            clients,
        } => {
            let memory = show_bytes(*memory_bytes);
            format!(
                "box {host}, {cpu}, CPUs {cpus}, memory {memory}, {interface} by {driver}, arms by {boot}, clock wall{}{}",
                server_cards(cards),
                clients.as_ref().map_or_else(String::new, remote_clients)
            )
        }
        MachineDescription::Url {
            exchanged,
            client_hosts,
            release,
            cpus,
        } => {
            let exchanged = if *exchanged {
                ", exchanged from block to block"
            } else {
                ""
            };
            match client_hosts.join(", ").as_str() {
                "" => format!(
                    "systems on the network{exchanged}; clients on this host, Linux {release}, clock wall, CPUs {cpus}"
                ),
                hosts => {
                    format!(
                        "systems on the network{exchanged}; clients by ssh on {hosts}, clock wall"
                    )
                }
            }
        }
        MachineDescription::Fake => "fake machine, simulated time".into(),
    }
}

/// The kind of machine and its clock, for a headline.
pub(crate) fn kind(machine: &MachineDescription) -> &'static str {
    match machine {
        MachineDescription::Qemu(guests) => match (guests.acceleration, guests.clock) {
            (Acceleration::Tcg, GuestClock::Instructions) => "emulated, counted instructions",
            (Acceleration::Tcg, GuestClock::Wall) => "emulated",
            (Acceleration::Kvm, _) => "KVM",
        },
        MachineDescription::Local { .. } => "this host",
        MachineDescription::Ssh { .. } => "a box",
        MachineDescription::Url { .. } => "the network",
        MachineDescription::Fake => "simulated",
    }
}

/// Network cards at which servers listen, with their addresses.
fn server_cards(cards: &[BoxCard]) -> String {
    let describe =
        |card: &BoxCard| format!("{} {} by {}", card.interface, card.address, card.driver);
    let cards: Vec<String> = cards.iter().map(describe).collect();
    match cards.join(" and ").as_str() {
        "" => String::new(),
        cards => format!(", servers at {cards}"),
    }
}

fn remote_clients(clients: &BoxClients) -> String {
    match clients {
        BoxClients::Host { release, cpus } => {
            format!(", clients on this host, Linux {release}, CPUs {cpus}")
        }
        BoxClients::Hosts { names } => format!(", clients by ssh on {}", names.join(", ")),
    }
}

fn qemu(guests: &Guests) -> String {
    let acceleration = match guests.acceleration {
        Acceleration::Kvm => "KVM",
        Acceleration::Tcg => "emulation (TCG)",
    };
    let clock = match guests.clock {
        GuestClock::Wall => "wall",
        GuestClock::Instructions => "instructions",
    };
    let mut parts = vec![
        guests.emulator.clone(),
        acceleration.into(),
        format!("clock {clock}"),
        format!("CPUs {} ({})", cpus(guests), guests.cpu_model),
        format!("memory {}", show_bytes(guests.memory_bytes)),
    ];
    if guests.profiled {
        parts.push("profiled".into());
    }
    parts.extend(guests.host.iter().map(host));
    parts.extend(guests.clients.as_ref().map(|clients| match clients {
        ClientsApart::Host { vhost: true } => "clients on this host (vhost)".into(),
        ClientsApart::Host { vhost: false } => "clients on this host".into(),
        ClientsApart::Guest { release } => {
            format!("clients in a guest of their own, Linux {release}")
        }
    }));
    let text = parts.join(", ");
    let choices = guests.choices.iter();
    let choices: Vec<String> = choices.map(|each| choice(each, guests)).collect();
    match choices.join("; ").as_str() {
        "" => text,
        choices => format!("{text} ({choices})"),
    }
}

fn cpus(guests: &Guests) -> String {
    let counts: Vec<String> = guests.cpus.iter().map(u32::to_string).collect();
    let by_arm = if counts.len() > 1 { " by arm" } else { "" };
    format!("{}{by_arm}", counts.join(", "))
}

fn host(host: &HostOfGuests) -> String {
    let pinning = match &host.placement {
        Ok(placement) => pinning(placement),
        Err(why) => format!("virtual CPUs not pinned: {why}"),
    };
    format!("{pinning}, {}", host.memory)
}

fn pinning(placement: &Placement) -> String {
    let locality = match placement.locality {
        Locality::Cache => "below one cache",
        Locality::Node => "of one NUMA node",
        Locality::Host => "of several NUMA nodes",
    };
    let shared = if placement.shares_cores {
        ", some on one core"
    } else {
        ""
    };
    format!(
        "virtual CPUs on host CPUs {}, {locality}{shared}",
        placement.cpus
    )
}

fn choice(choice: &Choice, guests: &Guests) -> String {
    match choice {
        Choice::NoKvm { obstacle } => format!("{obstacle}; emulating"),
        Choice::KvmFails => "KVM cannot run a stock kernel here: emulating".into(),
        Choice::CountsInstructions => "counting instructions needs emulation".into(),
        Choice::ClientsInGuest { obstacle } => format!("clients in the guest: {obstacle}"),
        Choice::OneCpu { asked } => format!(
            "{} CPU instead of {asked}, as counting instructions needs",
            cpus(guests)
        ),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn guests() -> Guests {
        Guests {
            emulator: "QEMU 10.0.13".into(),
            acceleration: Acceleration::Tcg,
            clock: GuestClock::Instructions,
            cpus: [1].into(),
            cpu_model: "max,-erms".into(),
            memory_bytes: 1 << 30,
            profiled: false,
            host: None,
            clients: None,
            choices: vec![
                Choice::NoKvm {
                    obstacle: "no /dev/kvm".into(),
                },
                Choice::OneCpu { asked: 2 },
            ],
        }
    }

    #[test]
    fn guests_are_described_with_automatic_choices() {
        let host = |placement| HostOfGuests {
            placement,
            memory: "transparent huge pages".into(),
        };
        let placement = Placement {
            cpus: "2-3".into(),
            locality: Locality::Node,
            shares_cores: true,
        };
        let clients = Choice::ClientsInGuest {
            obstacle: "no /dev/net/tun".into(),
        };
        let all = [
            guests(),
            Guests {
                acceleration: Acceleration::Kvm,
                clock: GuestClock::Wall,
                cpus: [1, 2, 4].into(),
                profiled: true,
                host: Some(host(Ok(placement))),
                choices: vec![clients],
                ..guests()
            },
            Guests {
                host: Some(host(Err("3 virtual CPUs on 2 host CPUs".into()))),
                clients: Some(ClientsApart::Host { vhost: true }),
                choices: Vec::new(),
                ..guests()
            },
        ];
        let lines = all.map(|guests| machine(&MachineDescription::Qemu(guests)));
        expect![[r#"
            QEMU 10.0.13, emulation (TCG), clock instructions, CPUs 1 (max,-erms), memory 1.00 GiB (no /dev/kvm; emulating; 1 CPU instead of 2, as counting instructions needs)
            QEMU 10.0.13, KVM, clock wall, CPUs 1, 2, 4 by arm (max,-erms), memory 1.00 GiB, profiled, virtual CPUs on host CPUs 2-3, of one NUMA node, some on one core, transparent huge pages (clients in the guest: no /dev/net/tun)
            QEMU 10.0.13, emulation (TCG), clock instructions, CPUs 1 (max,-erms), memory 1.00 GiB, virtual CPUs not pinned: 3 virtual CPUs on 2 host CPUs, transparent huge pages, clients on this host (vhost)"#]]
        .assert_eq(&lines.join("\n"));
    }

    #[test]
    fn other_machines_are_described() {
        let release = || "6.18.44".to_string();
        let card = |address: &str| BoxCard {
            interface: "eno2".into(),
            driver: "ixgbe".into(),
            address: address.into(),
        };
        let all = [
            MachineDescription::Local {
                release: release(),
                cpus: 2,
            },
            MachineDescription::Ssh {
                host: "root@box".into(),
                cpu: "EPYC".into(),
                cpus: 8,
                memory_bytes: 64 << 30,
                interface: "eno1".into(),
                driver: "igb".into(),
                boot: "kexec".into(),
                cards: Vec::new(),
                clients: None,
            },
            MachineDescription::Ssh {
                host: "root@box".into(),
                cpu: "EPYC".into(),
                cpus: 8,
                memory_bytes: 64 << 30,
                interface: "eno1".into(),
                driver: "igb".into(),
                boot: "kexec".into(),
                cards: ["10.1.0.1", "10.2.0.1"].map(card).to_vec(),
                clients: Some(BoxClients::Hosts {
                    names: vec!["one".into(), "two".into()],
                }),
            },
            MachineDescription::Url {
                exchanged: true,
                client_hosts: Vec::new(),
                release: release(),
                cpus: 2,
            },
            MachineDescription::Url {
                exchanged: false,
                client_hosts: vec!["one".into(), "two".into()],
                release: release(),
                cpus: 2,
            },
            MachineDescription::Fake,
        ];
        expect![[r#"
            this host, Linux 6.18.44, clock wall, CPUs 2
            box root@box, EPYC, CPUs 8, memory 64.0 GiB, eno1 by igb, arms by kexec, clock wall
            box root@box, EPYC, CPUs 8, memory 64.0 GiB, eno1 by igb, arms by kexec, clock wall, servers at eno2 10.1.0.1 by ixgbe and eno2 10.2.0.1 by ixgbe, clients by ssh on one, two
            systems on the network, exchanged from block to block; clients on this host, Linux 6.18.44, clock wall, CPUs 2
            systems on the network; clients by ssh on one, two, clock wall
            fake machine, simulated time"#]]
        .assert_eq(&all.each_ref().map(machine).join("\n"));
    }
}
