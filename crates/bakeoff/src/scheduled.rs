//! Arms that bring a scheduler: what this build or their kernels lack for it, told before anything boots.

use anyhow::{Result, bail};
use input::problem::{Problem, Problems};
use machine::cache::Cache;
use machine::kernel::{self, Flavour, Kernel};
use plan::{Arm, Plan};
use schedulers::{Lack, build_lacks, kernel_lacks};

/// Refuses arms whose scheduler cannot run, as far as that is known of kernels that are at hand.
pub(crate) fn refuse(file: &str, plan: &Plan) -> Result<(), Problems> {
    let scheduled = plan
        .arms
        .iter()
        .filter(|arm| arm.tuning.scheduler.is_some());
    let cache = Cache::of_user().map(|root| Cache::open(&root));
    let of_kernel = |arm: &Arm| {
        let known = kernel::known(cache.as_ref().ok()?, &arm.kernel, Flavour::Cloud);
        let (release, config) = known?;
        kernel_lacks(&release, &config)
    };
    let problems: Vec<Problem> = scheduled
        .filter_map(|arm| {
            let Lack { what, remedy } = build_lacks().or_else(|| of_kernel(arm))?;
            Some(Problem {
                file: file.into(),
                line: arm.line,
                what: format!("arm {}: {what}", arm.name),
                remedy,
            })
        })
        .collect();
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Problems(problems))
    }
}

/// The same of a kernel that has just been fetched.
pub(crate) fn refuse_kernel(arm: &Arm, kernel: &Kernel) -> Result<()> {
    let known = kernel.configuration();
    let lack = known.and_then(|(release, config)| kernel_lacks(&release, &config));
    match lack.filter(|_| arm.tuning.scheduler.is_some()) {
        Some(Lack { what, remedy }) => bail!("{what} ({remedy})"),
        None => Ok(()),
    }
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
        let told =
            |arm: &Arm, kernel: &Kernel| refuse_kernel(arm, kernel).map_err(|why| why.to_string());
        // Who asks for none needs nothing.
        assert_eq!(told(&plan.arms[0], &kernel), Ok(()));
        plan.arms[0].tuning.scheduler = Some(Scheduler::O1);
        // Of a kernel without its configuration nobody knows; the guest will tell.
        assert_eq!(told(&plan.arms[0], &kernel), Ok(()));
        kernel.config = Some(config.clone());
        let why = told(&plan.arms[0], &kernel).unwrap_err();
        let what =
            "scheduler on a kernel without the function scx_bpf_task_set_slice: 6.12.9 (take";
        assert!(why.starts_with(what), "{why}");
        kernel.release = "7.2.12+deb13-cloud-amd64".into();
        assert_eq!(told(&plan.arms[0], &kernel), Ok(()));
        fs::write(&config, "CONFIG_X=y\n").unwrap();
        let why = told(&plan.arms[0], &kernel).unwrap_err();
        let what = "scheduler on a kernel without CONFIG_SCHED_CLASS_EXT: 7.2.12+deb13-cloud-amd64";
        assert!(why.starts_with(what), "{why}");
    }
}
