//! Clients of a guest's servers that run on this host, outside the guest.
//!
//! ```text
//! namespace of the clients (without root: a user namespace around it)      guest
//!   clients' agent ---- tap 10.77.0.2 ==== QEMU, virtio-net (vhost) ==== 10.77.0.1 servers' agent
//!        |   \------------- record::protocol::clients over virtio-serial ---------------/    |
//!        \----------------------------- this process --------------------------------/
//! ```
//! The clients' agent makes the namespace and the tap, and passes the tap to QEMU. Both processes end with this one, and
//! namespace and tap with them.
//!
//! Clients in a second guest (`guest`) have the same two channels, and a socket pair between two QEMUs instead of the tap.

pub mod guest;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use plan::Tuning;
use profiler::counter::Counted;
use record::defect::FoundDefect;
use record::machine::ClientsApart;
use record::protocol::{FromAgent, Job, Part, Profiling, ToAgent};
use record::trial::VoidReason;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::guest::{Guest, GuestEvent};
use crate::host_state::{Lack, fact};
use crate::process_guest::{ERROR_BYTES, Limits, ProcessGuest};
use crate::program;

/// Most queues of a guest's network card, which has one for each virtual CPU.
const QUEUES: u32 = 8;

/// Longest wait for the clients' agent to make its namespace.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Longest wait for the servers' agent to report a failure that the clients have reported.
const GRACE: Duration = Duration::from_secs(5);

/// Hardware address of the servers' card, by which their agent finds it.
const ADDRESS: &str = "52:54:00:77:00:01";

/// The device by which the kernel, instead of QEMU, moves packets of KVM's guests.
const VHOST: &str = "/dev/vhost-net";

/// Clients on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostClients {
    /// The path of this program; called as `bakeoff clients` it is the clients' agent.
    program: PathBuf,
    vhost: Result<(), String>,
}

impl HostClients {
    /// Checks whether this host can run clients of its guests.
    ///
    /// # Errors
    /// What the host lacks, with the remedy.
    pub fn open(program: &Path) -> Result<Self, String> {
        let mut attempt = Command::new(program);
        let output = attempt.args(["clients", "--try"]).output();
        let output =
            output.map_err(|why| format!("{} does not start: {why}", program.display()))?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            return Err(program::last_lines(why.trim(), output.status));
        }
        Ok(Self {
            program: program.into(),
            vhost: Err("not under emulation".into()),
        })
    }

    /// Has the kernel move packets of guests under KVM, if this process may open the device.
    #[must_use]
    pub fn under_kvm(self) -> Self {
        let opened = OpenOptions::new().read(true).write(true).open(VHOST);
        let vhost = opened.map(drop).map_err(|why| format!("{VHOST}: {why}"));
        Self { vhost, ..self }
    }

    /// Their description in records.
    pub(crate) fn describe(&self) -> ClientsApart {
        ClientsApart::Host {
            vhost: self.vhost.is_ok(),
        }
    }

    /// Why the kernel cannot move packets of guests under KVM.
    pub fn lack(&self) -> Option<Lack> {
        let found = self.vhost.as_ref().err()?.clone();
        Some(Lack {
            what: "vhost for clients on this host",
            found,
            remedy: "modprobe vhost_net, and give yourself the right to open it",
        })
    }

    /// Starts the clients of a trial and gives the guest a network card that leads to them.
    pub(crate) fn attach(
        &self,
        qemu: &mut Command,
        vcpus: u32,
        allowance_bytes: u64,
    ) -> Result<ClientsOfTrial> {
        let (line, servers) = UnixStream::pair().context("cannot make a socket pair")?;
        let queues = vcpus.clamp(1, QUEUES);
        let mut program = Command::new(&self.program);
        program.args(["clients", "--queues", &queues.to_string()]);
        let limits = Limits {
            allowance_bytes,
            file_bytes: Some(ERROR_BYTES),
        };
        let console = "/dev/null".into();
        let agent = ProcessGuest::start_with(
            "the clients",
            program,
            console,
            limits,
            Some(servers.into()),
        )?;
        let mut clients = ClientsOfTrial {
            agent,
            failed: None,
            vhost: Some("off".into()),
        };
        let taps = match receive(&line, queues) {
            Ok(taps) => taps,
            Err(why) => bail!("{}", clients.last_lines(&why)),
        };
        let vhosts = match &self.vhost {
            Ok(()) => open_vhosts(taps.len())?,
            Err(why) => {
                clients.vhost = Some(format!("off: {why}"));
                Vec::new()
            }
        };
        if !vhosts.is_empty() {
            clients.vhost = Some("on".into());
        }
        qemu.args(arguments(
            line.as_raw_fd(),
            &numbers(&taps),
            &numbers(&vhosts),
        ));
        base::process::inherit(qemu, line.into());
        for file in taps.into_iter().chain(vhosts) {
            base::process::inherit(qemu, file);
        }
        Ok(clients)
    }
}

