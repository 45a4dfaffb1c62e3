//! Messages between the two agents of a trial whose clients are not on the servers' system.
//!
//! ```text
//! servers: Ready ---------- Noted* ----------------------- Noted ---------- Noted -----------------
//! clients:         Ping*           Begins (Step | Tick)* Opens ... Closes        Seconds* Driven
//!                                                                                Failed, at any time
//! ```
//! The clients' agent determines the window. The servers' agent reads its counters when the window opens and when it closes, and replies:
//! the time until the reply bounds the difference between the two windows.

use serde::{Deserialize, Serialize};

use crate::protocol::drive::Drive;

/// Name of the virtio-serial port to the other agent.
pub const PORT: &str = "bakeoff.clients";

/// From the servers' agent to the clients'.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToClients {
    /// The servers respond and their system is idle: begin.
    Ready,
    /// Reply to a message that needs one, after acting on it.
    Noted,
}

/// From the clients' agent to the servers'.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromClients {
    /// Needs a reply at once.
    Ping,
    /// The load begins.
    Begins,
    /// A step of a ramp begins.
    Step,
    /// The window opens; needs a reply.
    Opens,
    /// The window closes; needs a reply.
    Closes,
    /// Progress and result of the load.
    Drive(Drive),
}
