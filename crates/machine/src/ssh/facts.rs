//! What a box says of itself, before anything is loaded on it. Nothing on it is changed.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// Prints sections: a line `=== NAME`, then what was found.
pub(crate) const SCRIPT: &str = r#"
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
section() { echo "=== $1"; }
# Drivers of a device and of all that it hangs on, nearest first; module:NAME or built-in:NAME.
drivers() {
    path=$(readlink -f "$1") || return
    while [ -n "$path" ] && [ "$path" != /sys/devices ] && [ "$path" != /sys ]; do
        if [ -e "$path/driver/module" ]; then
            name=$(readlink -f "$path/driver/module"); printf ' module:%s' "${name##*/}"
        elif [ -e "$path/driver" ]; then
            name=$(readlink -f "$path/driver"); printf ' built-in:%s' "${name##*/}"
        fi
        path=${path%/*}
    done
}
section ssh; echo "$SSH_CONNECTION"
section user; id -u
section boot-id; cat /proc/sys/kernel/random/boot_id
section kernel; uname -r
section architecture; uname -m
section cmdline; cat /proc/cmdline
section cpus; grep -c ^processor /proc/cpuinfo
section cpu; sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1
section microcode; sed -n 's/^microcode[^:]*: //p' /proc/cpuinfo | head -n 1
section memory; sed -n 's/^MemTotal: *//p; s/^MemAvailable: *//p' /proc/meminfo
section addresses; ip -d -j address 2> /dev/null
section routes; ip -j route 2> /dev/null
section neighbours; ip -j neigh 2> /dev/null
section drivers
for device in /sys/class/net/*; do
    if [ -e "$device/device" ]; then printf '%s' "${device##*/}"; drivers "$device/device"; echo; fi
done
section watchdog
if [ -e /sys/class/watchdog/watchdog0/device ]; then
    drivers /sys/class/watchdog/watchdog0/device; echo
elif [ -e /sys/class/watchdog/watchdog0 ]; then
    # Some drivers do not say which device is theirs. One in software dies with its kernel.
    for user in /sys/module/watchdog/holders/*; do
        case ${user##*/} in '*' | softdog) ;; *) printf ' module:%s' "${user##*/}" ;; esac
    done
    echo
fi
section watchdog-identity; cat /sys/class/watchdog/watchdog0/identity 2> /dev/null
section watchdog-through-kexec; cat /sys/module/watchdog/parameters/stop_on_reboot 2> /dev/null
section kexec; command -v kexec
section kexec-disabled; cat /proc/sys/kernel/kexec_load_disabled 2> /dev/null
section lockdown; cat /sys/kernel/security/lockdown 2> /dev/null
section secure-boot; od -An -t u1 -j 4 -N 1 /sys/firmware/efi/efivars/SecureBoot-* 2> /dev/null
section efi; [ -d /sys/firmware/efi ] && echo yes
section pstore; cat /sys/module/pstore/parameters/backend 2> /dev/null; grep -q ' /sys/fs/pstore pstore' /proc/mounts && echo mounted
section cache; df -Pk /var/cache | tail -n 1
section systemd; [ -d /run/systemd/system ] && echo yes
section tools; for tool in sha256sum ip df grub-reboot grub-editenv bootctl wdctl; do command -v $tool > /dev/null && echo $tool; done
section end
"#;

/// A box's answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BoxFacts {
    sections: BTreeMap<String, String>,
}

