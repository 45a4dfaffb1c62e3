//! The series of kernels that Debian's suites offer between two versions, oldest first.

use std::cmp::Ordering;

use anyhow::{Result, bail};

use crate::apt::Suite;
use crate::cache::Cache;
use crate::debian;
use crate::debian::Choice;
use crate::flavour::Flavour;
use crate::kernel::{Kernel, LOOKUP_ORDER, cached};
use crate::task::Task;

/// A kernel of the series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offered {
    /// Its version as kernel.org counts: `6.12.107`.
    pub version: String,
    /// What `uname -r` will say.
    pub release: String,
    /// Its name in a plan.
    pub kernel: String,
    /// Size of its download, in bytes; 0 if it is in the cache.
    pub bytes: u64,
}

/// An end of the series: the version or its beginning as typed, and the suite that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End<'e> {
    /// As it was typed.
    pub version: &'e str,
    /// From `kernel::locate`, so that a version means the same kernel in all commands.
    pub suite: &'e str,
}

/// Which versions between the ends to include.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Density {
    /// The oldest and the newest of each series, as 6.12 is one.
    Series,
    /// All.
    All,
}

/// The versions from `ends[0]` to `ends[1]`. Fetches missing indexes, or all of them with `refresh`.
pub fn range(
    cache: &Cache,
    ends: [End<'_>; 2],
    density: Density,
    refresh: bool,
    task: Task<'_>,
) -> Result<Vec<Offered>> {
    let mut all: Vec<(&str, Choice)> = Vec::new();
    for suite in LOOKUP_ORDER {
        let _lock = cache.lock(&format!("apt {suite}"), task)?;
        let index = Suite::open(cache, suite, refresh, task)?;
        task.tell("looking for kernels", None);
        let kernels = debian::kernels(&index.packages(&debian::PREFIXES, task)?, cache.arch());
        all.extend(kernels.into_iter().map(|kernel| (suite, kernel)));
    }
    let mut versions = between(&all, ends, density)?;
    // A kernel may have been fetched by another name of the same package.
    let kernels = cached(cache);
    for offer in &mut versions {
        let version = offer.kernel.rsplit('/').next().unwrap_or_default();
        let is_it = |kernel: &Kernel| {
            kernel.release == offer.release && kernel.package.ends_with(&format!(" {version}"))
        };
        if kernels.iter().any(|(kernel, _)| is_it(kernel)) {
            offer.bytes = 0;
        }
    }
    Ok(versions)
}

fn between(
    all: &[(&'static str, Choice)],
    ends: [End<'_>; 2],
    density: Density,
) -> Result<Vec<Offered>> {
    let mut places = Vec::new();
    for End { version, suite } in ends {
        let of_suite = all.iter().filter(|(other, _)| *other == suite);
        let kernels: Vec<Choice> = of_suite.map(|(_, kernel)| kernel.clone()).collect();
        places.push(debian::choose(&kernels, suite, version, Flavour::Cloud)?);
    }
    if by_version(&places[0], &places[1]) != Ordering::Less {
        bail!(
            "versions must rise: from {} to {} (put the older one behind --from)",
            upstream(&places[0]),
            upstream(&places[1])
        );
    }
    let is_between = |kernel: &Choice| {
        by_version(&places[0], kernel) != Ordering::Greater
            && by_version(kernel, &places[1]) != Ordering::Greater
    };
    let mut versions: Vec<(&str, &Choice)> = all
        .iter()
        .filter(|(_, kernel)| kernel.is_cloud() && is_between(kernel))
        .map(|(suite, kernel)| (*suite, kernel))
        .collect();
    // A stable sort: of equal versions, the first suite's is kept.
    versions.sort_by(|(_, a), (_, b)| by_version(a, b));
    versions.dedup_by(|(_, later), (_, kept)| upstream(later) == upstream(kept));
    let chosen = match density {
        Density::All => versions,
        Density::Series => ends_of_series(&versions),
    };
    Ok(chosen
        .into_iter()
        .map(|(suite, kernel)| offered(suite, kernel))
        .collect())
}

/// The first and the last of each series.
fn ends_of_series<'k>(versions: &[(&'k str, &'k Choice)]) -> Vec<(&'k str, &'k Choice)> {
    let series_of = |place: usize| {
        versions
            .get(place)
            .map(|(_, kernel)| series(upstream(kernel)))
    };
    let is_end = |place: &usize| {
        *place == 0
            || series_of(*place) != series_of(*place - 1)
            || series_of(*place) != series_of(*place + 1)
    };
    (0..versions.len())
        .filter(is_end)
        .map(|place| versions[place])
        .collect()
}

fn offered(suite: &str, kernel: &Choice) -> Offered {
    Offered {
        version: upstream(kernel).into(),
        release: kernel.release.clone(),
        kernel: format!("debian:{suite}/{}", kernel.version()),
        bytes: kernel.parts.iter().map(|part| part.bytes).sum(),
    }
}

/// `6.12.95` of `6.12.95-1~bpo12+1`.
fn upstream(kernel: &Choice) -> &str {
    kernel.version().split('-').next().unwrap_or_default()
}

/// `6.12` of `6.12.95`.
fn series(version: &str) -> &str {
    match version.match_indices('.').nth(1) {
        Some((end, _)) => &version[..end],
        None => version,
    }
}

fn by_version(a: &Choice, b: &Choice) -> Ordering {
    deb_version::compare_versions(upstream(a), upstream(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apt::Package;

    fn choice(version: &str, release: &str) -> Choice {
        let package = Package {
            name: format!("linux-image-{release}"),
            version: version.into(),
            depends: String::new(),
            sha256: String::new(),
            bytes: 0,
            installed_bytes: 0,
        };
        Choice {
            release: release.into(),
            parts: vec![package],
        }
    }

    fn all() -> Vec<(&'static str, Choice)> {
        let offer = |suite, version: &str| {
            let upstream = version.split('-').next().unwrap_or_default();
            (suite, choice(version, &format!("{upstream}-cloud-amd64")))
        };
        vec![
            offer("trixie", "6.12.107-1"),
            offer("bookworm", "6.1.176-1"),
            offer("bookworm", "6.1.170-3"),
            offer("trixie-backports", "7.2.12-1~bpo13+1"),
            offer("trixie-backports", "7.2.6-1~bpo13+1"),
            offer("trixie-backports", "7.2.9-1~bpo13+1"),
            offer("trixie-backports", "6.17.8-1~bpo13+1"),
            offer("bookworm-backports", "6.12.107-1~bpo12+1"),
            offer("sid", "7.2.12-1"),
            ("sid", choice("7.2.12-1", "7.2.12-amd64")),
        ]
    }

    /// The versions from one of bookworm to one of another suite.
    fn range(ends: [&str; 2], suite: &str, density: Density) -> Result<Vec<Offered>> {
        let suites = ["bookworm", suite];
        let end = |place: usize| End {
            version: ends[place],
            suite: suites[place],
        };
        between(&all(), [end(0), end(1)], density)
    }

    fn versions(ends: [&str; 2], suite: &str, density: Density) -> Vec<String> {
        let versions = range(ends, suite, density).unwrap();
        versions.into_iter().map(|offer| offer.kernel).collect()
    }

    #[test]
    fn versions_rise_and_each_stands_once() {
        assert_eq!(
            versions(["6.1", "7.2"], "trixie-backports", Density::All),
            [
                "debian:bookworm/6.1.176-1",
                "debian:trixie/6.12.107-1",
                "debian:trixie-backports/6.17.8-1~bpo13+1",
                "debian:trixie-backports/7.2.6-1~bpo13+1",
                "debian:trixie-backports/7.2.9-1~bpo13+1",
                "debian:trixie-backports/7.2.12-1~bpo13+1",
            ]
        );
        let suite = "trixie-backports";
        assert_eq!(versions(["6.1", "7.2"], suite, Density::Series).len(), 5);
        assert_eq!(
            versions(["6.1.170", "6.12"], "trixie", Density::All).len(),
            3
        );
    }

    #[test]
    fn an_end_is_the_kernel_of_its_suite_though_another_has_a_newer_one() {
        let mut all = all();
        all.push(("sid", choice("7.2.15-1", "7.2.15-cloud-amd64")));
        let ends = [("6.1", "bookworm"), ("7.2", "trixie-backports")];
        let ends = ends.map(|(version, suite)| End { version, suite });
        let versions = between(&all, ends, Density::All).unwrap();
        let last = versions.last().unwrap();
        assert_eq!(last.kernel, "debian:trixie-backports/7.2.12-1~bpo13+1");
    }

    #[test]
    fn ends_that_nobody_has_or_that_fall_are_refused() {
        let refused = |ends, suite| range(ends, suite, Density::All).unwrap_err().to_string();
        assert!(refused(["5.4", "7.2"], "sid").contains("5.4"));
        assert!(refused(["6.1.176", "6.1.170"], "bookworm").contains("must rise"));
        assert!(refused(["6.1", "6.1"], "bookworm").contains("must rise"));
    }
}
