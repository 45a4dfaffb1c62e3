//! The agent of guests: this program, built for their architecture.
//!
//! ```text
//! the host's architecture    this program
//! another one                bakeoff-ARCH beside it, else what make cross-ARCH has built
//! ```

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use base::arch::Arch;

/// The agent for guests of an architecture; `bakeoff` is the path of this program.
pub(crate) fn of(arch: Arch, bakeoff: &Path) -> Result<PathBuf> {
    if arch == Arch::HOST {
        return Ok(bakeoff.into());
    }
    let places = places(arch, bakeoff);
    let found = places.iter().find(|place| place.is_file());
    match found {
        Some(place) => Ok(place.clone()),
        None => bail!(
            "no agent for guests of {arch}: {} (run make cross-{} in bakeoff's clone, or put a bakeoff for {arch} there)",
            places[0].display(),
            arch.facts().debian()
        ),
    }
}

/// Where the agent may be: beside this program, and in cargo's directories of a clone.
fn places(arch: Arch, bakeoff: &Path) -> Vec<PathBuf> {
    let mut places = vec![bakeoff.with_file_name(format!("bakeoff-{arch}"))];
    // TARGET/HOST/PROFILE/bakeoff
    let mut parents = bakeoff.ancestors().skip(1);
    if let (Some(profile), Some(_), Some(target)) = (parents.next(), parents.next(), parents.next())
        && let Some(profile) = profile.file_name()
    {
        let cross = target.join(arch.facts().rust_target());
        places.push(cross.join(profile).join("bakeoff"));
    }
    places
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_agent_of_another_architecture_lies_beside_this_program_or_was_built_in_its_clone() {
        let arch = Arch::ALL.into_iter().find(|arch| *arch != Arch::HOST);
        let arch = arch.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let bakeoff = path("target/host/release/bakeoff");
        let beside = path(&format!("target/host/release/bakeoff-{arch}"));
        let cross = path(&format!(
            "target/{}/release/bakeoff",
            arch.facts().rust_target()
        ));
        assert_eq!(of(Arch::HOST, &bakeoff).unwrap(), bakeoff);
        let why = of(arch, &bakeoff).unwrap_err().to_string();
        assert!(
            why.contains(&format!("no agent for guests of {arch}")),
            "{why}"
        );
        for file in [&cross, &beside] {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
            assert_eq!(of(arch, &bakeoff).unwrap(), *file);
        }
    }
}
