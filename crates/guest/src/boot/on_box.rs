//! How an arm on a box reaches the host: by the box's network card, where a guest has a virtio-serial port.
//!
//! ```text
//! kernel's log for errors -> watchdog fed -> driver, address, route -> netconsole -> listen -> secret proved -> channel
//! ```
//! The host describes the box on the kernel's command line, and puts the secret of this boot into a file. No wait
//! is endless: if no host connects, the agent restarts the box.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use base::secret::lobby::{Heard, Lobby, Peer};
use base::secret::{Secret, handshake};
use rustix::net::sockopt;

use super::modules::Modules;
use crate::boot::netlink;
use crate::channel::Channel;
use crate::proc::text_of;

/// Longest wait for a network card, and for its link: switches take seconds to forward packets.
const CARD_LIMIT: Duration = Duration::from_secs(60);

/// Longest wait for the host to connect and prove the secret, which it tries every few seconds. Then the box
/// restarts into its installed operating system.
const CONNECT_LIMIT: Duration = Duration::from_secs(90);

const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The file into which the host puts the secret.
const SECRET: &str = "/secret";

/// The source port of the kernel's messages.
const CONSOLE_SOURCE: u16 = 6665;

/// The host's description of the box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parameters {
    mac: String,
    address: Ipv4Addr,
    prefix: u8,
    gateway: Option<Ipv4Addr>,
    port: u16,
    /// For the network card and the devices above it, in reverse order of loading.
    modules: Vec<String>,
    watchdog: Vec<String>,
    /// Cards for the load, in addition to the one that leads to the host.
    cards: Vec<Card>,
    /// `PORT@ADDRESS/MAC` of the receiver of the kernel's messages.
    netconsole: Option<String>,
}

/// A network card for the load, with its address under the box's installed operating system.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Card {
    mac: String,
    address: Ipv4Addr,
    prefix: u8,
}

impl Card {
    /// Parses `MAC@ADDRESS/PREFIX`.
    fn parse(text: &str) -> Result<Self> {
        let parts = text.split_once('@').and_then(|(mac, rest)| {
            let (address, prefix) = rest.split_once('/')?;
            Some((mac, address.parse().ok()?, prefix.parse().ok()?))
        });
        let (mac, address, prefix) =
            parts.with_context(|| format!("bakeoff.cards: {text:?} is no MAC@ADDRESS/PREFIX"))?;
        Ok(Self {
            mac: mac.into(),
            address,
            prefix,
        })
    }
}

/// Whether this kernel was started on a box.
pub(crate) fn is_here() -> bool {
    text_of("/proc/cmdline").contains(" bakeoff.mac=")
}

impl Parameters {
    pub(crate) fn of_this_kernel() -> Result<Self> {
        Self::parse(&text_of("/proc/cmdline"))
    }

    fn parse(cmdline: &str) -> Result<Self> {
        let find = |key: &str| {
            let words = cmdline.split_whitespace();
            let mut values =
                words.filter_map(|word| word.strip_prefix("bakeoff.")?.split_once('='));
            values
                .find(|(name, _)| *name == key)
                .map(|(_, value)| value)
        };
        let get = |key: &str| {
            find(key).with_context(|| format!("no bakeoff.{key} on the kernel's command line"))
        };
        let list = |key: &str| -> Vec<String> {
            let names = find(key).unwrap_or_default().split(',');
            let names = names.filter(|name| !name.is_empty());
            names.map(String::from).collect()
        };
        let (address, prefix) = get("address")?
            .split_once('/')
            .context("bakeoff.address without a prefix")?;
        Ok(Self {
            mac: get("mac")?.into(),
            address: address.parse().context("bakeoff.address")?,
            prefix: prefix.parse().context("bakeoff.address")?,
            gateway: find("gateway")
                .map(str::parse)
                .transpose()
                .context("bakeoff.gateway")?,
            port: get("port")?.parse().context("bakeoff.port")?,
            modules: list("modules"),
            watchdog: list("watchdog"),
            cards: list("cards")
                .iter()
                .map(|card| Card::parse(card))
                .collect::<Result<_>>()?,
            netconsole: find("netconsole").map(String::from),
        })
    }
}

