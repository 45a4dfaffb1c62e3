//! The servers' side of a drive that happens elsewhere: told, not done.

use anyhow::{Context, Result};
use record::load::Tick;
use record::protocol::clients::{FromClients, ToClients};
use record::protocol::drive::{Drive, Driven};

use super::failure;
use crate::channel::Channel;

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
                // What was served wrong is the servers' matter, whoever saw it.
                let by = if is_wrong { "" } else { "the clients: " };
                return Err(failure::failure(is_wrong, format!("{by}{detail}")));
            }
        }
    }
}
