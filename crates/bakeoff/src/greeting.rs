//! Who we are, for the other side of the wire.

use record::VERSION;
use record::protocol::{Greeting, PROTOCOL};

/// Version and build of this binary; host and agent must be of one build.
pub fn build() -> String {
    format!("{VERSION}-{}", env!("BAKEOFF_BUILD"))
}

/// The host's greeting.
pub fn host() -> Greeting {
    Greeting {
        protocol: PROTOCOL,
        build: build(),
    }
}
