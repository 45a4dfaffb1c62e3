//! The build of this binary. Host and agent must be of the same build.

use record::VERSION;
use record::protocol::{Greeting, PROTOCOL};

/// What `bakeoff --version` prints after the name.
pub const VERSION_LINE: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("BAKEOFF_COMMIT"),
    ", build ",
    env!("BAKEOFF_BUILD"),
    ")"
);

/// Version and build of this binary.
pub fn build() -> String {
    format!("{VERSION}-{}", env!("BAKEOFF_BUILD"))
}

/// The host's greeting for agents.
pub fn host() -> Greeting {
    Greeting {
        protocol: PROTOCOL,
        build: build(),
    }
}