impl BoxFacts {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut sections: BTreeMap<String, String> = BTreeMap::new();
        for part in format!("\n{text}").split("\n=== ").skip(1) {
            let (name, body) = part.split_once('\n').unwrap_or((part, ""));
            sections.insert(name.trim().into(), body.trim().into());
        }
        if !sections.contains_key("end") {
            bail!("what the box says of itself has no end (is its login shell /bin/sh or bash?)");
        }
        Ok(Self { sections })
    }

    /// A section; empty where the box has nothing there.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.sections.get(name).map_or("", String::as_str)
    }

    /// The port of its sshd, as ssh has reached it: something answers there.
    pub(crate) fn ssh_port(&self) -> u16 {
        self.number("ssh", 1) as u16
    }

    fn number(&self, name: &str, place: usize) -> u64 {
        let words = self.get(name).split_whitespace();
        let mut numbers = words.filter_map(|word| word.parse().ok());
        numbers.nth(place).unwrap_or(0)
    }

    pub(crate) fn cpus(&self) -> u64 {
        self.number("cpus", 0)
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.number("memory", 0) << 10
    }

    pub(crate) fn available_bytes(&self) -> u64 {
        self.number("memory", 1) << 10
    }

    /// Room on the disk of the cache directory.
    pub(crate) fn cache_free_bytes(&self) -> u64 {
        // File system, size, used, available.
        let words: Vec<_> = self.get("cache").split_whitespace().collect();
        let free = words.get(3).and_then(|word| word.parse::<u64>().ok());
        free.unwrap_or(0) << 10
    }

    pub(crate) fn has_tool(&self, name: &str) -> bool {
        self.get("tools").lines().any(|tool| tool == name)
    }

    pub(crate) fn has_systemd(&self) -> bool {
        self.get("systemd") == "yes"
    }

    /// Modules that the watchdog needs; none where there is no watchdog, or one that dies with its kernel.
    pub(crate) fn watchdog(&self) -> Vec<Driver> {
        drivers(self.get("watchdog"))
    }

    /// Whether a watchdog that is armed before kexec goes on counting while the arm's kernel starts.
    pub(crate) fn watchdog_outlives_kexec(&self) -> bool {
        self.get("watchdog-through-kexec") == "0"
    }

    pub(crate) fn is_secure_boot(&self) -> bool {
        self.get("secure-boot") == "1"
    }

    /// `integrity` or `confidentiality`, where the kernel is locked down.
    pub(crate) fn lockdown(&self) -> Option<&str> {
        let (_, rest) = self.get("lockdown").split_once('[')?;
        let (mode, _) = rest.split_once(']')?;
        (mode != "none").then_some(mode)
    }

    /// Consoles of the box's own kernel, for the arm's kernel to use too.
    pub(crate) fn consoles(&self) -> Vec<&str> {
        let words = self.get("cmdline").split_whitespace();
        words.filter(|word| word.starts_with("console=")).collect()
    }
}

/// A driver of a box's device, by the name of its module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Driver {
    pub(crate) name: String,
    /// Not built into the box's own kernel.
    pub(crate) is_module: bool,
}

fn drivers(words: &str) -> Vec<Driver> {
    let words = words.split_whitespace();
    let driver = |word: &str| {
        let (kind, name) = word.split_once(':')?;
        Some(Driver {
            name: name.replace('-', "_"),
            is_module: kind == "module",
        })
    };
    words.filter_map(driver).collect()
}

/// The way from an arm's kernel to this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    /// Its name in the box's own operating system.
    pub(crate) interface: String,
    /// By which every kernel finds it, whatever it calls it.
    pub(crate) mac: String,
    pub(crate) address: Ipv4Addr,
    pub(crate) prefix: u8,
    pub(crate) gateway: Option<Ipv4Addr>,
    /// This host, as the box sees it.
    pub(crate) controller: Option<Ipv4Addr>,
    /// Who takes packets for it on the wire.
    pub(crate) next_mac: Option<String>,
    /// The interface's own driver first, then those of what it hangs on.
    pub(crate) drivers: Vec<Driver>,
}

/// A network card that serves clients on other hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Card {
    /// Its name in the box's own operating system.
    pub(crate) interface: String,
    /// By which every kernel finds it.
    pub(crate) mac: String,
    pub(crate) address: Ipv4Addr,
    pub(crate) prefix: u8,
    /// Its own driver first, then those of what it hangs on.
    pub(crate) drivers: Vec<Driver>,
}

impl Card {
    /// The name of its own driver.
    pub(crate) fn driver(&self) -> &str {
        self.drivers.first().map_or("", |driver| &driver.name)
    }

    /// The card by which the box is reached.
    pub(crate) fn of_link(link: &Link) -> Self {
        Self {
            interface: link.interface.clone(),
            mac: link.mac.clone(),
            address: link.address,
            prefix: link.prefix,
            drivers: link.drivers.clone(),
        }
    }
}

#[derive(Deserialize)]
struct Interface {
    ifname: String,
    /// `UP`, `LOWER_UP`, ...
    #[serde(default)]
    flags: Vec<String>,
    /// The bond or bridge that it is part of.
    master: Option<String>,
    #[serde(default)]
    address: String,
    permaddr: Option<String>,
    linkinfo: Option<LinkInfo>,
    #[serde(default)]
    addr_info: Vec<Address>,
}

#[derive(Deserialize)]
struct LinkInfo {
    info_kind: Option<String>,
}

#[derive(Deserialize)]
struct Address {
    family: String,
    local: Option<String>,
    prefixlen: Option<u8>,
}

#[derive(Deserialize)]
struct Route {
    dst: String,
    gateway: Option<String>,
    dev: Option<String>,
}

#[derive(Deserialize)]
struct Neighbour {
    dst: String,
    lladdr: Option<String>,
}

