//! Which kernels can run these schedulers, by what is known of a kernel before it boots.

/// The oldest version of Linux with all functions of the kernel that the schedulers call.
pub const OLDEST: (u32, u32) = (6, 19);

/// The youngest of these functions, which came with that version.
pub const NEWEST_KFUNC: &str = "scx_bpf_task_set_slice";

/// The option that kernels with `sched_ext` are built with.
const OPTION: &str = "CONFIG_SCHED_CLASS_EXT";

/// What is missing for an arm's scheduler, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// A lowercase fragment with the value last.
    pub what: String,
    /// What to take instead.
    pub remedy: String,
}

/// What this build lacks, if anything.
pub fn build_lacks() -> Option<Lack> {
    let lack = || Lack {
        what: "scheduler, of which this bakeoff was built without any".into(),
        remedy: "install clang, and build it again".into(),
    };
    (!crate::schedulers::IS_BUILT).then(lack)
}

/// What a kernel lacks, if anything, by its release (`7.2.12+deb13-cloud-amd64`) and its configuration.
pub fn kernel_lacks(release: &str, config: &str) -> Option<Lack> {
    let (major, minor) = OLDEST;
    let missing = if !config.lines().any(|line| line == format!("{OPTION}=y")) {
        OPTION.into()
    } else if version(release).is_none_or(|version| version < OLDEST) {
        format!("the function {NEWEST_KFUNC}")
    } else {
        return None;
    };
    Some(Lack {
        what: format!("scheduler on a kernel without {missing}: {release}"),
        remedy: format!(
            "take one of {major}.{minor} or later that has it, such as debian:trixie-backports/7.2"
        ),
    })
}

/// The first two numbers of a release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let major = numbers.next()?.parse().ok()?;
    Some((major, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_cannot_are_told_what_they_lack() {
        let with = "CONFIG_X=y\nCONFIG_SCHED_CLASS_EXT=y\n";
        let without = "# CONFIG_SCHED_CLASS_EXT is not set\n";
        let lacking = |release, config| kernel_lacks(release, config).map(|lack| lack.what);
        for fine in ["6.19.0", "6.19-rc1", "7.2.12+deb13-cloud-amd64", "10.0"] {
            assert_eq!(lacking(fine, with), None);
        }
        for (release, config, missing) in [
            ("6.12.95", without, "CONFIG_SCHED_CLASS_EXT"),
            ("7.2.12", without, "CONFIG_SCHED_CLASS_EXT"),
            ("6.18.5", with, "the function scx_bpf_task_set_slice"),
            ("6.2.0", with, "the function scx_bpf_task_set_slice"),
            ("5.19.1", with, "the function scx_bpf_task_set_slice"),
            ("next", with, "the function scx_bpf_task_set_slice"),
        ] {
            let what = format!("scheduler on a kernel without {missing}: {release}");
            assert_eq!(lacking(release, config), Some(what));
        }
    }
}
