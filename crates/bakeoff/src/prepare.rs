//! From a valid plan to a machine that its arms boot on: kernels, image, initramfs, acceleration.
//!
//! Everything is taken from the cache where it is there, so a second run needs no network.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail};
use machine::cache::{self, Cache};
use machine::guest::Machine;
use machine::image::{self, Image};
use machine::initramfs;
use machine::kernel::{self, Kernel};
use machine::kvm::{self, Kvm};
use machine::qemu::{self, BootFiles, Qemu};
use machine::task::{Progress, Task};
use record::VERSION;
use record::journal::{self, Opening};
use record::plan::{Clock, Plan, WorkloadPlan};
use record::rundir::sha256;
use record::wire::WorkloadJob;

use crate::show::Show;

/// A machine ready to boot, and what the run stands on.
pub struct Prepared {
    /// The machine.
    pub machine: Qemu,
    inputs: BTreeMap<String, String>,
}

impl Prepared {
    /// The journal's first entry.
    pub fn opening(&self, plan_text: &str) -> Opening {
        let mut inputs = self.inputs.clone();
        inputs.insert("plan".into(), sha256(plan_text.as_bytes()));
        Opening {
            version: journal::VERSION,
            bakeoff: VERSION.into(),
            inputs,
            machine: self.machine.describe(),
            ns_per_instruction: self.machine.ns_per_instruction(),
        }
    }
}

/// Fetches, builds and probes what the plan needs; `file` is where the user finds it.
pub fn prepare(
    (plan, file): (&Plan, &Path),
    refresh: bool,
    show: &Show,
    stop: &AtomicBool,
) -> Result<Prepared> {
    let tell = |progress: Progress<'_>| show.step(progress.what, progress.share);
    let task = Task { tell: &tell, stop };
    let cache = Cache::open(&Cache::of_user()?);
    let program = qemu::find(task)?;
    let kernels = fetch_kernels((plan, file), &cache, refresh, show, task)?;
    let image = build_image(plan, &cache, refresh, show, task)?;
    let init = std::env::current_exe().context("cannot find bakeoff's own binary")?;
    let mut arms = BTreeMap::new();
    for (arm, kernel) in plan.arms.iter().zip(&kernels) {
        let initramfs = initramfs::build(&cache, kernel, &init, task)?;
        let cmdline = arm.cmdline.clone();
        arms.insert(
            arm.name.clone(),
            BootFiles {
                kernel: kernel.vmlinuz.clone(),
                initramfs,
                cmdline,
            },
        );
    }
    // Every kernel must come up under KVM for KVM to be of use; the baseline stands for all of them.
    let kvm = match plan.machine.clock {
        Clock::Instructions => Kvm::Unusable("counting instructions needs emulation".into()),
        Clock::Auto | Clock::Wall => {
            kvm::probe(&cache, &program, &arms[&plan.baseline], refresh, task)?
        }
    };
    let hardware = qemu::settle(&plan.machine, &program, &kvm);
    let inputs = inputs(plan, &kernels, &image, &init)?;
    Ok(Prepared {
        machine: Qemu::new(hardware, Some(image.path), arms),
        inputs,
    })
}

fn fetch_kernels(
    (plan, file): (&Plan, &Path),
    cache: &Cache,
    refresh: bool,
    show: &Show,
    task: Task<'_>,
) -> Result<Vec<Kernel>> {
    let mut kernels = Vec::new();
    for arm in &plan.arms {
        let kernel = kernel::fetch(cache, &arm.kernel, refresh, task)
            .with_context(|| format!("{}:{}: arm {}", file.display(), arm.line, arm.name))?;
        show.line(&format!(
            "arm {}: {} ({})",
            arm.name, kernel.release, kernel.package
        ));
        kernels.push(kernel);
    }
    Ok(kernels)
}

fn build_image(
    plan: &Plan,
    cache: &Cache,
    refresh: bool,
    show: &Show,
    task: Task<'_>,
) -> Result<Image> {
    let image = image::build(cache, &plan.image, refresh, task)?;
    for workload in &plan.workloads {
        refuse_lacks(&image, workload, &plan.image)?;
    }
    let size = record::units::show_bytes(image.bytes);
    show.line(&format!(
        "image {}: {size}, {:.12}",
        image.recipe, image.sha256
    ));
    Ok(image)
}

/// Refuses an image that lacks what a workload serves with.
fn refuse_lacks(image: &Image, workload: &WorkloadPlan, recipe: &str) -> Result<()> {
    let job = WorkloadJob {
        kind: workload.kind.clone(),
        options: workload.options.clone(),
    };
    let mut lacking = Vec::new();
    for package in workload::revive(&job)?.packages() {
        if !image.has(package)? {
            lacking.push(package);
        }
    }
    if !lacking.is_empty() {
        bail!(
            "image {recipe:?} lacks what workload {} needs: {} (name another recipe, or add them)",
            workload.id,
            lacking.join(", ")
        );
    }
    Ok(())
}

/// What the run stands on; a run that goes on must find the same.
fn inputs(
    plan: &Plan,
    kernels: &[Kernel],
    image: &Image,
    init: &Path,
) -> Result<BTreeMap<String, String>> {
    let mut inputs = BTreeMap::new();
    for (arm, kernel) in plan.arms.iter().zip(kernels) {
        inputs.insert(format!("kernel of arm {}", arm.name), kernel.sha256.clone());
    }
    inputs.insert("image".into(), image.sha256.clone());
    inputs.insert("bakeoff's binary".into(), cache::hash_file(init)?);
    Ok(inputs)
}
