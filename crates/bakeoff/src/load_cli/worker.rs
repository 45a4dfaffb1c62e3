//! A client host: waits for a coordinator, runs its part of a load, and sends back the result.

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use load::traffic::{Protocol, Traffic};
use load::{clock, run};
use record::load::{LoadResult, Tick};

use crate::load_cli::channel;
use crate::load_cli::channel::{Channel, MAX_TRUSTED_BYTES, ToCoordinator, ToWorker};
use crate::load_cli::ports::{Peak, Ports};
use crate::out;
use base::secret::lobby::{Heard, Lobby, Peer};
use base::secret::{Secret, Side};

/// How often a worker checks whether its user stops it.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Serves one coordinator after another until the user stops it.
pub(crate) fn serve_coordinators(
    at: SocketAddr,
    secret: &Secret,
    build: &str,
    stop: &AtomicBool,
) -> Result<()> {
    let listener = TcpListener::bind(at).with_context(|| format!("cannot listen: {at}"))?;
    listener
        .set_nonblocking(true)
        .context("cannot look for a coordinator now and then")?;
    out::error_line(&format!(
        "waiting for a coordinator: {}",
        listener.local_addr()?
    ));
    let mut lobby = Lobby::new(channel::MAX_UNTRUSTED_BYTES);
    let begin = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        while let Ok((stream, from)) = listener.accept() {
            match send_hello(stream, from, &mut lobby, build, begin.elapsed()) {
                Ok(None) => {}
                Ok(Some(dismissed)) => print_dismissal(dismissed),
                Err(why) => out::error_line(&format!("{from}: {why:#}")),
            }
        }
        for heard in lobby.look(begin.elapsed()) {
            match heard {
                Heard::Line(peer) => {
                    let from = peer.from;
                    out::error_line(&match serve(peer, secret, stop) {
                        Ok(LoadResult { planned, ok, .. }) => {
                            format!("{from}: done: {planned} planned, {ok} ok")
                        }
                        Err(why) => format!("{from}: {why:#}"),
                    });
                }
                Heard::LetGo(..) => print_dismissal(heard),
            }
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

/// Prints which peer was dismissed before it proved that it knows the secret.
fn print_dismissal(heard: Heard<TcpStream>) {
    if let Heard::LetGo(peer, why) = heard {
        out::error_line(&format!("{}: {why}", peer.from));
    }
}

/// Sends the nonce of the authentication. Both sides prove that they know the secret, the coordinator first.
fn send_hello(
    mut stream: TcpStream,
    from: SocketAddr,
    lobby: &mut Lobby<TcpStream>,
    build: &str,
    now: Duration,
) -> Result<Option<Heard<TcpStream>>> {
    stream
        .set_nonblocking(true)
        .context("cannot look for its proof now and then")?;
    let nonce = base::secret::nonce()?;
    let hello = ToCoordinator::Hello {
        protocol: channel::PROTOCOL,
        build: build.into(),
        nonce: nonce.clone(),
    };
    channel::send(&mut stream, &hello)?;
    Ok(lobby.enter(stream, from, nonce, now))
}

/// Serves one coordinator, from its proof to the result.
fn serve(peer: Peer<TcpStream>, secret: &Secret, stop: &AtomicBool) -> Result<LoadResult> {
    let Peer {
        stream,
        nonce,
        line,
        ..
    } = peer;
    stream
        .set_nonblocking(false)
        .context("cannot wait for the coordinator")?;
    let mut channel = Channel::new(stream)?;
    let closer = channel.sender()?;
    let is_done = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| close_when_stopped(&closer, stop, &is_done));
        let result = authenticate(&mut channel, secret, &nonce, &line)
            .and_then(|()| run_load(&mut channel, stop));
        is_done.store(true, Ordering::Relaxed);
        result
    });
    if let Err(why) = &result {
        // The coordinator may be gone, so a failed send does not matter.
        let _ = channel.send(&ToCoordinator::Refused {
            why: format!("{why:#}"),
        });
    }
    result
}

