//! Keys of `[machine]` for a box that is reached by ssh and boots arms on its own hardware.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base::input::units;
use strum::{IntoStaticStr, VariantArray};

use crate::Checks;
use crate::fields::Fields;
use crate::machine::set;
use crate::target::read_command;

/// A box with sshd and kexec-tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshPlan {
    /// A destination of the program `ssh`: `root@box`.
    pub host: String,
    /// A configuration of that program (`ssh -F`), in place of the user's.
    pub config: Option<PathBuf>,
    /// Where the arm's agent is dialled; `None` for the address that ssh reached.
    pub address: Option<String>,
    /// The port that the arm's agent listens on.
    pub port: u16,
    /// The interface that arms use; `None` for the one that ssh reached.
    pub interface: Option<String>,
    /// The interfaces that serve clients elsewhere, by their names in the box's own operating system; with none, the one that arms use.
    pub interfaces: Vec<String>,
    /// How an arm's kernel is started.
    pub boot: BootWay,
    /// The box's power switch.
    pub power: Power,
    /// Time that the box has to be in its own operating system again, before its power is cycled and once more after it.
    pub home_timeout: Duration,
}

/// How a box starts an arm's kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum BootWay {
    /// From the running kernel, without firmware.
    Kexec,
    /// By firmware and GRUB, which takes the arm's entry once.
    Grub,
    /// By firmware and systemd-boot, which takes the arm's entry once.
    SystemdBoot,
}

impl BootWay {
    /// What a plan writes.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// Commands of this host for a box's power; each is empty where there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Power {
    /// Turns it off and on, whatever it does.
    pub cycle: Vec<String>,
    /// Turns it on; where there is none, `cycle` does.
    pub on: Vec<String>,
    /// Says whether it is on.
    pub status: Vec<String>,
}

/// Keys that no other kind of machine has.
pub(crate) const KEYS: [&str; 9] = [
    "host",
    "ssh_config",
    "address",
    "port",
    "interface",
    "interfaces",
    "boot",
    "power",
    "home_timeout",
];

/// Reads the keys of a box; paths begin at `base`.
pub(crate) fn read_ssh(fields: &Fields<'_>, base: &Path, checks: Checks<'_>) -> Option<SshPlan> {
    if !fields.has("host") {
        fields.missing("host", "\"root@box\"");
    }
    let host = word(fields, "host", "\"root@box\"");
    let mut home_timeout = Duration::from_secs(600);
    set(
        &mut home_timeout,
        fields.read("home_timeout", units::duration),
    );
    if home_timeout.is_zero() {
        let what = "home_timeout of zero";
        fields.wrong("home_timeout", what, "write home_timeout = \"10m\"");
    }
    let plan = SshPlan {
        host: String::new(),
        config: fields.text("ssh_config").map(|path| base.join(path)),
        address: word(fields, "address", "\"192.0.2.7\""),
        port: fields.count("port", 1..=65535).unwrap_or(7001) as u16,
        interface: word(fields, "interface", "\"eno1\""),
        interfaces: read_interfaces(fields),
        boot: fields.variant("boot").unwrap_or(BootWay::Kexec),
        power: read_power(fields, base, checks),
        home_timeout,
    };
    Some(SshPlan {
        host: host?,
        ..plan
    })
}

/// Whether no program takes a text for an option, and no shell for more than a word.
pub(crate) fn is_word(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "@._:%/+[]-".contains(c);
    !text.is_empty() && !text.starts_with('-') && text.chars().all(is_plain)
}

/// Most cards of a box: more than it has slots for.
const CARDS: usize = 64;

const CARDS_EXAMPLE: &str = "write interfaces = [\"eno1\", \"eno2\"]";

/// The cards that serve.
fn read_interfaces(fields: &Fields<'_>) -> Vec<String> {
    let Some(listed) = fields.texts("interfaces") else {
        return Vec::new();
    };
    let mut names: Vec<String> = Vec::new();
    for name in &listed {
        if !is_word(name) {
            let what = format!("no name of an interface: {name:?}");
            fields.wrong("interfaces", what, CARDS_EXAMPLE);
        } else if names.iter().any(|own| own == name) {
            let what = format!("an interface twice: {name:?}");
            let remedy = "write each once: connections go to them in turn";
            fields.wrong("interfaces", what, remedy);
        } else {
            names.push((*name).into());
        }
    }
    if listed.is_empty() {
        fields.wrong("interfaces", "no interface", CARDS_EXAMPLE);
    }
    if listed.len() > CARDS {
        let what = format!("interfaces: {}", listed.len());
        fields.wrong("interfaces", what, format!("write at most {CARDS}"));
    }
    names
}

fn word(fields: &Fields<'_>, key: &str, example: &str) -> Option<String> {
    let text = fields.text(key)?;
    if !is_word(text) {
        let what = format!("{key} that is no name: {text:?}");
        fields.wrong(key, what, format!("write {key} = {example}"));
        return None;
    }
    Some(text.into())
}

