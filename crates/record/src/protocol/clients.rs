//! What the two agents of a trial say to each other where clients are not on the servers' system.
//!
//! ```text
//! servers: Ready ---------- Noted* ----------------------- Noted ---------- Noted -----------------
//! clients:         Ping*           Begins (Step | Tick)* Opens ... Closes        Seconds* Driven
//!                                                                                Failed, at any time
//! ```
//! The window is the clients'. The servers' agent reads its meter when it is told that the window opens, and that it
//! closes, and says so: the time until then is the most by which the two windows can differ.

use serde::{Deserialize, Serialize};

use crate::protocol::drive::Drive;

/// Name of the virtio-serial port by which a guest reaches the other agent.
pub const PORT: &str = "bakeoff.clients";

/// From the servers' agent to the clients'.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToClients {
    /// The servers answer and their system is idle: begin.
    Ready,
    /// What needs an answer has been heard, and what it asks for is done.
    Noted,
}

/// From the clients' agent to the servers'.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromClients {
    /// To be noted at once.
    Ping,
    /// The load begins.
    Begins,
    /// A step of a ramp begins.
    Step,
    /// The window opens; to be noted.
    Opens,
    /// The window closes; to be noted.
    Closes,
    /// How the drive goes, and what it yields.
    Drive(Drive),
}