impl Interface {
    /// `bond`, `bridge`, `vlan`: what is no interface of hardware's own.
    fn made_of_others(&self) -> Option<&str> {
        self.linkinfo.as_ref()?.info_kind.as_deref()
    }

    fn mac(&self) -> &str {
        self.permaddr.as_ref().unwrap_or(&self.address)
    }

    fn is(&self, flag: &str) -> bool {
        self.flags.iter().any(|known| known == flag)
    }

    fn addresses(&self) -> impl Iterator<Item = (Ipv4Addr, u8)> {
        let ipv4 = self.addr_info.iter().filter(|info| info.family == "inet");
        ipv4.filter_map(|info| Some((info.local.as_deref()?.parse().ok()?, info.prefixlen?)))
    }
}

/// Chooses the interface that an arm's kernel is to use: the plan's, else the one that ssh reached.
pub(crate) fn choose_link(facts: &BoxFacts, wanted: Option<&str>) -> Result<Link> {
    let interfaces: Vec<Interface> = json(facts, "addresses")?;
    let mut words = facts.get("ssh").split_whitespace();
    let controller: Option<Ipv4Addr> = words.next().and_then(|word| word.parse().ok());
    let reached: Option<Ipv4Addr> = words.nth(1).and_then(|word| word.parse().ok());
    let has_reached = |interface: &&Interface| {
        let mut addresses = interface.addresses();
        addresses.any(|(address, _)| Some(address) == reached)
    };
    let entry = interfaces.iter().find(has_reached);
    let Some(chosen) = (match wanted {
        Some(name) => interfaces.iter().find(|interface| interface.ifname == name),
        None => entry,
    }) else {
        return Err(no_interface(&interfaces, wanted, facts));
    };
    if let Some(kind) = chosen.made_of_others() {
        bail!(
            "interface {} is a {kind}: an arm's kernel does not build it (write interface = \"...\" with one that it is made \
             of, and address = \"...\")",
            chosen.ifname
        );
    }
    let drivers = drivers_of(facts, &chosen.ifname);
    if drivers.is_empty() {
        bail!(
            "interface {} is no hardware's (write interface = \"...\" with one that is)",
            chosen.ifname
        );
    }
    // A port of a bond has no address; its kernel gets the bond's.
    let first = chosen.addresses().next();
    let Some((address, prefix)) = first.or_else(|| entry?.addresses().next()) else {
        bail!(
            "interface {} has no IPv4 address (give it one)",
            chosen.ifname
        );
    };
    let routes: Vec<Route> = json(facts, "routes")?;
    let carrier = entry.map_or(&chosen.ifname, |entry| &entry.ifname);
    let is_default = |route: &&Route| {
        route.dst == "default"
            && route
                .dev
                .as_ref()
                .is_some_and(|dev| [&chosen.ifname, carrier].contains(&dev))
    };
    let gateway = routes.iter().find(is_default);
    let gateway = gateway.and_then(|route| route.gateway.as_deref()?.parse().ok());
    let neighbours: Vec<Neighbour> = json(facts, "neighbours").unwrap_or_default();
    let mac_of = |address: Option<Ipv4Addr>| {
        let address = address?.to_string();
        let neighbour = neighbours.iter().find(|neighbour| neighbour.dst == address);
        neighbour?.lladdr.clone()
    };
    let next = controller.filter(|controller| is_near(*controller, address, prefix));
    Ok(Link {
        interface: chosen.ifname.clone(),
        mac: chosen.mac().into(),
        address,
        prefix,
        gateway,
        controller,
        next_mac: mac_of(next.or(gateway)),
        drivers,
    })
}

/// Drivers of an interface; none where it is no hardware's.
fn drivers_of(facts: &BoxFacts, interface: &str) -> Vec<Driver> {
    let mut lines = facts.get("drivers").lines();
    let value = lines.find_map(|line| {
        let (name, words) = line.split_once(' ')?;
        (name == interface).then(|| drivers(words))
    });
    value.unwrap_or_default()
}

/// The cards of these names, which are to serve: all that is wrong with any of them is one error.
pub(crate) fn choose_cards(facts: &BoxFacts, names: &[String]) -> Result<Vec<Card>> {
    let interfaces: Vec<Interface> = json(facts, "addresses")?;
    let (mut cards, mut wrong) = (Vec::new(), Vec::new());
    for name in names {
        match choose_card(facts, &interfaces, name) {
            Ok(card) => cards.push(card),
            Err(why) => wrong.push(why.to_string()),
        }
    }
    if !wrong.is_empty() {
        bail!("interfaces: {}", wrong.join("; "));
    }
    Ok(cards)
}

