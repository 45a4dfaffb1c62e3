//! The participants: servers, bakeoff's engines, and the installed peers.

use std::env;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::baseline::{self, BenchServer};
use crate::child::Runner;
use crate::client::{Engine, Part, ROLE};
use crate::contest::{File, Host, Scene};
use crate::late;
use crate::peers::Tool;
use crate::server::Server;

/// Where `make bench-load` installs peers that Debian lacks, relative to the workspace.
const PEERS_DIR: &str = "target/bench-peers/bin";

pub(crate) struct Participants {
    pub(crate) server: Server,
    baseline: BenchServer,
    late: BenchServer,
    pub(crate) peers: Vec<Peer>,
    /// Path of this program.
    program: String,
}

/// A client that is not bakeoff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) tool: Tool,
    pub(crate) version: String,
    command: String,
}

impl Participants {
    pub(crate) fn open(runner: &Runner) -> Result<Self> {
        let program = env::current_exe().context("cannot find this program")?;
        let program = program.to_str().context("path is not UTF-8")?.to_owned();
        let server = Server::start()?;
        let body = server.file(File::Tiny.name());
        let body = body.to_str().context("temporary path is not UTF-8")?;
        let open_for_ms = late::OPEN_FOR.as_millis().to_string();
        let participants = Self {
            baseline: BenchServer::start(&program, baseline::ROLE, body)?,
            late: BenchServer::start(&program, late::ROLE, &open_for_ms)?,
            server,
            peers: [Tool::Wrk, Tool::H2load, Tool::Ab, Tool::Oha]
                .into_iter()
                .filter_map(find)
                .collect(),
            program,
        };
        for tool in [Tool::Wrk, Tool::H2load, Tool::Ab, Tool::Oha] {
            if !participants.peers.iter().any(|peer| peer.tool == tool) {
                eprintln!(
                    "left out, because it is not installed: {} (make bench-load)",
                    tool.name()
                );
            }
        }
        // Lets the server read its files from disk.
        for file in [File::Tiny, File::Image] {
            let scene = Scene {
                file,
                ..crate::contest::SCENES[0]
            };
            runner.run(&participants.client_command(&participants.part(&scene, Engine::Epoll)))?;
        }
        Ok(participants)
    }

    /// Process ids of the servers.
    pub(crate) fn servers(&self) -> [u32; 3] {
        [self.server.pid(), self.baseline.pid(), self.late.pid()]
    }

    /// The command line of a client for a scene; `None` if it is not installed.
    pub(crate) fn command_line(&self, tool: Tool, scene: &Scene) -> Option<Vec<String>> {
        match tool {
            Tool::Epoll => Some(self.client_command(&self.part(scene, Engine::Epoll))),
            Tool::Uring => Some(self.client_command(&self.part(scene, Engine::Uring))),
            Tool::Wrk | Tool::H2load | Tool::Ab | Tool::Oha => {
                let peer = self.peers.iter().find(|peer| peer.tool == tool)?;
                let server = self.address(scene.host);
                let url = format!("http://{server}/{}", scene.file.name());
                Some(peer_words(peer, scene, &url))
            }
        }
    }

    /// Parameters of bakeoff's client in a scene.
    pub(crate) fn part(&self, scene: &Scene, engine: Engine) -> Part {
        Part {
            server: self.address(scene.host),
            path: format!("/{}", scene.file.name()),
            body: self.server.file(scene.file.name()),
            connections: scene.connections,
            keep_alive: scene.keep_alive,
            engine,
            rate_per_s: None,
            bits_per_s: Vec::new(),
            sources: 0,
            warmup_ms: 0,
            window_ms: scene.seconds * 1000,
        }
    }

    pub(crate) fn client_command(&self, part: &Part) -> Vec<String> {
        let part = serde_json::to_string(part).expect("a part has nothing that JSON lacks");
        vec![self.program.clone(), ROLE.into(), part]
    }

    /// The path of a peer's program.
    pub(crate) fn program(&self, tool: Tool) -> Option<String> {
        let peer = self.peers.iter().find(|peer| peer.tool == tool)?;
        Some(peer.command.clone())
    }

    fn address(&self, host: Host) -> SocketAddr {
        match host {
            Host::Nginx => self.server.address,
            Host::Baseline => self.baseline.address,
            Host::Late => self.late.address,
        }
    }

    /// A file on nginx.
    pub(crate) fn url(&self, file: File) -> String {
        format!("http://{}/{}", self.server.address, file.name())
    }
}

fn peer_words(peer: &Peer, scene: &Scene, url: &str) -> Vec<String> {
    let (seconds, connections) = (scene.seconds, scene.connections);
    let line = match (peer.tool, scene.keep_alive) {
        (Tool::Wrk, _) => format!("-t1 -c{connections} -d{seconds}s"),
        (Tool::H2load, _) => format!("--h1 -t1 -c{connections} -D {seconds}"),
        // Without -n, ab stops at 50,000 requests. It allocates memory for -n requests.
        (Tool::Ab, true) => format!("-q -k -c {connections} -t {seconds} -n 200000"),
        (Tool::Ab, false) => format!("-q -c {connections} -t {seconds} -n 200000"),
        (Tool::Oha, true) => {
            format!("--no-tui --output-format json -c {connections} -z {seconds}s")
        }
        (Tool::Oha, false) => {
            format!(
                "--no-tui --output-format json --disable-keepalive -c {connections} -z {seconds}s"
            )
        }
        (Tool::Epoll | Tool::Uring, _) => unreachable!("bakeoff is not a peer"),
    };
    let mut words = vec![peer.command.clone()];
    words.extend(line.split(' ').map(str::to_owned));
    if peer.tool == Tool::Wrk && !scene.keep_alive {
        words.extend(["-H", "Connection: close"].map(str::to_owned));
    }
    words.push(url.into());
    words
}

fn find(tool: Tool) -> Option<Peer> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (command, version) = match tool {
        Tool::Wrk => ("wrk".into(), debian("wrk")?),
        Tool::H2load => ("h2load".into(), debian("nghttp2-client")?),
        Tool::Ab => ("ab".into(), debian("apache2-utils")?),
        Tool::Oha => {
            let given = env::var_os("BENCH_PEERS").map_or(root.join(PEERS_DIR), PathBuf::from);
            let place = given.join("oha").to_str()?.to_owned();
            let output = Command::new(&place).arg("--version").output().ok()?;
            let output = String::from_utf8(output.stdout).ok()?;
            (place, output.split_whitespace().nth(1)?.to_owned())
        }
        Tool::Epoll | Tool::Uring => unreachable!("bakeoff is not a peer"),
    };
    Some(Peer {
        tool,
        version,
        command,
    })
}

/// Version of an installed Debian package.
pub(crate) fn debian(package: &str) -> Option<String> {
    let format = "${db:Status-Status} ${Version}";
    let output = Command::new("dpkg-query")
        .args(["-W", "-f", format, package])
        .output()
        .ok()?;
    let output = String::from_utf8(output.stdout).ok()?;
    output.strip_prefix("installed ").map(str::to_owned)
}
