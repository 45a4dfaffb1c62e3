//! Names of sysctls and their files.

use std::path::{Path, PathBuf};

/// The file of a sysctl. As in sysctl(8), dots and slashes are exchanged unless a slash comes first: `net.ipv4.conf.eth0/1.rp_filter`
/// is the device `eth0.1`.
pub fn sysctl_path(name: &str) -> PathBuf {
    let first = name.find(['.', '/']).map(|at| name.as_bytes()[at]);
    let path = match first {
        Some(b'/') => name.to_owned(),
        Some(_) | None => swap_dots_and_slashes(name),
    };
    Path::new(SYSCTLS).join(path)
}

/// The dotted name of a sysctl's file.
pub fn sysctl_name(path: &Path) -> String {
    let below = path.strip_prefix(SYSCTLS).unwrap_or(path);
    swap_dots_and_slashes(&below.to_string_lossy())
}

/// Directory of sysctls.
const SYSCTLS: &str = "/proc/sys";

fn swap_dots_and_slashes(text: &str) -> String {
    let swap = |c| match c {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    text.chars().map(swap).collect()
}

/// Whether a text is a valid dotted sysctl name.
pub(crate) fn is_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    !name.contains("..") && name.contains('.') && name.chars().all(is_allowed)
}
