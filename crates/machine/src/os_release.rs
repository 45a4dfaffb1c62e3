//! os-release(5) of this host.

use std::fs;

/// The text of the file; empty where there is none.
pub struct OsRelease(pub(crate) String);

impl OsRelease {
    /// The first file is the administrator's, the second comes with the system.
    #[must_use]
    pub fn read() -> Self {
        let read = |path| fs::read_to_string(path).ok();
        let text = read("/etc/os-release").or_else(|| read("/usr/lib/os-release"));
        Self(text.unwrap_or_default())
    }

    /// The value of a field without its quotes: `field("ID")` is `debian`.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.0.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
        Some(value.trim_matches(['"', '\'']))
    }
}