fn numbers(files: &[OwnedFd]) -> Vec<i32> {
    files.iter().map(AsRawFd::as_raw_fd).collect()
}

fn open_vhosts(count: usize) -> Result<Vec<OwnedFd>> {
    let open = |_| {
        let file = OpenOptions::new().read(true).write(true).open(VHOST);
        file.map(OwnedFd::from)
            .with_context(|| format!("cannot open {VHOST}"))
    };
    (0..count).map(open).collect()
}

/// Waits for the tap's queues.
fn receive(line: &UnixStream, queues: u32) -> Result<Vec<OwnedFd>, String> {
    line.set_read_timeout(Some(START_LIMIT))
        .map_err(|why| why.to_string())?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(QUEUES as usize))];
    let mut rights = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut parts = [IoSliceMut::new(&mut byte)];
    let received = recvmsg(line, &mut parts, &mut rights, RecvFlags::CMSG_CLOEXEC);
    received.map_err(|why| format!("no network card from the clients: {why}"))?;
    let mut taps = Vec::new();
    for message in rights.drain() {
        if let RecvAncillaryMessage::ScmRights(files) = message {
            taps.extend(files);
        }
    }
    if taps.len() != queues as usize {
        return Err(format!("queues of a network card: {}", taps.len()));
    }
    Ok(taps)
}

/// QEMU's arguments for the card, and for the channel between the two agents.
fn arguments(line: i32, taps: &[i32], vhosts: &[i32]) -> Vec<String> {
    let list = |files: &[i32]| {
        let words: Vec<_> = files.iter().map(i32::to_string).collect();
        words.join(":")
    };
    let (plural, multi_queue) = match taps.len() {
        0 | 1 => ("", String::new()),
        count => ("s", format!(",mq=on,vectors={}", 2 * count + 2)),
    };
    let mut netdev = format!("tap,id=card,fd{plural}={}", list(taps));
    if !vhosts.is_empty() {
        let _ = write!(netdev, ",vhost=on,vhostfd{plural}={}", list(vhosts));
    }
    // Without its ROM, which is only for booting from the network.
    attached(
        line,
        netdev,
        &format!("mac={ADDRESS},romfile={multi_queue}"),
    )
}

/// The same for any network device and card.
fn attached(line: i32, netdev: String, card: &str) -> Vec<String> {
    let port = format!(
        "virtserialport,chardev=clients,name={}",
        record::protocol::clients::PORT
    );
    [
        ("-netdev", netdev),
        ("-device", format!("virtio-net-pci,netdev=card,{card}")),
        ("-chardev", format!("socket,id=clients,fd={line}")),
        ("-device", port),
    ]
    .into_iter()
    .flat_map(|(name, value)| [name.to_string(), value])
    .collect()
}

/// The clients of one trial.
pub(crate) struct ClientsOfTrial {
    agent: ProcessGuest,
    /// When a failure was noticed, and what it was.
    failed: Option<(Instant, String)>,
    /// Whether the kernel moves packets; `None` without a network card of QEMU.
    vhost: Option<String>,
}

impl ClientsOfTrial {
    /// Clients without a network card of QEMU.
    pub(crate) fn without_card(agent: ProcessGuest) -> Self {
        Self {
            agent,
            failed: None,
            vhost: None,
        }
    }

    /// Their failure, if they have failed.
    fn failure(&mut self) -> Option<&(Instant, String)> {
        while self.failed.is_none() {
            let detail = match self.agent.next(Duration::ZERO) {
                GuestEvent::Quiet => break,
                GuestEvent::Said(message) => match *message {
                    FromAgent::Failed { detail, .. } => detail,
                    _ => continue,
                },
                GuestEvent::Panicked(line) => format!("the clients' kernel: {line}"),
                GuestEvent::Exited(how) | GuestEvent::Refused(how) => how,
            };
            self.failed = Some((Instant::now(), detail));
        }
        self.failed.as_ref()
    }

    /// Why they did not start: their last messages, if there are any.
    fn last_lines(&mut self, otherwise: &str) -> String {
        let until = Instant::now() + GRACE;
        while Instant::now() < until {
            match self.agent.next(GRACE) {
                GuestEvent::Exited(how) => return how,
                GuestEvent::Quiet => break,
                _ => {}
            }
        }
        otherwise.into()
    }
}

