use expect_test::{Expect, expect};

use super::*;

/// As a box with a bond of two ports and a third interface says it, shortened.
const BONDED: &str = r#"=== ssh
192.0.2.1 51000 192.0.2.7 22
=== user
0
=== architecture
x86_64
=== cpus
8
=== memory
2014520 kB
1820000 kB
=== addresses
[{"ifname":"lo","address":"00:00:00:00:00:00","addr_info":[{"family":"inet","local":"127.0.0.1","prefixlen":8}]},{},
 {"ifname":"eno1","address":"02:00:00:00:00:0b","permaddr":"02:00:00:00:00:01","addr_info":[]},
 {"ifname":"bond0","address":"02:00:00:00:00:0b","linkinfo":{"info_kind":"bond"},
  "addr_info":[{"family":"inet6","local":"fe80::1","prefixlen":64},{"family":"inet","local":"192.0.2.7","prefixlen":24}]},
 {"ifname":"eth2","address":"02:00:00:00:00:02","addr_info":[{"family":"inet","local":"198.51.100.7","prefixlen":25}]}]
=== routes
[{"dst":"default","gateway":"192.0.2.254","dev":"bond0","flags":[]},{"dst":"192.0.2.0/24","dev":"bond0","flags":[]}]
=== neighbours
[{"dst":"192.0.2.1","dev":"bond0","lladdr":"02:00:00:00:00:aa"},{"dst":"192.0.2.254","lladdr":"02:00:00:00:00:bb"}]
=== drivers
eno1 module:igb built-in:pcieport
eth2 module:virtio_net module:virtio-pci
=== watchdog
 module:iTCO_wdt
=== kexec
/usr/sbin/kexec
=== lockdown
[none] integrity confidentiality
=== cache
/dev/sda1 1000 400 600 40% /
=== tools
sha256sum
ip
df
=== end
"#;

