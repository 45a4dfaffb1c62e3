//! The build of this binary, by which host and agent know each other.

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