/// Closes the connection when the user stops this worker, so that a thread that waits for a message
/// of the coordinator returns.
fn close_when_stopped(closer: &TcpStream, stop: &AtomicBool, is_done: &AtomicBool) {
    while !is_done.load(Ordering::Relaxed) {
        if stop.load(Ordering::Relaxed) {
            // The coordinator may have closed it first.
            let _ = closer.shutdown(Shutdown::Both);
            return;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn run_load(channel: &mut Channel, stop: &AtomicBool) -> Result<LoadResult> {
    let ToWorker::Prepare(spec) = channel.receive()? else {
        bail!("unexpected message of the coordinator (is it of this version?)");
    };
    let traffic = spec.traffic()?;
    check_resources(&traffic)?;
    channel.send(&ToCoordinator::Ready)?;
    loop {
        match channel.receive()? {
            ToWorker::Ping => channel.send(&ToCoordinator::Pong {
                at_ns: clock::now_ns(),
            })?,
            ToWorker::Start { at_ns } => return send_load(channel, &traffic, at_ns, stop),
            ToWorker::Stop => bail!("ended before the start"),
            ToWorker::Proof { .. } | ToWorker::Prepare(_) => {
                bail!("unexpected message of the coordinator")
            }
        }
    }
}

/// Checks a coordinator's proof, and sends this worker's proof.
fn authenticate(
    channel: &mut Channel,
    secret: &Secret,
    our_nonce: &str,
    line: &[u8],
) -> Result<()> {
    let message = serde_json::from_slice(line).context("not a message of bakeoff")?;
    let ToWorker::Proof { nonce, proof } = message else {
        bail!("unexpected message of the coordinator");
    };
    let nonces = [our_nonce, &*nonce];
    ensure!(
        secret.proves(Side::Coordinator, nonces, &proof),
        "coordinator knows another secret (give all hosts the same --secret-file)"
    );
    channel.send(&ToCoordinator::Proof {
        proof: secret.proof(Side::Worker, nonces),
    })?;
    channel.limit_bytes = MAX_TRUSTED_BYTES;
    Ok(())
}

/// Checks that this host has enough ports and file descriptors.
fn check_resources(traffic: &Traffic) -> Result<()> {
    let peak = Peak {
        connections: traffic.connections,
        rate_per_s: traffic.schedule.rate_per_s(),
        keep_alive: traffic.keep_alive || traffic.protocol != Protocol::Http1,
    };
    let ports = Ports::read(0)?;
    ports.check_connections(peak)?;
    ports.check_rate(peak)?;
    run::allow_connections(peak.connections)
}

/// Runs the load. Meanwhile, a stop message or the end of the connection ends it.
fn send_load(
    channel: &mut Channel,
    traffic: &Traffic,
    at_ns: u64,
    user_stops: &AtomicBool,
) -> Result<LoadResult> {
    let late_ns = clock::now_ns().saturating_sub(at_ns);
    ensure!(late_ns == 0, "too late for the start by {late_ns} ns");
    let mut sender = channel.sender()?;
    let closer = channel.sender()?;
    channel.set_timeout(None)?;
    let stop = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let flag = Arc::clone(&stop);
        scope.spawn(move || {
            // Any message, or the end of the connection, stops the load.
            let _ = channel.receive::<ToWorker>();
            flag.store(true, Ordering::Relaxed);
        });
        let on_tick = &mut |tick: Tick| {
            send_tick(&mut sender, tick, &stop);
        };
        let result = run::run_at(traffic, at_ns, &stop, on_tick);
        let sent = match &result {
            Ok(_) if user_stops.load(Ordering::Relaxed) => Ok(()),
            Ok(result) => {
                let result = Box::new(result.clone());
                channel::send(&mut sender, &ToCoordinator::Result(result))
            }
            Err(_) => Ok(()),
        };
        // The coordinator sends nothing more, so the receiving thread must be released.
        let _ = closer.shutdown(Shutdown::Read);
        sent?;
        ensure!(!user_stops.load(Ordering::Relaxed), "ended by its own user");
        result
    })
}

/// Sends the counts of a second. Stops the load if the coordinator is gone.
fn send_tick(sender: &mut TcpStream, tick: Tick, stop: &AtomicBool) {
    // The coordinator takes the timeline from the result.
    let tick = Tick {
        ended: Vec::new(),
        ..tick
    };
    let sent = channel::send(sender, &ToCoordinator::Tick(tick));
    if sent.is_err() {
        stop.store(true, Ordering::Relaxed);
    }
}
