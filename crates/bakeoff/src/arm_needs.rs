//! Checks before anything boots that this build, the image and the kernel have what arms need for their scheduler and their
//! file system.

mod file_system;

use anyhow::{Result, bail};
use base::input::problem::{Problem, Problems};
use guest::schedulers::Lack;
use machine::cache::Cache;
use machine::flavour::Flavour;
use machine::image::Image;
use machine::kernel;
use machine::kernel::Kernel;
use plan::{Arm, Plan};

/// Refuses arms that cannot run, as far as the cache shows that.
pub(crate) fn check_arms(file: &str, plan: &Plan) -> Result<(), Problems> {
    let cache = Cache::of_user().map(|cache| cache.of_arch(plan.machine.arch));
    check_arms_with(cache.as_ref().ok(), file, plan)
}

fn check_arms_with(cache: Option<&Cache>, file: &str, plan: &Plan) -> Result<(), Problems> {
    let mut problems = Vec::new();
    for arm in &plan.arms {
        let image_lack = cache.and_then(|cache| file_system::recipe_lacks(cache, plan, arm));
        let build_lack = arm
            .tuning
            .scheduler
            .and_then(|_| guest::schedulers::build_lacks());
        let needs_kernel = arm.tuning.scheduler.is_some() || arm.tuning.file_system.is_some();
        let [scheduler_lack, file_system_lack] = cache
            .filter(|_| needs_kernel)
            .and_then(|cache| kernel::known(cache, &arm.kernel, Flavour::Cloud))
            .map_or([None, None], |(release, config)| {
                kernel_lacks(arm, &release, &config)
            });
        let lacks = [image_lack, build_lack.or(scheduler_lack), file_system_lack];
        problems.extend(lacks.into_iter().flatten().map(|lack| Problem {
            file: file.into(),
            line: arm.line,
            what: format!("arm {}: {}", arm.name, lack.what),
            remedy: lack.remedy,
        }));
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Problems(problems))
    }
}

/// Refuses a fetched kernel that lacks what an arm needs.
pub(crate) fn check_kernel(arm: &Arm, kernel: &Kernel) -> Result<()> {
    let known = kernel.configuration();
    let lacks = known.map(|(release, config)| kernel_lacks(arm, &release, &config));
    match lacks.into_iter().flatten().flatten().next() {
        Some(Lack { what, remedy }) => bail!("{what} ({remedy})"),
        None => Ok(()),
    }
}

/// Refuses a built image that lacks what an arm needs.
pub(crate) fn check_image(arm: &Arm, title: &str, image: &Image) -> Result<()> {
    match file_system::package(arm) {
        Some(package) if !image.has(package)? => {
            let Lack { what, remedy } = file_system::image_lacks(title, package);
            bail!("arm {}: {what} ({remedy})", arm.name)
        }
        Some(_) | None => Ok(()),
    }
}

/// What a kernel lacks for an arm's scheduler and for its file system.
fn kernel_lacks(arm: &Arm, release: &str, config: &str) -> [Option<Lack>; 2] {
    let scheduler = arm.tuning.scheduler;
    [
        scheduler.and_then(|_| guest::schedulers::kernel_lacks(release, config)),
        file_system::kernel_lacks(arm, release, config),
    ]
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use plan::{Checks, Scheduler};

    use super::*;

    #[test]
    fn a_kernel_that_was_fetched_is_refused_before_it_boots() {
        let text = "title = \"t\"\nbaseline = \"a\"\n[image]\nrecipe = \"web\"\n[arm.a]\nkernel = \"debian:sid/6\"\n\
                    [arm.b]\nkernel = \"debian:sid/7\"\n[[workload]]\nkind = \"threads\"\n";
        let checks = Checks::of_the_past(&workload::check);
        let mut plan = plan::read("plan.toml", text, Path::new(""), checks).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("config");
        fs::write(&config, "CONFIG_SCHED_CLASS_EXT=y\n").unwrap();
        let mut kernel = Kernel {
            release: "6.12.9".into(),
            package: "test".into(),
            vmlinuz: "vmlinuz".into(),
            modules: None,
            config: None,
            sha256: "00".into(),
        };
        let check =
            |arm: &Arm, kernel: &Kernel| check_kernel(arm, kernel).map_err(|why| why.to_string());
        // An arm without a scheduler needs nothing.
        assert_eq!(check(&plan.arms[0], &kernel), Ok(()));
        plan.arms[0].tuning.scheduler = Some(Scheduler::O1);
        // If the kernel's configuration is unknown, the guest will report what is missing.
        assert_eq!(check(&plan.arms[0], &kernel), Ok(()));
        kernel.config = Some(config.clone());
        let why = check(&plan.arms[0], &kernel).unwrap_err();
        let what =
            "scheduler on a kernel without the function scx_bpf_task_set_slice: 6.12.9 (take";
        assert!(why.starts_with(what), "{why}");
        kernel.release = "7.2.12+deb13-cloud-amd64".into();
        assert_eq!(check(&plan.arms[0], &kernel), Ok(()));
        fs::write(&config, "CONFIG_X=y\n").unwrap();
        let why = check(&plan.arms[0], &kernel).unwrap_err();
        let what = "scheduler on a kernel without CONFIG_SCHED_CLASS_EXT: 7.2.12+deb13-cloud-amd64";
        assert!(why.starts_with(what), "{why}");
    }
}