fn choose_card(facts: &BoxFacts, interfaces: &[Interface], name: &str) -> Result<Card> {
    let Some(chosen) = interfaces.iter().find(|interface| interface.ifname == name) else {
        return Err(no_interface(interfaces, Some(name), facts));
    };
    if let Some(kind) = chosen.made_of_others() {
        bail!(
            "interface {name} is a {kind}: an arm's kernel does not build it (give each card that it is made of an address of its \
             own, and name those)"
        );
    }
    if let Some(master) = &chosen.master {
        bail!(
            "interface {name} is part of {master} (take it out of it and give it an address, or name another)"
        );
    }
    let drivers = drivers_of(facts, name);
    if drivers.is_empty() {
        bail!("interface {name} is no hardware's (name one that is)");
    }
    if !chosen.is("UP") {
        bail!("interface {name} is down (there: ip link set {name} up)");
    }
    if !chosen.is("LOWER_UP") {
        bail!("interface {name} has no link (is its cable in?)");
    }
    let Some((address, prefix)) = chosen.addresses().next() else {
        bail!("interface {name} has no IPv4 address (give it one)");
    };
    Ok(Card {
        interface: name.into(),
        mac: chosen.mac().into(),
        address,
        prefix,
        drivers,
    })
}

/// Whether an address is of the same network.
fn is_near(a: Ipv4Addr, b: Ipv4Addr, prefix: u8) -> bool {
    let shift = 32 - u32::from(prefix.min(32));
    let network = |address: Ipv4Addr| u32::from(address).checked_shr(shift).unwrap_or(0);
    network(a) == network(b)
}

fn no_interface(interfaces: &[Interface], wanted: Option<&str>, facts: &BoxFacts) -> anyhow::Error {
    let names: Vec<_> = interfaces
        .iter()
        .map(|interface| interface.ifname.as_str())
        .collect();
    let names = names.join(", ");
    match wanted {
        Some(name) => anyhow::anyhow!("no such interface: {name} (there are: {names})"),
        None => anyhow::anyhow!(
            "no interface has the IPv4 address that ssh reached: {} (write interface = \"...\", one of {names})",
            facts.get("ssh")
        ),
    }
}

fn json<T: for<'d> Deserialize<'d>>(facts: &BoxFacts, section: &str) -> Result<Vec<T>> {
    let text = facts.get(section);
    if text.is_empty() {
        bail!("the box does not say its {section} (install iproute2 there)");
    }
    // Some versions print empty objects for what does not apply.
    let values: Vec<serde_json::Value> =
        serde_json::from_str(text).with_context(|| format!("the box's {section}"))?;
    let whole = values.into_iter();
    let whole = whole.filter(|value| value.as_object().is_some_and(|fields| !fields.is_empty()));
    whole
        .map(|value| Ok(serde_json::from_value(value)?))
        .collect::<Result<_>>()
        .with_context(|| format!("the box's {section}"))
}

/// Why a box cannot be used as it is, each with its remedy; `needs_kexec` where arms start by it.
pub(crate) fn lacks(facts: &BoxFacts, needs_kexec: bool) -> Vec<String> {
    let mut lacks = Vec::new();
    let mut lack = |is_so: bool, words: String| lacks.extend(is_so.then_some(words));
    let user = facts.get("user");
    lack(
        user != "0",
        format!("not root there: user {user} (host = \"root@...\")"),
    );
    let architecture = facts.get("architecture");
    lack(
        architecture != "x86_64",
        format!("architecture {architecture} (this bakeoff boots x86_64)"),
    );
    for tool in ["ip", "sha256sum", "df"] {
        let package = if tool == "ip" {
            "iproute2"
        } else {
            "coreutils"
        };
        lack(
            !facts.has_tool(tool),
            format!("no program {tool} there (install {package})"),
        );
    }
    if needs_kexec {
        lack(
            facts.get("kexec").is_empty(),
            "no kexec there (install kexec-tools)".into(),
        );
        lack(
            facts.get("kexec-disabled") == "1",
            "kexec is disabled: kernel.kexec_load_disabled = 1 (boot the box without setting it, or boot = \"grub\")".into(),
        );
        if let Some(mode) = facts.lockdown() {
            let why = if facts.is_secure_boot() {
                "Secure Boot is on and its kernel locked down"
            } else {
                "its kernel is locked down"
            };
            lack(
                true,
                format!(
                    "{why} ({mode}): it starts signed kernels only, and their modules must be signed (turn Secure Boot off in the firmware)"
                ),
            );
        }
    }
    lacks
}

#[cfg(test)]
mod tests;
