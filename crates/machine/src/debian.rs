//! Choosing a kernel among a suite's packages. Pure.
//!
//! Up to 6.18 a kernel is one package, `linux-image-RELEASE`. Then modules and image moved out of it, and
//! since 7.0 it only depends on `linux-binary-RELEASE`, `linux-modules-RELEASE` and `linux-base-RELEASE`.
//! Whatever the layout, the parts are the package itself and those of its dependencies that end in its
//! release.

use std::cmp::Ordering;

use anyhow::{Result, bail};
use base::arch::Arch;
use glob::Pattern;

use crate::apt::Package;
use crate::flavour::Flavour;

/// Index entries that may be kernels or parts of one.
pub(crate) const PREFIXES: [&str; 4] = [
    "linux-image-",
    "linux-binary-",
    "linux-modules-",
    "linux-base-",
];

/// What Debian builds for virtual machines: smaller, and with virtio. The architecture follows.
const CLOUD: &str = "-cloud-";

/// One kernel of a suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    /// What `uname -r` will say.
    pub(crate) release: String,
    /// The image package first, then its parts.
    pub(crate) parts: Vec<Package>,
}

impl Choice {
    pub(crate) fn version(&self) -> &str {
        &self.parts[0].version
    }

    pub(crate) fn is_cloud(&self) -> bool {
        self.release.contains(CLOUD)
    }

    fn matches(&self, wanted: &str) -> bool {
        [self.version(), &self.release]
            .iter()
            .any(|name| is_match(wanted, name))
    }
}

/// All kernels in an index, newest first, the cloud flavour before the general one.
pub(crate) fn kernels(packages: &[Package], arch: Arch) -> Vec<Choice> {
    let mut kernels: Vec<_> = packages
        .iter()
        .filter_map(|image| kernel(image, packages, arch))
        .collect();
    kernels.sort_by(newest_first);
    kernels
}

/// The newest kernel that matches, of the flavour that is wanted where there is one.
pub(crate) fn choose(
    kernels: &[Choice],
    suite: &str,
    wanted: &str,
    flavour: Flavour,
) -> Result<Choice> {
    let matching: Vec<_> = kernels
        .iter()
        .filter(|kernel| kernel.matches(wanted))
        .collect();
    let is_wanted = |kernel: &&&Choice| kernel.is_cloud() == (flavour == Flavour::Cloud);
    let chosen = matching.iter().find(is_wanted);
    if let Some(chosen) = chosen.or(matching.first()) {
        return Ok((*chosen).clone());
    }
    let mut known: Vec<_> = kernels.iter().map(Choice::version).collect();
    known.dedup();
    bail!(
        "no kernel {wanted:?} in {suite} (there are: {})",
        known.join(", ")
    );
}

fn kernel(image: &Package, packages: &[Package], arch: Arch) -> Option<Choice> {
    let release = image.name.strip_prefix("linux-image-")?;
    // Meta packages have no number; unsigned and debug packages do not end in the architecture.
    let real = release.starts_with(|c: char| c.is_ascii_digit())
        && release.ends_with(&format!("-{}", arch.facts().debian()))
        && !release.contains("-rt-");
    if !real {
        return None;
    }
    let mut parts = vec![image.clone()];
    for wanted in image.depends.split(',') {
        let name = wanted.trim().split([' ', '(']).next().unwrap_or_default();
        let is_part = name
            .strip_suffix(release)
            .is_some_and(|start| start.starts_with("linux-"));
        if is_part {
            let same = |part: &&Package| part.name == name && part.version == image.version;
            parts.push(packages.iter().find(same)?.clone());
        }
    }
    Some(Choice {
        release: release.into(),
        parts,
    })
}

fn newest_first(this: &Choice, other: &Choice) -> Ordering {
    deb_version::compare_versions(other.version(), this.version())
        .then_with(|| other.is_cloud().cmp(&this.is_cloud()))
        .then_with(|| this.release.cmp(&other.release))
}