fn check(edits: &[(&str, &str)], wanted: Option<&str>, want: &Expect) {
    let mut text = BONDED.to_string();
    for (from, to) in edits {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    let facts = BoxFacts::parse(&text).unwrap();
    let got = match choose_link(&facts, wanted) {
        Ok(link) => {
            let names: Vec<_> = link
                .drivers
                .iter()
                .map(|driver| driver.name.as_str())
                .collect();
            format!(
                "{} {} {}/{} via {:?}, controller {:?} by {:?}, {}",
                link.interface,
                link.mac,
                link.address,
                link.prefix,
                link.gateway,
                link.controller,
                link.next_mac,
                names.join(" ")
            )
        }
        Err(why) => format!("{why:#}"),
    };
    want.assert_eq(&got);
}

#[test]
fn what_is_made_of_other_interfaces_is_refused() {
    check(
        &[],
        None,
        &expect![[
            r#"interface bond0 is a bond: an arm's kernel does not build it (write interface = "..." with one that it is made of, and address = "...")"#
        ]],
    );
}

#[test]
fn a_port_of_a_bond_gets_the_bonds_address_and_has_its_own_mac() {
    check(
        &[],
        Some("eno1"),
        &expect![[
            r#"eno1 02:00:00:00:00:01 192.0.2.7/24 via Some(192.0.2.254), controller Some(192.0.2.1) by Some("02:00:00:00:00:aa"), igb pcieport"#
        ]],
    );
}

#[test]
fn a_controller_of_another_network_is_reached_by_the_gateway() {
    check(
        &[
            (r#","linkinfo":{"info_kind":"bond"}"#, ""),
            ("192.0.2.1 51000", "203.0.113.5 51000"),
            ("eno1 module:igb", "bond0 module:igb"),
        ],
        None,
        &expect![[
            r#"bond0 02:00:00:00:00:0b 192.0.2.7/24 via Some(192.0.2.254), controller Some(203.0.113.5) by Some("02:00:00:00:00:bb"), igb pcieport"#
        ]],
    );
}

#[test]
fn interfaces_that_cannot_be_used_are_told_with_those_that_are_there() {
    check(
        &[],
        Some("eno9"),
        &expect!["no such interface: eno9 (there are: lo, eno1, bond0, eth2)"],
    );
    check(
        &[],
        Some("lo"),
        &expect![[r#"interface lo is no hardware's (write interface = "..." with one that is)"#]],
    );
    check(
        &[("192.0.2.7 22", "192.0.2.99 22")],
        None,
        &expect![[
            r#"no interface has the IPv4 address that ssh reached: 192.0.2.1 51000 192.0.2.99 22 (write interface = "...", one of lo, eno1, bond0, eth2)"#
        ]],
    );
    check(
        &[("=== addresses", "=== other")],
        None,
        &expect!["the box does not say its addresses (install iproute2 there)"],
    );
}

#[test]
fn figures_are_read_in_bytes() {
    let facts = BoxFacts::parse(BONDED).unwrap();
    assert_eq!(facts.memory_bytes(), 2_014_520 << 10);
    assert_eq!(facts.available_bytes(), 1_820_000 << 10);
    assert_eq!(facts.cache_free_bytes(), 600 << 10);
    assert_eq!(facts.cpus(), 8);
    assert_eq!(facts.watchdog()[0].name, "iTCO_wdt");
    assert!(BoxFacts::parse("=== ssh\n").is_err());
}

#[test]
fn what_a_box_lacks_is_told_all_at_once() {
    let lacking = |edits: &[(&str, &str)]| {
        let text = edits.iter().fold(BONDED.to_string(), |text, (from, to)| {
            text.replace(from, to)
        });
        lacks(&BoxFacts::parse(&text).unwrap(), true).join("\n")
    };
    assert_eq!(lacking(&[]), "");
    expect![[r#"
        not root there: user 1000 (host = "root@...")
        no kexec there (install kexec-tools)
        Secure Boot is on and its kernel locked down (integrity): it starts signed kernels only, and their modules must be signed (turn Secure Boot off in the firmware)"#]]
    .assert_eq(&lacking(&[
        ("=== user\n0", "=== user\n1000"),
        ("/usr/sbin/kexec", ""),
        ("[none] integrity", "none [integrity]"),
        ("=== end", "=== secure-boot\n   1\n=== end"),
    ]));
}

/// The cards of these names in `BONDED` with its edits, or what is wrong with them.
fn cards(edits: &[(&str, &str)], names: &[&str]) -> String {
    let text = edits.iter().fold(BONDED.to_string(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    });
    let facts = BoxFacts::parse(&text).unwrap();
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    match choose_cards(&facts, &names) {
        Ok(cards) => {
            let words = cards.iter().map(|card| {
                format!(
                    "{} {} {}/{}",
                    card.interface, card.mac, card.address, card.prefix
                )
            });
            words.collect::<Vec<_>>().join(", ")
        }
        Err(why) => why.to_string(),
    }
}

#[test]
fn cards_that_serve_are_hardware_with_a_link_and_an_address() {
    const UP: (&str, &str) = (
        "\"ifname\":\"eth2\"",
        "\"ifname\":\"eth2\",\"flags\":[\"UP\",\"LOWER_UP\"]",
    );
    const PORT: (&str, &str) = (
        "\"ifname\":\"eno1\"",
        "\"ifname\":\"eno1\",\"master\":\"bond0\"",
    );
    expect!["eth2 02:00:00:00:00:02 198.51.100.7/25"].assert_eq(&cards(&[UP], &["eth2"]));
    // All that is wrong is one message.
    expect!["interfaces: no such interface: eth9 (there are: lo, eno1, bond0, eth2); interface bond0 is a bond: an arm's kernel does not build it (give each card that it is made of an address of its own, and name those); interface eno1 is part of bond0 (take it out of it and give it an address, or name another); interface lo is no hardware's (name one that is); interface eth2 is down (there: ip link set eth2 up)"].assert_eq(&cards(&[PORT], &["eth9", "bond0", "eno1", "lo", "eth2"]));
    let unplugged = (UP.0, "\"ifname\":\"eth2\",\"flags\":[\"UP\"]");
    expect!["interfaces: interface eth2 has no link (is its cable in?)"]
        .assert_eq(&cards(&[unplugged], &["eth2"]));
    let bare = ("\"inet\",\"local\":\"198", "\"inet6\",\"local\":\"198");
    expect!["interfaces: interface eth2 has no IPv4 address (give it one)"]
        .assert_eq(&cards(&[UP, bare], &["eth2"]));
}
