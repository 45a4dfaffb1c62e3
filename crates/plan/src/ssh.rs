//! Keys of `[machine]` for a box: a computer reached by ssh that boots arms on its hardware.

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
    /// Its ssh destination: `root@box`.
    pub host: String,
    /// Configuration of ssh (`ssh -F`); `None` for the user's.
    pub config: Option<PathBuf>,
    /// Address of the arm's agent; `None` for the address that ssh used.
    pub address: Option<String>,
    /// Port of the arm's agent.
    pub port: u16,
    /// Interface of arms; `None` for the one that ssh used.
    pub interface: Option<String>,
    /// Interfaces for remote clients, by their names in the box's host operating system; if empty, the interface of arms.
    pub interfaces: Vec<String>,
    /// How an arm's kernel is booted.
    pub boot: BootWay,
    /// The box's power switch.
    pub power: Power,
    /// Time within which the box must return to its host operating system, before its power is cycled and again after that.
    pub home_timeout: Duration,
}

/// How a box boots an arm's kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum BootWay {
    /// From the running kernel, without firmware.
    Kexec,
    /// By firmware and GRUB, with a one-time boot entry.
    Grub,
    /// By firmware and systemd-boot, with a one-time boot entry.
    SystemdBoot,
}

impl BootWay {
    /// Its name in a plan.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// Commands of this host for a box's power; empty ones do not exist.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Power {
    /// Turns it off and on in any state.
    pub cycle: Vec<String>,
    /// Turns it on; if empty, `cycle` is used.
    pub on: Vec<String>,
    /// Prints whether it is on.
    pub status: Vec<String>,
}

/// Keys of boxes only.
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

/// Reads the keys of a box; relative paths are resolved against `base`.
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

/// Whether a text is safe as an argument: not an option, and a single word in a shell.
pub(crate) fn is_word(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "@._:%/+[]-".contains(c);
    !text.is_empty() && !text.starts_with('-') && text.chars().all(is_plain)
}

/// Most network cards of a box.
const CARDS: usize = 64;

const CARDS_EXAMPLE: &str = "write interfaces = [\"eno1\", \"eno2\"]";

/// Reads the interfaces for remote clients.
fn read_interfaces(fields: &Fields<'_>) -> Vec<String> {
    let Some(texts) = fields.texts("interfaces") else {
        return Vec::new();
    };
    let mut names: Vec<String> = Vec::new();
    for name in &texts {
        if !is_word(name) {
            let what = format!("no name of an interface: {name:?}");
            fields.wrong("interfaces", what, CARDS_EXAMPLE);
        } else if names.iter().any(|known| known == name) {
            let what = format!("an interface twice: {name:?}");
            let remedy = "write each once: connections go to them in turn";
            fields.wrong("interfaces", what, remedy);
        } else {
            names.push((*name).into());
        }
    }
    if texts.is_empty() {
        fields.wrong("interfaces", "no interface", CARDS_EXAMPLE);
    }
    if texts.len() > CARDS {
        let what = format!("interfaces: {}", texts.len());
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

/// Reads `power`: commands, or a preset that provides them.
fn read_power(fields: &Fields<'_>, base: &Path, checks: Checks<'_>) -> Power {
    let Some(table) = fields.table("power") else {
        return Power::default();
    };
    let example = "[\"./power.sh\", \"cycle\"]";
    let commands = Power {
        cycle: read_command(&table, "cycle", example, checks),
        on: read_command(&table, "on", "[\"./power.sh\", \"on\"]", checks),
        status: read_command(&table, "status", "[\"./power.sh\", \"status\"]", checks),
    };
    if commands.cycle.is_empty() && commands != Power::default() {
        table.missing("cycle", example);
    }
    let preset: Option<Preset> = table.variant("preset");
    let bmc = read_bmc(&table, base);
    let power = match (preset, bmc) {
        (Some(_), _) if commands != Power::default() => {
            let what = "power.preset beside commands";
            table.wrong("preset", what, "remove it, or remove cycle, on and status");
            commands
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
            commands
        }
        (None, Some(_)) => {
            table.missing("preset", "\"ipmitool\"");
            commands
        }
        (None, None) => commands,
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
    /// File of the password, in the format of the preset's program.
    password_file: String,
    /// Name of the system in a Redfish service.
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
                // A reset works in any state; some controllers refuse a cycle.
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
                    // Management controllers have self-signed certificates.
                    let mut line = vec!["curl", "--silent", "--show-error", "--fail", "--insecure"];
                    line.extend(["--netrc-file", &bmc.password_file]);
                    line.extend(more);
                    line.into_iter().map(String::from).collect::<Vec<_>>()
                };
                let reset = format!("{system}/Actions/ComputerSystem.Reset");
                let send = |kind: &str| {
                    let header = "Content-Type: application/json";
                    let body = format!(r#"{{"ResetType":"{kind}"}}"#);
                    curl(&["--header", header, "--data", &body, &reset])
                };
                Power {
                    cycle: send("ForceRestart"),
                    on: send("On"),
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
