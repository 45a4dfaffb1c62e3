//! The servers' side of a drive by clients on another system.

use anyhow::{Context, Result};
use record::protocol::clients::{FromClients, ToClients};
use record::protocol::drive::{Drive, Driven};
use workload::Watcher;

use super::failure;
use crate::channel::Channel;

/// Watches a drive whose clients decide when the window opens and closes.
pub(crate) trait Follower: Watcher {
    /// The window opens. Returns when all counters are read.
    fn opens(&mut self);
    /// The window closes. Returns when all counters are read.
    fn closes(&mut self);
}

/// Has the clients begin, and follows them to the end of the drive.
pub(crate) fn follow(channel: &mut Channel, follower: &mut dyn Follower) -> Result<Driven> {
    let send = |channel: &mut Channel, message| {
        record::protocol::send(channel, &message).context("cannot speak to the clients")
    };
    send(channel, ToClients::Ready)?;
    let mut seconds = Vec::new();
    loop {
        let message = record::protocol::receive(channel);
        match message.context("the clients are gone")? {
            FromClients::Ping => send(channel, ToClients::Noted)?,
            FromClients::Begins => follower.begins(),
            FromClients::Step => follower.steps(),
            FromClients::Opens => {
                follower.opens();
                send(channel, ToClients::Noted)?;
            }
            FromClients::Closes => {
                follower.closes();
                send(channel, ToClients::Noted)?;
            }
            FromClients::Drive(Drive::Tick(tick)) => follower.ticks(tick),
            FromClients::Drive(Drive::Seconds(part)) => seconds.extend(part),
            FromClients::Drive(Drive::Driven(driven)) => return Ok(driven.with_timeline(seconds)),
            FromClients::Drive(Drive::Failed { is_wrong, detail }) => {
                // A wrong answer is the servers' failure, although the clients report it.
                let source = if is_wrong { "" } else { "the clients: " };
                return Err(failure::to_error(is_wrong, format!("{source}{detail}")));
            }
        }
    }
}
