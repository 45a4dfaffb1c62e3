//! Checks for the file system of the workload's disk: the image must have its tools, and the kernel its driver.

use guest::schedulers::Lack;
use machine::cache::Cache;
use machine::image;
use plan::{Arm, FileSystem, MachineKind, Plan};

use crate::prepare::request;

/// What an arm's kernel lacks for its file system.
pub(super) fn kernel_lacks(arm: &Arm, release: &str, config: &str) -> Option<Lack> {
    let option = arm.tuning.file_system?.kernel_option();
    let enabled = ["y", "m"].map(|value| format!("{option}={value}"));
    let is_enabled = config
        .lines()
        .any(|line| enabled.iter().any(|setting| setting == line));
    (!is_enabled).then(|| Lack {
        what: format!("file_system on a kernel without {option}: {release}"),
        remedy: "name a kernel that has it, or another file system".into(),
    })
}

/// What an arm's image will lack, as far as its recipe shows that.
pub(super) fn recipe_lacks(cache: &Cache, plan: &Plan, arm: &Arm) -> Option<Lack> {
    if plan.machine.kind != MachineKind::Qemu {
        return None;
    }
    let package = package(arm)?;
    let recipe = &plan.image.as_ref()?.recipe;
    // Errors of a recipe are reported when it is read.
    let has = image::will_have(cache, request(plan, false), package).ok()?;
    (has == Some(false)).then(|| image_lacks(&format!("image {recipe:?}"), package))
}

/// The package that makes an arm's file system; `None` if every image has it.
pub(super) fn package(arm: &Arm) -> Option<&'static str> {
    let file_system = arm.tuning.file_system?;
    (file_system != FileSystem::default()).then(|| file_system.package())
}

pub(super) fn image_lacks(image: &str, package: &str) -> Lack {
    Lack {
        what: format!("{image} lacks what makes the file system: {package}"),
        remedy: "write recipe = \"tools\", or name another image".into(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use expect_test::{Expect, expect};
    use plan::Checks;

    use super::*;
    use crate::arm_needs::check_arms_with;
    use crate::prepare::disk_bytes;

    /// A plan with two arms, the second one with the file system.
    fn plan(recipe: &str, kernel: &str, file_system: &str, workload: &str) -> Plan {
        let text = format!(
            "title = \"t\"\nbaseline = \"a\"\n[image]\nrecipe = \"{recipe}\"\n[arm.a]\nkernel = \"{kernel}\"\n\
             [arm.b]\nkernel = \"{kernel}\"\nfile_system = \"{file_system}\"\n[[workload]]\nkind = \"{workload}\"\n"
        );
        let checks = Checks::of_the_past(&workload::check);
        plan::read("plan.toml", &text, Path::new(""), checks).unwrap()
    }

    /// Checks the message for such a plan.
    fn check(recipe: &str, kernel: &str, file_system: &str, want: &Expect) {
        let plan = plan(recipe, kernel, file_system, "io-mix");
        let dir = tempfile::tempdir().unwrap();
        let checked = check_arms_with(Some(&Cache::open(dir.path())), "plan.toml", &plan);
        want.assert_eq(&checked.map_or_else(|why| why.to_string(), |()| "good".into()));
    }

    #[test]
    fn an_image_without_the_tools_is_refused_before_it_is_built() {
        let kernel = "debian:sid/6";
        check(
            "web",
            kernel,
            "jfs",
            &expect![[
                r#"plan.toml:8: arm b: image "web" lacks what makes the file system: jfsutils (write recipe = "tools", or name another image)"#
            ]],
        );
        check("smb+tools", kernel, "xfs", &expect!["good"]);
        check("web", kernel, "ext4", &expect!["good"]);
    }

    #[test]
    fn any_file_system_without_a_disk_is_refused() {
        for file_system in ["ext4", "xfs"] {
            let plan = plan("tools", "debian:sid/6", file_system, "threads");
            let why = disk_bytes(&plan).unwrap_err().to_string();
            let what = "file_system in arm b but no workload with a disk to itself";
            assert!(why.contains(what), "{file_system}: {why}");
        }
    }

    #[test]
    fn a_users_recipe_may_have_packages_that_it_does_not_list() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mine.toml");
        fs::write(&path, "suite = \"trixie\"\npackages = [\"fio\"]\n").unwrap();
        let recipe = path.to_string_lossy();
        check(&recipe, "debian:sid/6", "btrfs", &expect!["good"]);
    }

    #[test]
    fn a_kernel_without_the_file_system_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("linux");
        fs::create_dir_all(tree.join("include/config")).unwrap();
        fs::write(tree.join("include/config/kernel.release"), "7.2.0\n").unwrap();
        let config = "# CONFIG_JFS_FS is not set\nCONFIG_XFS_FS=m\nCONFIG_EXT4_FS=y\n";
        fs::write(tree.join(".config"), config).unwrap();
        let kernel = tree.display().to_string();
        check(
            "tools",
            &kernel,
            "jfs",
            &expect![
                "plan.toml:8: arm b: file_system on a kernel without CONFIG_JFS_FS: 7.2.0 (name a kernel that has it, or another file system)"
            ],
        );
        check("tools", &kernel, "xfs", &expect!["good"]);
        check("tools", &kernel, "ext4", &expect!["good"]);
    }
}