/// `power.cycle` and `power.status` as commands, or a preset that stands for both.
fn read_power(fields: &Fields<'_>, base: &Path, checks: Checks<'_>) -> Power {
    let Some(table) = fields.table("power") else {
        return Power::default();
    };
    let example = "[\"./power.sh\", \"cycle\"]";
    let typed = Power {
        cycle: read_command(&table, "cycle", example, checks),
        on: read_command(&table, "on", "[\"./power.sh\", \"on\"]", checks),
        status: read_command(&table, "status", "[\"./power.sh\", \"status\"]", checks),
    };
    if typed.cycle.is_empty() && typed != Power::default() {
        table.missing("cycle", example);
    }
    let preset: Option<Preset> = table.variant("preset");
    let bmc = read_bmc(&table, base);
    let power = match (preset, bmc) {
        (Some(_), _) if typed != Power::default() => {
            let what = "power.preset beside commands";
            table.wrong("preset", what, "remove it, or remove cycle, on and status");
            typed
        }
        (Some(preset), Some(bmc)) => {
            let power = preset.commands(&bmc);
            if let Err(why) = (checks.program)(&power.cycle[0]) {
                table.wrong("preset", why, "");
            }
            power
        }
        (Some(_), None) => {
            table.missing("address", "\"192.0.2.8\", user and password_file");
            typed
        }
        (None, Some(_)) => {
            table.missing("preset", "\"ipmitool\"");
            typed
        }
        (None, None) => typed,
    };
    table.finish();
    power
}

#[derive(Clone, Copy, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
enum Preset {
    Ipmitool,
    Redfish,
}

/// A box's management controller.
struct Bmc {
    address: String,
    port: Option<u64>,
    user: String,
    /// The password, in the form that the preset's program reads.
    password_file: String,
    /// Name of the system among those of a Redfish service.
    system: String,
}

fn read_bmc(table: &Fields<'_>, base: &Path) -> Option<Bmc> {
    let address = word(table, "address", "\"192.0.2.8\"");
    let user = word(table, "user", "\"admin\"");
    let port = table.count("port", 1..=65535);
    let system = word(table, "system", "\"1\"");
    let password_file = table.text("password_file");
    Some(Bmc {
        address: address?,
        port,
        user: user?,
        password_file: base.join(password_file?).display().to_string(),
        system: system.unwrap_or("1".into()),
    })
}

impl Preset {
    fn commands(self, bmc: &Bmc) -> Power {
        match self {
            Self::Ipmitool => {
                let command = |word: &str| {
                    let port = bmc.port.unwrap_or(623).to_string();
                    let line = [
                        "ipmitool",
                        "-I",
                        "lanplus",
                        "-H",
                        &bmc.address,
                        "-p",
                        &port,
                        "-U",
                        &bmc.user,
                        "-f",
                        &bmc.password_file,
                        "chassis",
                        "power",
                        word,
                    ];
                    line.map(String::from).to_vec()
                };
                // A reset works whatever the box does, and a cycle is refused by some controllers.
                Power {
                    cycle: command("reset"),
                    on: command("on"),
                    status: command("status"),
                }
            }
            Self::Redfish => {
                let port = bmc.port.unwrap_or(443);
                let system = format!(
                    "https://{}:{port}/redfish/v1/Systems/{}",
                    bmc.address, bmc.system
                );
                let curl = |more: &[&str]| {
                    // Certificates of management controllers are their own.
                    let mut line = vec!["curl", "--silent", "--show-error", "--fail", "--insecure"];
                    line.extend(["--netrc-file", &bmc.password_file]);
                    line.extend(more);
                    line.into_iter().map(String::from).collect::<Vec<_>>()
                };
                let reset = format!("{system}/Actions/ComputerSystem.Reset");
                let ask = |kind: &str| {
                    let header = "Content-Type: application/json";
                    let body = format!(r#"{{"ResetType":"{kind}"}}"#);
                    curl(&["--header", header, "--data", &body, &reset])
                };
                Power {
                    cycle: ask("ForceRestart"),
                    on: ask("On"),
                    status: curl(&[&system]),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_commands_of_known_programs() {
        let bmc = Bmc {
            address: "192.0.2.8".into(),
            port: None,
            user: "admin".into(),
            password_file: "/plans/bmc".into(),
            system: "1".into(),
        };
        let line = |words: Vec<String>| words.join(" ");
        assert_eq!(
            line(Preset::Ipmitool.commands(&bmc).cycle),
            "ipmitool -I lanplus -H 192.0.2.8 -p 623 -U admin -f /plans/bmc chassis power reset"
        );
        assert_eq!(
            line(Preset::Redfish.commands(&bmc).status),
            "curl --silent --show-error --fail --insecure --netrc-file /plans/bmc \
             https://192.0.2.8:443/redfish/v1/Systems/1"
        );
        let cycle = line(Preset::Redfish.commands(&bmc).cycle);
        assert!(
            cycle.ends_with("Systems/1/Actions/ComputerSystem.Reset"),
            "{cycle}"
        );
    }
}
