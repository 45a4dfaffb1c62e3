//! Names of sysctls and their files.

use std::path::{Path, PathBuf};

/// The file of a sysctl. As in sysctl(8), dots and slashes change places unless the name has a slash first:
/// `net.ipv4.conf.eth0/1.rp_filter` is the device `eth0.1`.
pub fn sysctl_path(name: &str) -> PathBuf {
    let first = name.find(['.', '/']).map(|at| name.as_bytes()[at]);
    let path = match first {
        Some(b'/') => name.to_owned(),
        Some(_) | None => swap_dots_and_slashes(name),
    };
    Path::new(SYSCTLS).join(path)
}

/// The name of a sysctl's file, with dots first.
pub fn sysctl_name(path: &Path) -> String {
    let below = path.strip_prefix(SYSCTLS).unwrap_or(path);
    swap_dots_and_slashes(&below.to_string_lossy())
}

/// Where the kernel shows its sysctls.
const SYSCTLS: &str = "/proc/sys";

fn swap_dots_and_slashes(text: &str) -> String {
    let swap = |c| match c {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    text.chars().map(swap).collect()
}

/// Whether this may be a sysctl's name, dotted.
pub(crate) fn name_is_good(name: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    !name.contains("..") && name.contains('.') && name.chars().all(good)
}
