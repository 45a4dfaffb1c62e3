//! `clients = ["ssh:HOST", ...]` of `[machine]`: hosts that share the clients.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::fields::Fields;
use crate::machine::MachineKind;
use crate::ssh;

/// Most hosts of a plan: the experiments of 1999 had 144.
pub const MOST_CLIENT_HOSTS: usize = 256;

/// A host of clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientHost {
    /// Its ssh destination: `user@client1`.
    pub name: String,
    /// Configuration of ssh (`ssh -F`); `None` for the user's.
    pub config: Option<PathBuf>,
    /// Line of the plan that names it.
    pub line: usize,
}

const EXAMPLE: &str = "clients = [\"ssh:client1\", \"ssh:client2\"]";

/// Reads the hosts; empty if `clients` is not a list. The path of a configuration of ssh is resolved against `base`.
pub(crate) fn read_client_hosts(
    fields: &Fields<'_>,
    kind: MachineKind,
    base: &Path,
) -> Vec<ClientHost> {
    if !fields.is_list("clients") {
        return Vec::new();
    }
    let texts = fields.texts("clients").unwrap_or_default();
    let config = fields.text("ssh_config").map(|path| base.join(path));
    if texts.is_empty() {
        let remedy = match unreachable_remedy(kind) {
            Some(_) => "remove it: the machine chooses where clients are".to_string(),
            None => format!("write {EXAMPLE}, or remove it: clients are then on this host"),
        };
        fields.wrong("clients", "clients on no host: []", remedy);
        return Vec::new();
    }
    if let Some(remedy) = unreachable_remedy(kind) {
        let what = format!(
            "clients on hosts with a machine of kind \"{}\"",
            kind.word()
        );
        fields.wrong("clients", what, remedy);
        return Vec::new();
    }
    let mut names = BTreeSet::new();
    let mut hosts = Vec::new();
    for text in &texts {
        let name = text.strip_prefix("ssh:").filter(|name| ssh::is_word(name));
        let Some(name) = name else {
            let what = format!("no host for clients: {text:?}");
            fields.wrong("clients", what, format!("write {EXAMPLE}"));
            continue;
        };
        if !names.insert(name) {
            let what = format!("a host for clients twice: {text:?}");
            fields.wrong(
                "clients",
                what,
                "remove it: a host has all its CPUs at once",
            );
        }
        hosts.push(ClientHost {
            name: name.into(),
            config: config.clone(),
            line: fields.line_of("clients"),
        });
    }
    if texts.len() > MOST_CLIENT_HOSTS {
        let what = format!("hosts for clients: {}", texts.len());
        fields.wrong(
            "clients",
            what,
            format!("write at most {MOST_CLIENT_HOSTS}"),
        );
    }
    hosts
}

/// The remedy for machines whose servers other hosts cannot reach; `None` if they can.
fn unreachable_remedy(kind: MachineKind) -> Option<&'static str> {
    match kind {
        MachineKind::Url | MachineKind::Ssh => None,
        MachineKind::Qemu => Some(
            "write clients = \"host\": a guest's network ends in a namespace of this host, which no other host reaches",
        ),
        MachineKind::Local => Some(
            "remove it: servers are in a namespace of this host, which no other host reaches; or start them yourself and write \
             kind = \"url\"",
        ),
    }
}
