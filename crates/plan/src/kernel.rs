//! Names of kernels in a plan.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::target::Target;

/// Where an arm's kernel comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KernelRef {
    /// `6.1`: the newest Debian package of that version, in the first suite that has one.
    Version(String),
    /// `debian:SUITE/VERSION-OR-GLOB`: the newest match by Debian's version order.
    Debian {
        /// `bookworm`, `trixie-backports`, `sid`, ...
        suite: String,
        /// `6.1`, `6.12.*`, `7.2.3-1`; a prefix matches whole components.
        version: String,
    },
    /// `./FILE.deb`: Debian packages, separated by white space.
    Packages(Vec<PathBuf>),
    /// `./bzImage` or `./linux`.
    Path {
        /// A bootable image, or the directory of a built source tree.
        path: PathBuf,
        /// Modules of an image: the directory `lib/modules/VERSION`, which contains `modules.dep`.
        modules: Option<PathBuf>,
    },
    /// `running`: the kernel that is running on the machine (`local`).
    Running,
    /// The unknown kernel of a system on the network, named by its address.
    Remote(Box<Target>),
}

/// Forms of a kernel's name, for messages.
pub const FORMS: &str =
    "write 6.1, debian:SUITE/VERSION, ./bzImage, the directory of a built tree, or ./FILE.deb";

/// Reads a kernel's name. Only a path may have `modules`. Relative paths stay relative.
pub fn read(text: &str, modules: Option<PathBuf>) -> Result<KernelRef, String> {
    let mut words = text.split_whitespace().peekable();
    let are_packages = words.peek().is_some() && words.all(is_package);
    let kernel = if text == "running" {
        KernelRef::Running
    } else if let Some(rest) = text.strip_prefix("debian:") {
        debian(rest)?
    } else if are_packages {
        KernelRef::Packages(text.split_whitespace().map(PathBuf::from).collect())
    } else if text.contains('/') || matches!(text, "." | "..") {
        let path = text.into();
        return Ok(KernelRef::Path { path, modules });
    } else if text.starts_with(|c: char| c.is_ascii_digit()) && is_version(text) {
        KernelRef::Version(text.into())
    } else {
        return Err(format!("neither a version nor a path: {text:?}"));
    };
    match modules {
        None => Ok(kernel),
        Some(_) => Err(format!(
            "modules given for a kernel that brings its own: {text:?}"
        )),
    }
}

fn is_package(word: &str) -> bool {
    let extension = Path::new(word).extension();
    extension.is_some_and(|extension| extension == "deb")
}

fn is_made_of(part: &str, extra: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || extra.contains(c);
    !part.is_empty() && part.chars().all(is_allowed)
}

fn is_version(text: &str) -> bool {
    is_made_of(text, ".+~-*?_")
}

fn debian(rest: &str) -> Result<KernelRef, String> {
    match rest.split_once('/') {
        Some((suite, version)) if is_made_of(suite, "-") && is_version(version) => {
            Ok(KernelRef::Debian {
                suite: suite.into(),
                version: version.into(),
            })
        }
        _ => Err(format!("not a Debian suite and version: {rest:?}")),
    }
}

impl KernelRef {
    /// An image or a built tree.
    pub fn path(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self::Path {
            path,
            modules: None,
        }
    }

    /// Resolves its relative paths against `base`, the plan file's directory.
    pub(crate) fn resolved(self, base: &Path) -> Self {
        match self {
            Self::Packages(files) => {
                Self::Packages(files.iter().map(|file| base.join(file)).collect())
            }
            Self::Path { path, modules } => Self::Path {
                path: base.join(path),
                modules,
            },
            Self::Version(_) | Self::Debian { .. } | Self::Running | Self::Remote(_) => self,
        }
    }
}

impl fmt::Display for KernelRef {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => out.write_str(version),
            Self::Debian { suite, version } => write!(out, "debian:{suite}/{version}"),
            Self::Packages(files) => {
                let names = files.iter().map(|file| file.display().to_string());
                out.write_str(&names.collect::<Vec<_>>().join(" "))
            }
            Self::Path { path, .. } => path.display().fmt(out),
            Self::Running => out.write_str("running"),
            Self::Remote(target) => out.write_str(&target.url),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, want: &str) {
        let got = match read(text, None) {
            Ok(kernel) => kernel.to_string(),
            Err(why) => why,
        };
        assert_eq!(got, want);
    }

    #[test]
    fn every_form_is_shown_as_it_was_read() {
        check("debian:trixie-backports/7.2", "debian:trixie-backports/7.2");
        check("6.1", "6.1");
        check("6.12.*", "6.12.*");
        check("./a.deb b.deb", "./a.deb b.deb");
        check("/boot/vmlinuz-6.1", "/boot/vmlinuz-6.1");
        check("./linux", "./linux");
        check("running", "running");
    }

    #[test]
    fn wrong_forms_are_refused() {
        check("bzImage", "neither a version nor a path: \"bzImage\"");
        check("", "neither a version nor a path: \"\"");
        check("6.1 7.2", "neither a version nor a path: \"6.1 7.2\"");
        check(
            "debian:bookworm",
            "not a Debian suite and version: \"bookworm\"",
        );
        check(
            "debian:../x/6.1",
            "not a Debian suite and version: \"../x/6.1\"",
        );
        let modules = read("6.1", Some("modules".into()));
        let want = "modules given for a kernel that brings its own: \"6.1\"";
        assert_eq!(modules.unwrap_err(), want);
    }
}