/// A prefix matches whole components: `6.1` is `6.1.176-1` but not `6.12.95-1`. A pattern matches the whole.
fn is_match(wanted: &str, name: &str) -> bool {
    if wanted.contains(['*', '?']) {
        return Pattern::new(wanted).is_ok_and(|pattern| pattern.matches(name));
    }
    match name.strip_prefix(wanted) {
        Some(rest) => !rest.starts_with(|c: char| c.is_ascii_alphanumeric()),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn package(name: &str, version: &str, depends: &str) -> Package {
        Package {
            name: name.into(),
            version: version.into(),
            depends: depends.into(),
            sha256: String::new(),
            bytes: 1,
            installed_bytes: 1,
        }
    }

    fn suite() -> Vec<Package> {
        let kmod =
            "kmod, linux-base (>= 4.3~), initramfs-tools (>= 0.120+deb8u2) | linux-initramfs-tool";
        let split = "dracut | initramfs-tools, linux-base-7.2.9+deb13-cloud-amd64 (= 7.2.9-1~bpo13+1), \
            linux-binary-7.2.9+deb13-cloud-amd64 (= 7.2.9-1~bpo13+1), \
            linux-modules-7.2.9+deb13-cloud-amd64 (= 7.2.9-1~bpo13+1)";
        vec![
            package(
                "linux-image-amd64",
                "6.1.176-1",
                "linux-image-6.1.0-50-amd64 (= 6.1.176-1)",
            ),
            package("linux-image-6.1.0-47-cloud-amd64", "6.1.170-3", kmod),
            package("linux-image-6.1.0-50-cloud-amd64", "6.1.176-1", kmod),
            package(
                "linux-image-6.1.0-50-cloud-amd64-unsigned",
                "6.1.176-1",
                kmod,
            ),
            package("linux-image-6.1.0-50-amd64", "6.1.176-1", kmod),
            package("linux-image-6.1.0-50-rt-amd64", "6.1.176-1", kmod),
            package("linux-image-6.12.95+deb12-amd64", "6.12.95-1~bpo12+1", kmod),
            package(
                "linux-image-7.2.9+deb13-cloud-amd64",
                "7.2.9-1~bpo13+1",
                split,
            ),
            package("linux-base-7.2.9+deb13-cloud-amd64", "7.2.9-1~bpo13+1", ""),
            package(
                "linux-binary-7.2.9+deb13-cloud-amd64",
                "7.2.9-1~bpo13+1",
                "",
            ),
            package(
                "linux-modules-7.2.9+deb13-cloud-amd64",
                "7.2.9-1~bpo13+1",
                "kmod",
            ),
            package(
                "linux-image-7.3.1+deb13-cloud-amd64",
                "7.3.1-1",
                "linux-modules-7.3.1+deb13-cloud-amd64",
            ),
        ]
    }

    fn check(wanted: &str, want: &Expect) {
        check_flavour(wanted, Flavour::Cloud, want);
    }

    fn check_flavour(wanted: &str, flavour: Flavour, want: &Expect) {
        let got = match choose(
            &kernels(&suite(), Arch::X86_64),
            "bookworm",
            wanted,
            flavour,
        ) {
            Ok(choice) => {
                let names: Vec<_> = choice.parts.iter().map(|part| part.name.as_str()).collect();
                format!("{} {}", choice.release, names.join(" "))
            }
            Err(why) => why.to_string(),
        };
        want.assert_eq(&got);
    }

    #[test]
    fn the_newest_match_is_chosen_and_a_prefix_is_not_a_substring() {
        check(
            "6.1",
            &expect!["6.1.0-50-cloud-amd64 linux-image-6.1.0-50-cloud-amd64"],
        );
        check(
            "6.1.170",
            &expect!["6.1.0-47-cloud-amd64 linux-image-6.1.0-47-cloud-amd64"],
        );
        check(
            "6.1.0-47",
            &expect!["6.1.0-47-cloud-amd64 linux-image-6.1.0-47-cloud-amd64"],
        );
        check(
            "6.1.*-3",
            &expect!["6.1.0-47-cloud-amd64 linux-image-6.1.0-47-cloud-amd64"],
        );
    }

    #[test]
    fn the_general_flavour_is_taken_where_there_is_no_other_or_when_it_is_named() {
        check(
            "6.12",
            &expect!["6.12.95+deb12-amd64 linux-image-6.12.95+deb12-amd64"],
        );
        check(
            "6.1.0-50-amd64",
            &expect!["6.1.0-50-amd64 linux-image-6.1.0-50-amd64"],
        );
    }

    #[test]
    fn hardware_gets_the_general_flavour_of_the_newest_version() {
        check_flavour(
            "6.1",
            Flavour::General,
            &expect!["6.1.0-50-amd64 linux-image-6.1.0-50-amd64"],
        );
        check_flavour(
            "6.1.0-47",
            Flavour::General,
            &expect!["6.1.0-47-cloud-amd64 linux-image-6.1.0-47-cloud-amd64"],
        );
    }

    #[test]
    fn a_split_kernel_comes_with_its_parts() {
        check(
            "7",
            &expect![[
                "7.2.9+deb13-cloud-amd64 linux-image-7.2.9+deb13-cloud-amd64 linux-base-7.2.9+deb13-cloud-amd64 linux-binary-7.2.9+deb13-cloud-amd64 linux-modules-7.2.9+deb13-cloud-amd64"
            ]],
        );
    }

    #[test]
    fn a_kernel_whose_parts_are_missing_is_not_offered() {
        let kernels = kernels(&suite(), Arch::X86_64);
        assert!(
            kernels
                .iter()
                .all(|kernel| !kernel.release.starts_with("7.3"))
        );
    }

    #[test]
    fn what_there_is_is_told_when_nothing_matches() {
        check(
            "5.10",
            &expect![[
                r#"no kernel "5.10" in bookworm (there are: 7.2.9-1~bpo13+1, 6.12.95-1~bpo12+1, 6.1.176-1, 6.1.170-3)"#
            ]],
        );
    }

    #[test]
    fn backports_are_older_than_what_they_are_made_from() {
        let order = deb_version::compare_versions("7.2.12-1~bpo13+1", "7.2.12-1");
        assert_eq!(order, Ordering::Less);
        assert_eq!(
            deb_version::compare_versions("6.1.99-1", "6.1.176-1"),
            Ordering::Less
        );
    }
}