/// A guest with its clients.
pub(crate) struct GuestWithClients<G> {
    pub(crate) guest: G,
    pub(crate) clients: ClientsOfTrial,
    /// Addresses of its servers; empty if both agents know the address.
    pub(crate) servers: Vec<Ipv4Addr>,
}

impl<G> GuestWithClients<G> {
    /// A guest with a network card of QEMU, whose address both agents know.
    pub(crate) fn behind_card(guest: G, clients: ClientsOfTrial) -> Self {
        Self {
            guest,
            clients,
            servers: Vec::new(),
        }
    }

    /// Adds a failure of the clients to a failure that the guest reports.
    fn explained(&mut self, event: GuestEvent) -> GuestEvent {
        match event {
            GuestEvent::Said(message) => match *message {
                FromAgent::Failed { reason, mut detail } => {
                    if let Some((_, why)) = self.clients.failure()
                        && !detail.contains(why.as_str())
                    {
                        detail = format!("{detail}\n{why}");
                    }
                    GuestEvent::Said(Box::new(FromAgent::Failed { reason, detail }))
                }
                other => GuestEvent::Said(Box::new(other)),
            },
            other => other,
        }
    }
}

/// One agent's part of a job. Changes of an arm apply only to the servers.
fn part_of(job: &Job, part: Part, servers: &[Ipv4Addr]) -> Job {
    let part_job = Job {
        part,
        servers: servers.to_vec(),
        ..job.clone()
    };
    match part {
        Part::Whole | Part::Servers => part_job,
        Part::Clients => Job {
            cmdline: String::new(),
            sysctl: BTreeMap::new(),
            tuning: Tuning::default(),
            profiling: Profiling::None,
            ..part_job
        },
    }
}

impl<G: Guest> Guest for GuestWithClients<G> {
    fn send(&mut self, message: &ToAgent) -> Result<()> {
        let part = |part: Part| match message {
            ToAgent::Run(job) => ToAgent::Run(Box::new(part_of(job, part, &self.servers))),
            other => other.clone(),
        };
        // If that fails, the clients have ended, which `failure` notices.
        let _ = self.clients.agent.send(&part(Part::Clients));
        self.guest.send(&part(Part::Servers))
    }

    fn next(&mut self, limit: Duration) -> GuestEvent {
        match self.guest.next(limit) {
            GuestEvent::Quiet => {}
            event => return self.explained(event),
        }
        // Waits a moment for the guest's report, which is better: clients may have failed because of its servers.
        match self.clients.failure() {
            Some((since, why)) if since.elapsed() >= GRACE => {
                let (reason, detail) = (VoidReason::AgentFailed, why.clone());
                GuestEvent::Said(Box::new(FromAgent::Failed { reason, detail }))
            }
            Some(_) | None => GuestEvent::Quiet,
        }
    }

    fn console(&self, lines: usize) -> Vec<String> {
        self.guest.console(lines)
    }

    fn defects(&mut self) -> Vec<FoundDefect> {
        self.guest.defects()
    }

    fn starved(&self) -> Duration {
        self.guest.starved()
    }

    fn profiled(&mut self) -> Result<Vec<u8>> {
        self.guest.profiled()
    }

    fn counted(&mut self) -> Result<Option<Counted>> {
        self.guest.counted()
    }

    fn host_facts(&self) -> BTreeMap<String, String> {
        let mut facts = self.guest.host_facts();
        if let Some(vhost) = &self.clients.vhost {
            facts.insert(fact("vhost"), vhost.clone());
        }
        facts
    }

    fn stderr_line(&mut self) -> Option<String> {
        self.guest.stderr_line()
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_card_has_a_queue_for_each_virtual_cpu() {
        let text = |taps: &[i32], vhosts: &[i32]| arguments(9, taps, vhosts)[..4].join(" ");
        expect!["-netdev tap,id=card,fd=4 -device virtio-net-pci,netdev=card,mac=52:54:00:77:00:01,romfile="]
            .assert_eq(&text(&[4], &[]));
        expect!["-netdev tap,id=card,fds=4:5,vhost=on,vhostfds=6:7 -device virtio-net-pci,netdev=card,mac=52:54:00:77:00:01,romfile=,mq=on,vectors=6"]
            .assert_eq(&text(&[4, 5], &[6, 7]));
    }

    #[test]
    fn the_reason_against_clients_is_the_programs_error() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("bakeoff");
        let script = "#!/bin/sh\necho 'no /dev/net/tun (modprobe tun)' >&2\nexit 1\n";
        std::fs::write(&program, script).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
        let why = HostClients::open(&program).unwrap_err();
        assert_eq!(why, "no /dev/net/tun (modprobe tun)");
    }
}
