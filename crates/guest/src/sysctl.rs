//! An arm's sysctls, set before anything is started. Refused values are reported with their names.
//!
//! Many of `net.*` exist once per network namespace, and a new namespace begins with the kernel's defaults. So
//! the agent sets them in its namespace and in the server's. The clients' namespace keeps the defaults, so that
//! clients are the same in all arms.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use anyhow::{Result, bail};

use crate::netns::NetnsPair;
use crate::refused::Refused;

/// Sets all sysctls, in the order of their names.
pub fn set(sysctls: &BTreeMap<String, String>, netns: &NetnsPair) -> Result<()> {
    for (name, value) in sysctls {
        let here = write(name, value);
        // Sysctls of the whole kernel are missing in a namespace or read-only there.
        let there = if name.starts_with("net.") || name.starts_with("net/") {
            netns.server.within(|| write(name, value))?
        } else {
            Err(io::ErrorKind::NotFound.into())
        };
        match (here, there) {
            (Ok(()), Ok(())) => {}
            (Ok(()), Err(why)) if is_elsewhere(&why) => {}
            (Err(why), Ok(())) if is_elsewhere(&why) => {}
            (Err(why), _) | (_, Err(why)) => bail!(refused(name, value, &why)),
        }
    }
    Ok(())
}

/// Sets the default queueing discipline, which network devices inherit only as they come up.
pub fn set_for_devices(sysctls: &BTreeMap<String, String>) {
    for (name, value) in sysctls.iter().filter(|(name, _)| is_qdisc(name)) {
        // `set` reports an error.
        let _ = write(name, value);
    }
}

/// Whether the default queueing discipline is among them.
pub(crate) fn names_qdisc(sysctls: &BTreeMap<String, String>) -> bool {
    sysctls.keys().any(|name| is_qdisc(name))
}

fn is_qdisc(name: &str) -> bool {
    plan::sysctl_name(&plan::sysctl_path(name)) == DEFAULT_QDISC
}

const DEFAULT_QDISC: &str = "net.core.default_qdisc";

fn write(name: &str, value: &str) -> io::Result<()> {
    fs::write(plan::sysctl_path(name), value)
}

/// Whether the error means that a sysctl belongs to another namespace.
fn is_elsewhere(why: &io::Error) -> bool {
    use io::ErrorKind::{NotFound, PermissionDenied, ReadOnlyFilesystem};
    matches!(why.kind(), NotFound | PermissionDenied | ReadOnlyFilesystem)
}

fn refused(name: &str, value: &str, why: &io::Error) -> Refused {
    Refused(match why.kind() {
        io::ErrorKind::NotFound => {
            format!("this kernel has no sysctl {name} (remove it from the arm, or load its module)")
        }
        _ => format!(
            "the kernel refuses {value:?} for sysctl {name}: {why} (correct the arm's value)"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_sysctl_and_a_refused_value_are_named() {
        let Refused(text) = refused("vm.x", "1", &io::ErrorKind::NotFound.into());
        assert!(text.starts_with("this kernel has no sysctl vm.x"));
        let Refused(text) = refused("vm.x", "1", &io::ErrorKind::InvalidInput.into());
        assert!(text.starts_with("the kernel refuses \"1\" for sysctl vm.x"));
    }
}