/// Comes up on the box's network and waits for the host.
pub(crate) fn reach_host(modules: &Modules) -> Result<(Channel, BoxNetwork)> {
    log_to_kernel();
    let parameters = Parameters::of_this_kernel()?;
    modules.load_all(&["loop"])?;
    load(modules, &parameters.watchdog)?;
    feed_watchdog();
    load(modules, &parameters.modules)?;
    let interface = wait_for_card(&parameters.mac)?;
    let (address, prefix) = (parameters.address, parameters.prefix);
    bring_up(&interface, address, prefix, parameters.gateway)?;
    start_netconsole(modules, &interface, &parameters);
    let secret = fs::read_to_string(SECRET).context("no secret in the initramfs")?;
    let secret = secret.trim_end().to_string();
    let channel = wait_for_connection(parameters.port, &Secret::of(&secret))?;
    Ok((channel, BoxNetwork { parameters, secret }))
}

/// The network of a box while its job runs.
#[derive(Clone, PartialEq, Eq)]
pub struct BoxNetwork {
    parameters: Parameters,
    /// Of this boot, for the connection from the clients' agent.
    secret: String,
}

impl std::fmt::Debug for BoxNetwork {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "BoxNetwork {{ {:?}, .. }}", self.parameters)
    }
}

impl BoxNetwork {
    /// Brings up the cards for the load.
    pub(crate) fn bring_up_cards(&self) -> Result<()> {
        for card in &self.parameters.cards {
            let path = wait_for_card(&card.mac)?;
            bring_up(&path, card.address, card.prefix, None)
                .with_context(|| format!("card {} of {}", path.display(), card.address))?;
        }
        Ok(())
    }

    /// Waits for the clients' agent, which connects like the host and knows the same secret.
    pub(crate) fn wait_for_clients(&self) -> Result<Channel> {
        let secret = Secret::of(&self.secret);
        wait_for_connection(self.parameters.port, &secret).context("the clients' agent")
    }

    /// Gives cards the default queueing discipline, which was set after they came up.
    pub(crate) fn renew_queues(&self) -> Result<()> {
        let cards = self.parameters.cards.iter();
        let macs = cards.map(|card| &card.mac).chain([&self.parameters.mac]);
        for mac in macs {
            let path = wait_for_card(mac)?;
            let name = path.file_name().unwrap_or_default();
            // Only a named discipline can be deleted; the default then takes its place.
            for [verb, kind] in [["replace", "pfifo"], ["del", ""]] {
                let mut tc = workload::context::command("tc");
                tc.args(["qdisc", verb, "dev"]).arg(name).arg("root");
                tc.args((!kind.is_empty()).then_some(kind));
                let done = tc.output().context("run tc (is iproute2 in the image?)")?;
                if !done.status.success() {
                    let why = String::from_utf8_lossy(&done.stderr);
                    bail!("tc qdisc {verb} dev {}: {}", name.display(), why.trim());
                }
            }
        }
        Ok(())
    }
}

/// Redirects standard error to the kernel's log, so that netconsole has it.
fn log_to_kernel() {
    if let Ok(log) = File::options().write(true).open("/dev/kmsg") {
        let _ = rustix::stdio::dup2_stderr(log.as_fd());
    }
}

/// Logs a message in one write, so that the kernel keeps it as one.
fn log(message: &str) {
    let line = format!("bakeoff agent: {message}\n");
    let _ = io::stderr().write_all(line.as_bytes());
}

/// Loads modules, the last one first.
fn load(modules: &Modules, names: &[String]) -> Result<()> {
    let names: Vec<&str> = names.iter().rev().map(String::as_str).collect();
    modules.load_all(&names).map(drop)
}

