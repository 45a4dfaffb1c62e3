//! The load generator against small servers on loopback.

#[cfg(test)]
mod faults;
#[cfg(test)]
mod http2;
#[cfg(test)]
mod open;
#[cfg(test)]
mod secure;
#[cfg(test)]
mod server;
#[cfg(test)]
mod sessions;
