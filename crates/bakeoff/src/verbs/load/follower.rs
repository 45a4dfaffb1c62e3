//! A client host: waits for a leader, does its part of a load, and hands back what it saw.

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use load::traffic::{Protocol, Traffic};
use load::{Tick, clock, drive};
use record::load::LoadResult;

use super::ports::Ports;
use super::wire::{self, LONG_BYTES, Secret, Side, ToFollower, ToLeader, Wire};
use crate::greeting;
use crate::out;

/// How often a follower looks whether its user ends it.
const NAP: Duration = Duration::from_millis(20);

/// Serves one leader after the other until the user ends it.
pub(super) fn follow(at: SocketAddr, secret: &Secret, stop: &AtomicBool) -> Result<()> {
    let listener = TcpListener::bind(at).with_context(|| format!("cannot listen: {at}"))?;
    listener
        .set_nonblocking(true)
        .context("cannot look for a leader now and then")?;
    out::error_line(&format!("waiting for a leader: {}", listener.local_addr()?));
    while !stop.load(Ordering::Relaxed) {
        let Ok((stream, leader)) = listener.accept() else {
            std::thread::sleep(NAP);
            continue;
        };
        match serve(stream, secret, stop) {
            Ok(result) => out::error_line(&format!(
                "{leader}: done: {} planned, {} ok",
                result.planned, result.ok
            )),
            Err(why) => out::error_line(&format!("{leader}: {why:#}")),
        }
    }
    Ok(())
}

/// One leader, from hello to result.
fn serve(stream: TcpStream, secret: &Secret, stop: &AtomicBool) -> Result<LoadResult> {
    // A socket that was accepted without waiting must itself be told to wait.
    stream
        .set_nonblocking(false)
        .context("cannot wait for the leader")?;
    let mut wire = Wire::new(stream)?;
    let closer = wire.speaker()?;
    let is_done = AtomicBool::new(false);
    let done = std::thread::scope(|scope| {
        scope.spawn(|| close_when_stopped(&closer, stop, &is_done));
        let done = obey(&mut wire, secret, stop);
        is_done.store(true, Ordering::Relaxed);
        done
    });
    if let Err(why) = &done {
        // The leader may be gone; then nobody needs to know.
        let _ = wire.say(&ToLeader::Refused {
            why: format!("{why:#}"),
        });
    }
    done
}

/// Ends the conversation when the user ends this follower: whoever waits for a word of the leader then goes on.
fn close_when_stopped(closer: &TcpStream, stop: &AtomicBool, is_done: &AtomicBool) {
    while !is_done.load(Ordering::Relaxed) {
        if stop.load(Ordering::Relaxed) {
            // The leader may have gone first.
            let _ = closer.shutdown(Shutdown::Both);
            return;
        }
        std::thread::sleep(NAP);
    }
}

fn obey(wire: &mut Wire, secret: &Secret, stop: &AtomicBool) -> Result<LoadResult> {
    greet(wire, secret)?;
    let ToFollower::Prepare(share) = wire.hear()? else {
        bail!("leader out of turn (is it of this version?)");
    };
    let traffic = share.traffic()?;
    check(&traffic)?;
    wire.say(&ToLeader::Ready)?;
    loop {
        match wire.hear()? {
            ToFollower::Ping => wire.say(&ToLeader::Pong {
                at_ns: clock::now_ns(),
            })?,
            ToFollower::Start { at_ns } => return run(wire, &traffic, at_ns, stop),
            ToFollower::Stop => bail!("ended before the start"),
            ToFollower::Proof { .. } | ToFollower::Prepare(_) => bail!("leader out of turn"),
        }
    }
}

/// Both sides prove that they know the secret, the leader first.
fn greet(wire: &mut Wire, secret: &Secret) -> Result<()> {
    let own = wire::nonce()?;
    wire.say(&ToLeader::Hello {
        protocol: wire::PROTOCOL,
        build: greeting::build(),
        nonce: own.clone(),
    })?;
    let ToFollower::Proof { nonce, proof } = wire.hear()? else {
        bail!("leader out of turn");
    };
    let nonces = [&*own, &*nonce];
    ensure!(
        secret.proves(Side::Leader, nonces, &proof),
        "leader knows another secret (give all hosts the same --secret-file)"
    );
    wire.say(&ToLeader::Proof {
        proof: secret.proof(Side::Follower, nonces),
    })?;
    wire.limit_bytes = LONG_BYTES;
    Ok(())
}

/// What this host can know beforehand.
fn check(traffic: &Traffic) -> Result<()> {
    let (connections, rate) = match traffic.schedule {
        load::schedule::Schedule::Open { rate_per_s, .. } => {
            (traffic.connections, Some(rate_per_s))
        }
        load::schedule::Schedule::Closed { .. } => (traffic.connections, None),
    };
    let keeps = traffic.keep_alive || traffic.protocol != Protocol::Http1;
    Ports::read(0)?.check((connections, rate), keeps)?;
    drive::allow(connections)
}

/// Runs the load, and listens meanwhile: a leader that says stop or is gone ends it.
fn run(
    wire: &mut Wire,
    traffic: &Traffic,
    at_ns: u64,
    user_stops: &AtomicBool,
) -> Result<LoadResult> {
    let late_ns = clock::now_ns().saturating_sub(at_ns);
    ensure!(late_ns == 0, "too late for the start by {late_ns} ns");
    let mut speaker = wire.speaker()?;
    let closer = wire.speaker()?;
    wire.be_patient(None)?;
    let stop = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let flag = Arc::clone(&stop);
        scope.spawn(move || {
            // Whatever comes, stop or the end of the line: there is nobody to load for any more.
            let _ = wire.hear::<ToFollower>();
            flag.store(true, Ordering::Relaxed);
        });
        let on_tick = &mut |tick: Tick| {
            tell(&mut speaker, tick, &stop);
        };
        let result = drive::run_at(traffic, at_ns, &stop, on_tick);
        let said = match &result {
            Ok(_) if user_stops.load(Ordering::Relaxed) => Ok(()),
            Ok(result) => wire::say(&mut speaker, &ToLeader::Result(Box::new(result.clone()))),
            Err(_) => Ok(()),
        };
        // The listener would wait for a leader that has nothing more to say.
        let _ = closer.shutdown(Shutdown::Read);
        said?;
        ensure!(!user_stops.load(Ordering::Relaxed), "ended by its own user");
        result
    })
}

/// Tells of a second; without a leader there is no reason to go on.
fn tell(speaker: &mut TcpStream, tick: Tick, stop: &AtomicBool) {
    let Tick {
        second,
        ok,
        faults,
        latency,
        counting,
    } = tick;
    let said = wire::say(
        speaker,
        &ToLeader::Tick {
            second,
            ok,
            faults,
            latency,
            counting,
        },
    );
    if said.is_err() {
        stop.store(true, Ordering::Relaxed);
    }
}
