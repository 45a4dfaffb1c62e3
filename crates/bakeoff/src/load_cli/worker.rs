//! A client host: waits for a coordinator, does its part of a load, and hands back what it saw.

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use load::traffic::{Protocol, Traffic};
use load::{clock, run};
use record::load::{LoadResult, Tick};

use crate::load_cli::channel;
use crate::load_cli::channel::{Channel, LONG_BYTES, ToCoordinator, ToWorker};
use crate::load_cli::ports::{Peak, Ports};
use crate::out;
use base::secret::lobby::{Heard, Lobby, Peer};
use base::secret::{Secret, Side};

/// How often a worker looks whether its user ends it.
const POLL: Duration = Duration::from_millis(20);

/// Serves one coordinator after the other until the user ends it.
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
    let mut lobby = Lobby::new(channel::SHORT_BYTES);
    let begin = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        while let Ok((stream, from)) = listener.accept() {
            match greet(stream, from, &mut lobby, build, begin.elapsed()) {
                Ok(None) => {}
                Ok(Some(let_go)) => tell(let_go),
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
                Heard::LetGo(..) => tell(heard),
            }
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// Says who was let go before it had proved itself.
fn tell(heard: Heard<TcpStream>) {
    if let Heard::LetGo(peer, why) = heard {
        out::error_line(&format!("{}: {why}", peer.from));
    }
}

/// Both sides prove that they know the secret, the coordinator first: it is told a number, and has to send its proof.
fn greet(
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

/// One coordinator, from its proof to the result.
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
    let done = std::thread::scope(|scope| {
        scope.spawn(|| close_when_stopped(&closer, stop, &is_done));
        let done =
            admit(&mut channel, secret, &nonce, &line).and_then(|()| run_one(&mut channel, stop));
        is_done.store(true, Ordering::Relaxed);
        done
    });
    if let Err(why) = &done {
        // The coordinator may be gone; then nobody needs to know.
        let _ = channel.send(&ToCoordinator::Refused {
            why: format!("{why:#}"),
        });
    }
    done
}

/// Ends the connection when the user ends this worker: whoever waits for a message of the
/// coordinator then goes on.
fn close_when_stopped(closer: &TcpStream, stop: &AtomicBool, is_done: &AtomicBool) {
    while !is_done.load(Ordering::Relaxed) {
        if stop.load(Ordering::Relaxed) {
            // The coordinator may have gone first.
            let _ = closer.shutdown(Shutdown::Both);
            return;
        }
        std::thread::sleep(POLL);
    }
}

fn run_one(channel: &mut Channel, stop: &AtomicBool) -> Result<LoadResult> {
    let ToWorker::Prepare(spec) = channel.receive()? else {
        bail!("unexpected message of the coordinator (is it of this version?)");
    };
    let traffic = spec.traffic()?;
    check(&traffic)?;
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

/// Takes a coordinator's proof, and sends it this worker's.
fn admit(channel: &mut Channel, secret: &Secret, own: &str, line: &[u8]) -> Result<()> {
    let said = serde_json::from_slice(line).context("not a message of bakeoff")?;
    let ToWorker::Proof { nonce, proof } = said else {
        bail!("unexpected message of the coordinator");
    };
    let nonces = [own, &*nonce];
    ensure!(
        secret.proves(Side::Coordinator, nonces, &proof),
        "coordinator knows another secret (give all hosts the same --secret-file)"
    );
    channel.send(&ToCoordinator::Proof {
        proof: secret.proof(Side::Worker, nonces),
    })?;
    channel.limit_bytes = LONG_BYTES;
    Ok(())
}

/// What this host can know beforehand.
fn check(traffic: &Traffic) -> Result<()> {
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

/// Runs the load, and listens meanwhile: a coordinator that says stop or is gone ends it.
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
            // Whatever comes, stop or the end of the line: there is nobody to load for any more.
            let _ = channel.receive::<ToWorker>();
            flag.store(true, Ordering::Relaxed);
        });
        let on_tick = &mut |tick: Tick| {
            send_tick(&mut sender, tick, &stop);
        };
        let result = run::run_at(traffic, at_ns, &stop, on_tick);
        let said = match &result {
            Ok(_) if user_stops.load(Ordering::Relaxed) => Ok(()),
            Ok(result) => {
                let result = Box::new(result.clone());
                channel::send(&mut sender, &ToCoordinator::Result(result))
            }
            Err(_) => Ok(()),
        };
        // The listener would wait for a coordinator that has nothing more to say.
        let _ = closer.shutdown(Shutdown::Read);
        said?;
        ensure!(!user_stops.load(Ordering::Relaxed), "ended by its own user");
        result
    })
}

/// Tells of a second; without a coordinator there is no reason to go on.
fn send_tick(sender: &mut TcpStream, tick: Tick, stop: &AtomicBool) {
    // Nobody keeps the timeline before the result has come.
    let tick = Tick {
        ended: Vec::new(),
        ..tick
    };
    let said = channel::send(sender, &ToCoordinator::Tick(tick));
    if said.is_err() {
        stop.store(true, Ordering::Relaxed);
    }
}
