//! Examines what a box can do, before anything is loaded on it.

use std::path::Path;

use base::input::units::show_bytes;
use plan::BootWay;

use super::facts::{self, BoxFacts};
use super::session::Session;
use crate::doctor::{HostProperty, State};
use crate::task::Task;

/// Space for a packed kernel, initramfs and image, and for a copy while they are loaded.
const WANTED_CACHE_BYTES: u64 = 512 << 20;

/// Memory for the smallest image, unpacked.
const WANTED_MEMORY_BYTES: u64 = 1 << 30;

/// Examines a box without changing anything on it; `config` is a file for `ssh -F`.
pub fn examine(host: &str, config: Option<&Path>, task: Task<'_>) -> Vec<HostProperty> {
    let output = Session::new(host, config).run(facts::SCRIPT, task);
    match output.and_then(|output| BoxFacts::parse(&output)) {
        Ok(facts) => findings(&facts),
        Err(why) => vec![finding(
            "ssh",
            format!("{why:#}"),
            State::Missing(String::new()),
        )],
    }
}

fn finding(what: &str, found: String, state: State) -> HostProperty {
    HostProperty {
        what: what.into(),
        found,
        state,
        detail: None,
    }
}

fn findings(facts: &BoxFacts) -> Vec<HostProperty> {
    let (kernel, architecture) = (facts.get("kernel"), facts.get("architecture"));
    let system = format!("Linux {kernel}, {architecture}");
    let cpus = format!("{}, {}", facts.cpus(), facts.get("cpu"));
    let lacks = facts::lacks(facts, true);
    let ways = boot_ways(facts, lacks.is_empty());
    let mut findings = vec![
        finding("own system", system, State::Good),
        finding("CPUs", cpus, State::Good),
        memory(facts),
        interface(facts),
        watchdog(facts),
    ];
    let missing = |lack| finding("lack", lack, State::Missing(String::new()));
    findings.extend(lacks.into_iter().map(missing));
    findings.extend([
        boot(&ways),
        finding("shutdown", shutdown(facts).into(), State::Good),
        finding("pstore", pstore(facts), State::Good),
        room(facts),
    ]);
    findings
}

fn boot(ways: &[BootWay]) -> HostProperty {
    if ways.is_empty() {
        let remedy = "no way to boot arms there: mend what it lacks";
        return finding("boot", "none".into(), State::Missing(remedy.into()));
    }
    let ways: Vec<&str> = ways.iter().map(|way| way.word()).collect();
    finding("boot", ways.join(", "), State::Good)
}

fn memory(facts: &BoxFacts) -> HostProperty {
    let bytes = facts.memory_bytes();
    let state = if bytes < WANTED_MEMORY_BYTES {
        State::Missing("an arm's image is unpacked in memory: 1 GiB at least".into())
    } else {
        State::Good
    };
    finding("memory", show_bytes(bytes), state)
}

fn interface(facts: &BoxFacts) -> HostProperty {
    match facts::choose_link(facts, None) {
        Ok(link) => {
            let driver = link.drivers.first().map_or("", |driver| &driver.name);
            let found = format!(
                "{}, driver {driver}, {}/{}, {}",
                link.interface, link.address, link.prefix, link.mac
            );
            finding("interface", found, State::Good)
        }
        Err(why) => {
            let remedy = "name one in the plan: interface = \"...\"";
            finding(
                "interface",
                format!("{why:#}"),
                State::Missing(remedy.into()),
            )
        }
    }
}

fn shutdown(facts: &BoxFacts) -> &'static str {
    if facts.has_systemd() {
        "clean, by systemd"
    } else {
        "no service manager: file systems are synced and made read-only"
    }
}

fn pstore(facts: &BoxFacts) -> String {
    match facts.get("pstore").lines().next() {
        None | Some("(null)" | "mounted") => "none: a panic shows on netconsole alone".into(),
        Some(backend) => backend.into(),
    }
}

fn room(facts: &BoxFacts) -> HostProperty {
    let free = facts.cache_free_bytes();
    let state = if free < WANTED_CACHE_BYTES {
        State::Weak("arms are kept there: 512 MiB at least".into())
    } else {
        State::Good
    };
    let found = format!("{} free", show_bytes(free));
    finding("/var/cache", found, state)
}

fn watchdog(facts: &BoxFacts) -> HostProperty {
    if facts.watchdog().is_empty() {
        let remedy = "load its driver there, such as iTCO_wdt or ipmi_watchdog; without one a hang needs power.cycle in the plan";
        return finding("watchdog", "none".into(), State::Weak(remedy.into()));
    }
    let identity = facts.get("watchdog-identity").to_string();
    if facts.watchdog_outlives_kexec() {
        return finding("watchdog", identity, State::Good);
    }
    let remedy = "it stops while one kernel starts the other: boot the box with watchdog.stop_on_reboot=0 if a hang there is to \
                  be ended too";
    finding("watchdog", identity, State::Weak(remedy.into()))
}

fn boot_ways(facts: &BoxFacts, has_kexec: bool) -> Vec<BootWay> {
    let mut ways = Vec::new();
    ways.extend(has_kexec.then_some(BootWay::Kexec));
    ways.extend(facts.has_tool("grub-reboot").then_some(BootWay::Grub));
    let has_loader = facts.has_tool("bootctl") && facts.get("efi") == "yes";
    ways.extend(has_loader.then_some(BootWay::SystemdBoot));
    ways
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn what_a_box_can_do_is_shown_line_by_line() {
        let output = "=== user\n0\n=== architecture\nx86_64\n=== kernel\n6.1.0-50-amd64\n=== cpus\n8\n=== cpu\nXeon\n=== memory\n\
                    8000000 kB\n7000000 kB\n=== tools\nip\ndf\nsha256sum\ngrub-reboot\n=== cache\n/dev/sda1 100 50 50 50% /\n=== \
                    watchdog\n module:iTCO_wdt\n=== watchdog-identity\niTCO_wdt\n=== pstore\nefi\nmounted\n=== end\n";
        let facts = BoxFacts::parse(output).unwrap();
        let lines: Vec<String> = findings(&facts)
            .iter()
            .map(|finding| format!("{}: {} {:?}", finding.what, finding.found, finding.state))
            .collect();
        expect![[r#"
            own system: Linux 6.1.0-50-amd64, x86_64 Good
            CPUs: 8, Xeon Good
            memory: 7.63 GiB Good
            interface: the box does not say its addresses (install iproute2 there) Missing("name one in the plan: interface = \"...\"")
            watchdog: iTCO_wdt Weak("it stops while one kernel starts the other: boot the box with watchdog.stop_on_reboot=0 if a hang there is to be ended too")
            lack: no kexec there (install kexec-tools) Missing("")
            boot: grub Good
            shutdown: no service manager: file systems are synced and made read-only Good
            pstore: efi Good
            /var/cache: 50.0 KiB free Weak("arms are kept there: 512 MiB at least")"#]].assert_eq(&lines.join("\n"));
        let facts = BoxFacts::parse(&output.replace("\ngrub-reboot", "")).unwrap();
        let findings = findings(&facts);
        let boot = findings.iter().find(|finding| finding.what == "boot");
        let boot = boot.unwrap();
        assert_eq!(boot.found, "none");
        assert!(matches!(boot.state, State::Missing(_)));
    }
}