/// Feeds the watchdog for as long as this process lives. Without one, only a power command can restart the box.
fn feed_watchdog() {
    let until = Instant::now() + Duration::from_secs(2);
    let mut watchdog = loop {
        match File::options().write(true).open("/dev/watchdog") {
            Ok(watchdog) => break watchdog,
            Err(_) if Instant::now() < until => thread::sleep(POLL_INTERVAL),
            Err(why) => return log(&format!("no watchdog: {why}")),
        }
    };
    let timeout = text_of("/sys/class/watchdog/watchdog0/timeout");
    let timeout_s: u64 = timeout.trim().parse().unwrap_or(10);
    log(&format!(
        "the watchdog is fed, its timeout is {timeout_s} s"
    ));
    let pause = Duration::from_millis(timeout_s.max(1) * 1000 / 4);
    thread::spawn(move || {
        // Closed without the letter V, the watchdog continues to count.
        while watchdog.write_all(b".").is_ok() {
            thread::sleep(pause);
        }
    });
}

/// Waits for the card with a hardware address; its name may differ between kernels. Returns its path in sysfs.
fn wait_for_card(mac: &str) -> Result<PathBuf> {
    let until = Instant::now() + CARD_LIMIT;
    loop {
        let cards = fs::read_dir("/sys/class/net")
            .into_iter()
            .flatten()
            .flatten();
        let cards: Vec<PathBuf> = cards.map(|card| card.path()).collect();
        let has_mac = |card: &&PathBuf| text_of(card.join("address")).trim() == mac;
        if let Some(card) = cards.iter().find(has_mac) {
            return Ok(card.clone());
        }
        if Instant::now() >= until {
            bail!("no network card {mac} among {}: {cards:?}", cards.len());
        }
        thread::sleep(POLL_INTERVAL);
    }
}

fn bring_up(card: &Path, address: Ipv4Addr, prefix: u8, gateway: Option<Ipv4Addr>) -> Result<()> {
    let number = |path: &Path| -> Result<u32> {
        let text = text_of(path.join("ifindex"));
        text.trim().parse().context("a network card without number")
    };
    let socket = netlink::open()?;
    netlink::set_up(&socket, number(Path::new("/sys/class/net/lo"))?).context("lo")?;
    let index = number(card)?;
    netlink::set_up(&socket, index).context("turn the network card on")?;
    netlink::add_address(&socket, index, IpAddr::V4(address), prefix)
        .context("give it its address")?;
    let until = Instant::now() + CARD_LIMIT;
    while text_of(card.join("carrier")).trim() != "1" {
        if Instant::now() >= until {
            bail!("no link on {} (is its cable in?)", card.display());
        }
        thread::sleep(POLL_INTERVAL);
    }
    if let Some(gateway) = gateway {
        netlink::add_default_route(&socket, index, IpAddr::V4(gateway)).context("route")?;
    }
    Ok(())
}

/// Starts netconsole if the host asks for it; the job continues without it.
fn start_netconsole(modules: &Modules, card: &Path, parameters: &Parameters) {
    let Some(target) = &parameters.netconsole else {
        return;
    };
    let name = card.file_name().unwrap_or_default().to_string_lossy();
    let options = format!(
        "netconsole={CONSOLE_SOURCE}@{}/{name},{target}",
        parameters.address
    );
    if let Err(why) = modules.load_with("netconsole", &options) {
        log(&format!("no netconsole: {why:#}"));
    }
}

