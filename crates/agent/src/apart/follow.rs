//! The servers' side of a drive that happens elsewhere: told, not done.

use anyhow::{Context, Result, bail};
use load::Tick;
use protocol::clients::{FromClients, ToClients, whole};
use record::latency::Packed;
use workload::{Driven, Wrong};

use crate::channel::Channel;
use crate::path::PathSeen;

/// What clients elsewhere tell of while they drive.
pub(crate) trait Follower {
    fn begins(&mut self);
    fn steps(&mut self);
    fn ticks(&mut self, tick: Tick);
    /// The window opens; returns when what is read there has been read.
    fn opens(&mut self);
    /// The window closes, in the same way.
    fn closes(&mut self);
}

/// Has the clients begin, and follows them to the end of the drive.
pub(crate) fn follow(
    channel: &mut Channel,
    follower: &mut dyn Follower,
) -> Result<(Driven, Option<PathSeen>)> {
    let send = |channel: &mut Channel, message| {
        protocol::send(channel, &message).context("cannot speak to the clients")
    };
    send(channel, ToClients::Ready)?;
    let mut seconds = Vec::new();
    loop {
        let message = protocol::receive(channel);
        match message.context("the clients are gone")? {
            FromClients::Ping => send(channel, ToClients::Noted)?,
            FromClients::Begins => follower.begins(),
            FromClients::Step => follower.steps(),
            FromClients::Tick {
                second,
                ok,
                faults,
                is_counting,
                ended,
            } => follower.ticks(Tick {
                second,
                ok,
                faults,
                latency: Packed::default(),
                counting: is_counting,
                ended,
            }),
            FromClients::Opens => {
                follower.opens();
                send(channel, ToClients::Noted)?;
            }
            FromClients::Closes => {
                follower.closes();
                send(channel, ToClients::Noted)?;
            }
            FromClients::Seconds(part) => seconds.extend(part),
            FromClients::Driven(driven) => {
                let driven = whole(*driven, seconds);
                let (pace, path) = match driven.path {
                    Some(own) => (Some((own.pace, own.sent_late)), Some((own.cpus, own.ends))),
                    // What is known of their side is in the facts.
                    None => (None, None),
                };
                let path = path.map(|(cpus, ends)| PathSeen { cpus, ends });
                let driven = Driven {
                    load: driven.load,
                    figures: driven.figures,
                    curves: driven.curves,
                    pace,
                    facts: driven.facts,
                };
                return Ok((driven, path));
            }
            FromClients::Failed {
                is_wrong: true,
                detail,
            } => return Err(Wrong(detail).into()),
            FromClients::Failed {
                is_wrong: false,
                detail,
            } => bail!("the clients: {detail}"),
        }
    }
}
