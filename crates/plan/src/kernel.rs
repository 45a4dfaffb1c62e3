//! Names of kernels in a plan.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::target::Target;

/// Where an arm's kernel comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KernelRef {
    /// `debian:SUITE/VERSION-OR-GLOB`: the newest match by Debian's version order.
    Debian {
        /// `bookworm`, `trixie-backports`, `sid`, ...
        suite: String,
        /// `6.1`, `6.12.*`, `7.2.3-1`; a prefix matches whole components.
        version: String,
    },
    /// `deb:FILE...`: package files, separated by white space.
    Deb(Vec<PathBuf>),
    /// `file:VMLINUZ`, with modules from a directory that contains `modules.dep`.
    File {
        /// The bootable image.
        vmlinuz: PathBuf,
        /// The directory `lib/modules/VERSION`, if the kernel has modules.
        modules: Option<PathBuf>,
    },
    /// `tree:DIR`: a kernel source tree that was built.
    Tree(PathBuf),
    /// `running`: the kernel that is running on the machine (`local`).
    Running,
    /// The unknown kernel of a system on the network, named by its address.
    Remote(Box<Target>),
}

/// Forms of a kernel's name, for messages.
pub const FORMS: &str = "write debian:SUITE/VERSION, deb:FILE..., file:VMLINUZ or tree:DIR";

/// Reads a kernel's name. Only `file:` may have `modules`. Relative paths stay relative.
pub fn read(text: &str, modules: Option<PathBuf>) -> Result<KernelRef, String> {
    let (scheme, rest) = text.split_once(':').unwrap_or((text, ""));
    let kernel = match (scheme, rest) {
        ("running", "") => KernelRef::Running,
        ("debian", rest) => debian(rest)?,
        ("deb" | "file" | "tree", "") => return Err(format!("kernel without a path: {text:?}")),
        ("deb", files) => KernelRef::Deb(files.split_whitespace().map(PathBuf::from).collect()),
        ("tree", dir) => KernelRef::Tree(dir.into()),
        ("file", vmlinuz) => {
            return Ok(KernelRef::File {
                vmlinuz: vmlinuz.into(),
                modules,
            });
        }
        _ => return Err(format!("unknown kind of kernel: {text:?}")),
    };
    match modules {
        None => Ok(kernel),
        Some(_) => Err(format!(
            "modules given for a kernel that brings its own: {text:?}"
        )),
    }
}

fn debian(rest: &str) -> Result<KernelRef, String> {
    let is_valid = |part: &str, extra: &str| {
        !part.is_empty()
            && part
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || extra.contains(c))
    };
    match rest.split_once('/') {
        Some((suite, version)) if is_valid(suite, "-") && is_valid(version, ".+~-*?_") => {
            Ok(KernelRef::Debian {
                suite: suite.into(),
                version: version.into(),
            })
        }
        _ => Err(format!("not a Debian suite and version: {rest:?}")),
    }
}

impl KernelRef {
    /// Resolves its relative paths against `base`, the plan file's directory.
    pub(crate) fn resolved(self, base: &Path) -> Self {
        match self {
            Self::Deb(files) => Self::Deb(files.iter().map(|file| base.join(file)).collect()),
            Self::File { vmlinuz, modules } => Self::File {
                vmlinuz: base.join(vmlinuz),
                modules,
            },
            Self::Tree(dir) => Self::Tree(base.join(dir)),
            Self::Debian { .. } | Self::Running | Self::Remote(_) => self,
        }
    }
}

impl fmt::Display for KernelRef {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Debian { suite, version } => write!(out, "debian:{suite}/{version}"),
            Self::Deb(files) => {
                let names: Vec<_> = files
                    .iter()
                    .map(|file| file.display().to_string())
                    .collect();
                write!(out, "deb:{}", names.join(" "))
            }
            Self::File { vmlinuz, .. } => write!(out, "file:{}", vmlinuz.display()),
            Self::Tree(dir) => write!(out, "tree:{}", dir.display()),
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
        check("deb:a.deb b.deb", "deb:a.deb b.deb");
        check("file:/boot/vmlinuz", "file:/boot/vmlinuz");
        check("tree:linux", "tree:linux");
        check("running", "running");
    }

    #[test]
    fn wrong_forms_are_refused() {
        check("6.1", "unknown kind of kernel: \"6.1\"");
        check(
            "debian:bookworm",
            "not a Debian suite and version: \"bookworm\"",
        );
        check(
            "debian:../x/6.1",
            "not a Debian suite and version: \"../x/6.1\"",
        );
        check("deb:", "kernel without a path: \"deb:\"");
    }
}