/// Waits for the first peer that proves the secret, and rejects all others.
fn wait_for_connection(port: u16, secret: &Secret) -> Result<Channel> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))
        .with_context(|| format!("listen on port {port}"))?;
    listener.set_nonblocking(true)?;
    log(&format!("waiting on port {port}"));
    let mut lobby = Lobby::new(handshake::LINE_BYTES);
    let begin = Instant::now();
    while begin.elapsed() < CONNECT_LIMIT {
        while let Ok((stream, from)) = listener.accept() {
            if let Err(why) = greet(stream, from, &mut lobby, begin.elapsed()) {
                log(&format!("{from} is not let in: {why:#}"));
            }
        }
        for heard in lobby.look(begin.elapsed()) {
            let (from, why) = match heard {
                Heard::Line(peer) => {
                    let from = peer.from;
                    match admit(peer, secret) {
                        Ok(channel) => return Ok(channel),
                        Err(why) => (from, format!("{why:#}")),
                    }
                }
                Heard::LetGo(peer, why) => (peer.from, why.into()),
            };
            log(&format!("{from} is not let in: {why}"));
        }
        thread::sleep(POLL_INTERVAL);
    }
    bail!("no host has dialled within {} s", CONNECT_LIMIT.as_secs())
}

/// Sends a new connection a nonce; the lobby reads the answer.
fn greet(
    mut stream: TcpStream,
    from: SocketAddr,
    lobby: &mut Lobby<TcpStream>,
    now: Duration,
) -> Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    let nonce = base::secret::nonce()?;
    stream.write_all(handshake::greeting(&nonce).as_bytes())?;
    if let Some(Heard::LetGo(peer, why)) = lobby.enter(stream, from, nonce, now) {
        log(&format!("{} is not let in: {why}", peer.from));
    }
    Ok(())
}

/// Checks the peer's proof of the secret, and proves it in turn.
fn admit(peer: Peer<TcpStream>, secret: &Secret) -> Result<Channel> {
    let answer = handshake::answer(secret, &peer.nonce, &peer.line)?;
    let mut stream = peer.stream;
    stream.set_nonblocking(false)?;
    stream.write_all(answer.as_bytes())?;
    // An unreachable host is given up within half a minute, and the box restarts.
    sockopt::set_socket_keepalive(&stream, true)?;
    sockopt::set_tcp_keepidle(&stream, Duration::from_secs(10))?;
    sockopt::set_tcp_keepintvl(&stream, Duration::from_secs(5))?;
    sockopt::set_tcp_keepcnt(&stream, 4)?;
    sockopt::set_tcp_user_timeout(&stream, 30_000)?;
    Ok(Channel::from_tcp(stream))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_is_described_on_the_command_line() {
        let line = "panic=5 bakeoff.mac=02:00:00:00:00:01 bakeoff.address=192.0.2.7/24 bakeoff.port=7001 \
                    bakeoff.modules=igb,pcieport bakeoff.netconsole=4000@192.0.2.1/02:00:00:00:00:aa quiet\n";
        let parameters = Parameters::parse(line).unwrap();
        assert_eq!(parameters.address, Ipv4Addr::new(192, 0, 2, 7));
        assert_eq!(parameters.modules, ["igb", "pcieport"]);
        assert_eq!((parameters.gateway, parameters.watchdog.len()), (None, 0));
        let why = Parameters::parse(&line.replace("/24", "")).unwrap_err();
        assert_eq!(why.to_string(), "bakeoff.address without a prefix");
        assert!(parameters.cards.is_empty());
        let card = |text: &str| {
            let line = line.replace("quiet", &format!("bakeoff.cards={text}"));
            Parameters::parse(&line).map(|parameters| parameters.cards)
        };
        let cards = card("02:00:00:00:00:02@10.1.0.1/16,02:00:00:00:00:03@10.2.0.1/24").unwrap();
        assert_eq!(cards[1].address, Ipv4Addr::new(10, 2, 0, 1));
        assert_eq!((cards.len(), cards[0].prefix), (2, 16));
        let why = card("02:00:00:00:00:02@10.1.0.1").unwrap_err();
        assert!(why.to_string().starts_with("bakeoff.cards: "), "{why}");
        let why = Parameters::parse("quiet").unwrap_err();
        assert_eq!(
            why.to_string(),
            "no bakeoff.address on the kernel's command line"
        );
    }
}
