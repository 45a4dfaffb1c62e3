//! Prepares the machine that a plan's arms boot on: kernels, image, initramfs, acceleration.
//!
//! Everything comes from the cache if it is there, so a second run needs no network.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, anyhow, bail};
use base::arch::Arch;
use base::input::file;
use base::input::units::show_bytes;
use guest::needs;
use load::server::Server;
use load::tls::Trust;
use machine::acceleration::Kvm;
use machine::cache;
use machine::cache::Cache;
use machine::cache::eviction;
use machine::cache::eviction::{Mode, Named};
use machine::client_hosts::ClientHosts;
use machine::counting;
use machine::counting::Counter;
use machine::doctor;
use machine::emulator::Program;
use machine::emulator_choice;
use machine::flavour::Flavour;
use machine::guest::Machine;
use machine::image;
use machine::image::{Image, Request};
use machine::initramfs;
use machine::initramfs::Content;
use machine::kernel;
use machine::kernel::Kernel;
use machine::kvm;
use machine::local;
use machine::local::Local;
use machine::profiling;
use machine::profiling::{ArmSymbols, Profiler};
use machine::qemu;
use machine::qemu::{BootFiles, ClientsPlace, Hardware, Qemu};
use machine::remote::{Remote, SystemLocks};
use machine::ssh;
use machine::ssh::{ClientsOfBox, ProbedBox, SshBox};
use machine::task::{Progress, Task};
use machine::vmlinux;
use plan::cpu::CpuModel;
use plan::{Arm, Clients, Clock, MachineKind, Plan, SeekDisk, WorkloadPlan};
use record::VERSION;
use record::hash::sha256;
use record::journal;
use record::journal::Opening;
use record::rundir::RunDir;
use serde_json::Value;

use crate::agent;
use crate::arm_needs;
use crate::reporter::Reporter;

/// File in the run directory with QEMU's messages when KVM failed.
const KVM_LOG: &str = "kvm.log";

/// A machine that is ready to boot, and the inputs of the run.
pub struct Prepared {
    /// The machine.
    pub machine: Box<dyn Machine>,
    inputs: BTreeMap<String, String>,
    clients: Option<Clients>,
    /// Protects the run's inputs from eviction; `None` if the run uses nothing of the cache.
    cache: Option<Cache>,
    kvm_failure: Option<String>,
}

impl Prepared {
    /// Registers the run directory with the cache, so that the run's inputs stay there and the run can be resumed.
    pub fn note_run(&self, dir: &Path) -> Result<()> {
        match &self.cache {
            Some(cache) => eviction::remember_run(cache, dir),
            None => Ok(()),
        }
    }

    /// Writes QEMU's messages about KVM to the run directory; they are too long for the journal.
    pub fn keep_details(&self, dir: &RunDir) -> Result<()> {
        match &self.kvm_failure {
            Some(messages) => dir.write(KVM_LOG, format!("{messages}\n").as_bytes()),
            None => Ok(()),
        }
    }

    /// The journal's first entry.
    pub fn opening(&self, plan: &Plan, plan_text: &str) -> Opening {
        let mut inputs = self.inputs.clone();
        inputs.insert("plan".into(), sha256(plan_text.as_bytes()));
        for arm in &plan.arms {
            for file in arm.tuning.config_files() {
                let name = format!("{} of arm {}", file.path, arm.name);
                inputs.insert(name, sha256(file.text.as_bytes()));
            }
        }
        let counted = self.machine.ns_per_instruction();
        Opening {
            version: journal::VERSION,
            bakeoff: VERSION.into(),
            inputs,
            machine: self.machine.describe(),
            ns_per_instruction: counted,
            host_cpus: machine::host::cpus().ok().map(|cpus| cpus.len() as u32),
            string_price: counted.map(|_| plan.machine.string_price),
            clients: self.clients,
        }
    }
}

/// Options of the command line about the sources of kernels, packages and QEMU.
pub struct Sources {
    /// Look for newer kernels and packages.
    pub refresh: bool,
    /// The QEMU that the user chose.
    pub qemu: Option<PathBuf>,
    /// The CPU model that the run is to be repeated on.
    pub second_model: Option<CpuModel>,
}

/// Fetches, builds and probes what the plan needs; `file` is the path of the plan.
pub fn prepare(
    plan: &Plan,
    file: &Path,
    sources: &Sources,
    reporter: &Reporter,
    stop: &AtomicBool,
) -> Result<Prepared> {
    let tell = |progress: Progress<'_>| reporter.step(progress.what, progress.share);
    let task = Task { tell: &tell, stop };
    let bakeoff = std::env::current_exe().context("cannot find bakeoff's own binary")?;
    match plan.machine.kind {
        MachineKind::Qemu => prepare_qemu(plan, file, &bakeoff, sources, reporter, task),
        MachineKind::Local => prepare_local(plan, file, bakeoff, task),
        MachineKind::Ssh => prepare_ssh(plan, file, bakeoff, sources, reporter, task),
        MachineKind::Url => prepare_remote(plan, file, &bakeoff, task),
    }
}

/// Refuses workloads that do not fit the plan's machine, as far as that is known before any work.
pub(crate) fn check_plan_fits_machine(plan: &Plan, file: &Path) -> Result<()> {
    let kind = plan.machine.kind;
    let disk_bytes = disk_bytes(plan).with_context(|| file.display().to_string())?;
    if disk_bytes > 0 && kind != MachineKind::Qemu {
        bail!(
            "{}: a workload that has a disk to itself on a machine of kind \"{}\" (write kind = \"qemu\")",
            file.display(),
            kind.word()
        );
    }
    let hosts = &plan.machine.client_hosts;
    let line = hosts.first().map_or(0, |host| host.line);
    let place = format!("{}:{line}: clients", file.display());
    let hosts = (hosts.len(), "hosts", place);
    let ssh = plan.machine.ssh.as_ref();
    let ssh = ssh.filter(|_| plan.machine.is_box_with_clients_apart());
    let cards = ssh.map_or(0, |ssh| ssh.interfaces.len());
    let cards = (cards, "interfaces", file.display().to_string());
    let addresses = plan.arms.iter().filter_map(|arm| {
        let addresses = plan.target(arm, 1)?.addresses.len();
        let place = format!("{}:{}: arm {}", file.display(), arm.line, arm.name);
        Some((addresses, "addresses", place))
    });
    for (count, what, place) in [hosts, cards].into_iter().chain(addresses) {
        for workload in &plan.workloads {
            let connections = workload.options.get("connections").and_then(Value::as_u64);
            if let Some(connections) = connections.filter(|number| *number < count as u64) {
                bail!(
                    "{place}: fewer connections than {what} ({count}): workload {}, {connections} (write connections = {count} or more)",
                    workload.id
                );
            }
        }
    }
    Ok(())
}

/// Checks before the first trial that every system accepts connections and provides the evidence that the plan names.
fn prepare_remote(plan: &Plan, file: &Path, bakeoff: &Path, task: Task<'_>) -> Result<Prepared> {
    let mut addresses = BTreeSet::new();
    for arm in &plan.arms {
        let target = plan.target(arm, 1);
        let target = target.context("plan is validated: an arm is an address")?;
        let reached = system_addresses(&target);
        let reached = reached
            .with_context(|| format!("{}:{}: arm {}", file.display(), arm.line, arm.name))?;
        addresses.extend(reached);
    }
    check_evidence_sources(plan, file, task)?;
    let cache = Cache::of_user()?;
    let locks = SystemLocks::take(&addresses, &cache, task)?;
    let inputs = BTreeMap::from([("bakeoff's binary".into(), cache::hash_file(bakeoff)?)]);
    let base = file.parent().unwrap_or(Path::new(""));
    let mut machine = Remote::new(bakeoff.into(), plan, base, locks);
    if let Some(hosts) = client_hosts(plan, file, bakeoff, task)? {
        machine = machine.with_clients_on(hosts);
    }
    Ok(Prepared {
        machine: Box::new(machine),
        inputs,
        clients: plan.machine.clients,
        cache: None,
        kvm_failure: None,
    })
}

/// The addresses of a system; each of them accepts connections.
fn system_addresses(target: &plan::Target) -> Result<Vec<SocketAddr>> {
    let server = Server::from_url(&target.url, || Ok(Trust::Any))?;
    let mut addresses = vec![server.address];
    for address in &target.addresses {
        addresses.push(server.at_address(*address)?.address);
    }
    Ok(addresses)
}

/// Refuses sources that provide no evidence of their system, all in one message.
fn check_evidence_sources(plan: &Plan, file: &Path, task: Task<'_>) -> Result<()> {
    let mut wrong = Vec::new();
    for arm in &plan.arms {
        let target = plan.target(arm, 1);
        let Some(source) = target.and_then(|target| target.evidence) else {
            continue;
        };
        task.go_on()?;
        if let Err(why) = guest::try_source(&source) {
            wrong.push(format!(
                "{}:{}: arm {}: {why:#}",
                file.display(),
                arm.line,
                arm.name
            ));
        }
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(())
}

/// The client hosts of the plan, with this program installed there; `None` if the plan names none.
fn client_hosts(
    plan: &Plan,
    file: &Path,
    bakeoff: &Path,
    task: Task<'_>,
) -> Result<Option<ClientHosts>> {
    let hosts = &plan.machine.client_hosts;
    let Some(first) = hosts.first() else {
        return Ok(None);
    };
    let place = || format!("{}:{}: clients", file.display(), first.line);
    let cache = Cache::of_user()?;
    let opened = ClientHosts::open(hosts, bakeoff, &cache, task);
    Ok(Some(opened.with_context(place)?))
}

/// Fetches nothing: trials use the kernel and the servers of this host.
fn prepare_local(plan: &Plan, file: &Path, bakeoff: PathBuf, task: Task<'_>) -> Result<Prepared> {
    check_packages("this host", plan, &|package| local::has(package, task))?;
    let files = workload_files(plan, file)?;
    let mut inputs = BTreeMap::from([("bakeoff's binary".into(), cache::hash_file(&bakeoff)?)]);
    inputs.extend(file_hashes(&files)?);
    Ok(Prepared {
        machine: Box::new(Local::open(bakeoff, plan, files, task)?),
        inputs,
        clients: None,
        cache: None,
        kvm_failure: None,
    })
}

fn prepare_qemu(
    plan: &Plan,
    file: &Path,
    bakeoff: &Path,
    sources: &Sources,
    reporter: &Reporter,
    task: Task<'_>,
) -> Result<Prepared> {
    let arch = plan.machine.arch;
    let cache = Cache::of_user()?.of_arch(arch);
    let agent = agent::of(arch, bakeoff)?;
    let init = agent.as_path();
    let refresh = sources.refresh;
    if refresh || image::find_built(&cache, request(plan, refresh))?.is_none() {
        // The user should learn of missing tools before kernels are fetched.
        doctor::refuse_lacks(task)?;
    }
    let disk_bytes = disk_bytes(plan)?;
    let files = workload_files(plan, file)?;
    let kernels = fetch_kernels(plan, file, &cache, Flavour::Cloud, refresh, reporter, task)?;
    let image = build_image(plan, &cache, refresh, reporter, task)?;
    let modules = modules(plan)?;
    check_ublk(plan, file, &kernels)?;
    let content = |cmdline| Content {
        init,
        modules: &modules,
        files: &files,
        cmdline,
    };
    let mut arms = boot_files(plan, &kernels, &content, &cache, task)?;
    let kvm = probe_kvm(plan, &arms, &cache, sources, task)?;
    let program = choose_qemu(&kvm, &cache, sources, reporter, task)?;
    // The guest itself provides a disk with seeks.
    let host_disk = plan.machine.seek_disk.as_ref().map_or(disk_bytes, |_| 0);
    let mut hardware = qemu::settle(&plan.machine, host_disk, &program, &kvm)?;
    hardware.settle_host(&arms)?;
    hardware.settle_clients(plan.machine.clients, workload_in_guest(plan), bakeoff)?;
    if hardware.clock == Clock::Instructions {
        boot_unpacked(plan, &kernels, &mut arms, &cache, task)?;
    }
    let mut inputs = inputs(plan, &kernels, &image, bakeoff)?;
    if arch != Arch::HOST {
        inputs.insert(
            format!("bakeoff's binary for {arch}"),
            cache::hash_file(init)?,
        );
    }
    if plan.machine.clients == Some(Clients::Guest2) {
        let kernel = client_kernel(plan, file, &kernels, &cache, refresh, reporter, task)?;
        inputs.insert("kernel of the clients".into(), kernel.sha256.clone());
        hardware.clients = Some(clients_guest(kernel, content(""), &cache, task)?);
    }
    let clients = clients_place(&hardware);
    inputs.extend(file_hashes(&files)?);
    let pruned = eviction::prune(&cache, eviction::limit()?, Named::Stay, Mode::Remove)?;
    for line in pruned.lines(Mode::Remove) {
        reporter.line(&line);
    }
    let mut qemu = Qemu::new(hardware, Some(image.path.clone()), arms);
    if qemu.ns_per_instruction().is_some() {
        if let Some(why) = counting::refusal(&program, task)? {
            bail!("no instructions can be counted: {why}");
        }
        let names = plan.arms.iter().map(|arm| arm.name.clone());
        let arms: Vec<_> = names.zip(&kernels).collect();
        let symbols = profiling::read_symbols(&arms, &cache, task)?;
        qemu = qemu.with_counter(Counter::new(&symbols));
        // In wall-clock time the guests sample themselves.
        if plan.why {
            let profiler = profiler(&program, symbols, &image.path, init, reporter, task)?;
            qemu = qemu.with_profiler(profiler);
        }
    }
    Ok(Prepared {
        machine: Box::new(qemu),
        inputs,
        clients: Some(clients),
        cache: Some(cache),
        kvm_failure: kvm.detail().map(String::from),
    })
}

/// The QEMU that boots the guests. It must know the second CPU model, if the run is to be repeated on one.
fn choose_qemu(
    kvm: &Kvm,
    cache: &Cache,
    sources: &Sources,
    reporter: &Reporter,
    task: Task<'_>,
) -> Result<Program> {
    let named = sources.qemu.as_deref();
    let program = match kvm {
        Kvm::Works => emulator_choice::for_kvm(named, cache, task)?,
        Kvm::Absent(_) | Kvm::Broken(_) | Kvm::Unwanted => {
            let choice = emulator_choice::for_emulation(named, cache, task)?;
            if let Some(words) = choice.words() {
                reporter.line(&words);
            }
            choice.program().clone()
        }
    };
    if let Some(model) = &sources.second_model {
        let known = program.check_model(model);
        known.map_err(|why| anyhow!("--models={model}: {why}"))?;
    }
    Ok(program)
}

/// The profiler for trials of counted instructions. If this QEMU cannot profile, reports that, and trials have no profiles.
fn profiler(
    program: &Program,
    symbols: BTreeMap<String, Result<ArmSymbols, String>>,
    image: &Path,
    init: &Path,
    reporter: &Reporter,
    task: Task<'_>,
) -> Result<Profiler> {
    let Some(why) = profiling::refusal(program, task)? else {
        return Ok(Profiler::new(symbols, image, init));
    };
    reporter.line(&format!("no profiles: {why}"));
    Ok(Profiler::refused(why))
}

/// Checks before the first trial that the box can be reached, and that it can boot every kernel and return.
fn prepare_ssh(
    plan: &Plan,
    file: &Path,
    bakeoff: PathBuf,
    sources: &Sources,
    reporter: &Reporter,
    task: Task<'_>,
) -> Result<Prepared> {
    let cache = Cache::of_user()?;
    let refresh = sources.refresh;
    let ssh = plan.machine.ssh.as_deref();
    let ssh = ssh.expect("plan is validated: a box has a host");
    if refresh || image::find_built(&cache, request(plan, refresh))?.is_none() {
        doctor::refuse_lacks(task)?;
    }
    let probed = ProbedBox::probe(ssh, &cache, task)?;
    let clients = box_clients(plan, file, &bakeoff, task)?;
    probed.check_clients(&clients, task)?;
    let files = workload_files(plan, file)?;
    let kernels = fetch_kernels(
        plan,
        file,
        &cache,
        Flavour::General,
        refresh,
        reporter,
        task,
    )?;
    for (arm, kernel) in plan.arms.iter().zip(&kernels) {
        let checked = probed.check_kernel(kernel);
        checked.with_context(|| format!("{}:{}: arm {}", file.display(), arm.line, arm.name))?;
    }
    let image = build_image(plan, &cache, refresh, reporter, task)?;
    let mut modules = modules(plan)?;
    modules.extend(probed.modules());
    let content = |cmdline| Content {
        init: &bakeoff,
        modules: &modules,
        files: &files,
        cmdline,
    };
    let arms = boot_files(plan, &kernels, &content, &cache, task)?;
    let mut inputs = inputs(plan, &kernels, &image, &bakeoff)?;
    inputs.extend(file_hashes(&files)?);
    let arms = ssh::Arms {
        files: &arms,
        image: &image.path,
        program: bakeoff,
        base: file.parent().unwrap_or(Path::new("")),
    };
    Ok(Prepared {
        machine: Box::new(SshBox::new(ssh, probed, clients, arms, &cache, task)?),
        inputs,
        cache: Some(cache),
        kvm_failure: None,
        clients: plan
            .machine
            .is_box_with_clients_apart()
            .then_some(plan.machine.clients)
            .flatten(),
    })
}

/// The place of the clients of a box's servers, with the client hosts prepared.
fn box_clients(plan: &Plan, file: &Path, bakeoff: &Path, task: Task<'_>) -> Result<ClientsOfBox> {
    if !plan.machine.is_box_with_clients_apart() {
        return Ok(ClientsOfBox::OnBox);
    }
    let hosts = client_hosts(plan, file, bakeoff, task)?;
    Ok(hosts.map_or(ClientsOfBox::Here, ClientsOfBox::Hosts))
}

/// The files that each arm boots, by the arm's name.
fn boot_files<'c>(
    plan: &'c Plan,
    kernels: &[Kernel],
    content: &dyn Fn(&'c str) -> Content<'c>,
    cache: &Cache,
    task: Task<'_>,
) -> Result<BTreeMap<String, BootFiles>> {
    let mut arms = BTreeMap::new();
    for (arm, kernel) in plan.arms.iter().zip(kernels) {
        let files = BootFiles {
            kernel: kernel.vmlinuz.clone(),
            initramfs: initramfs::build(cache, kernel, content(&arm.cmdline), task)?,
            cmdline: arm.cmdline.clone(),
            cpus: arm.cpus,
        };
        arms.insert(arm.name.clone(), files);
    }
    Ok(arms)
}

/// Has the arms boot unpacked kernels, if all of them can be unpacked: every arm must start in the same way.
fn boot_unpacked(
    plan: &Plan,
    kernels: &[Kernel],
    arms: &mut BTreeMap<String, BootFiles>,
    cache: &Cache,
    task: Task<'_>,
) -> Result<()> {
    let mut unpacked = Vec::new();
    for kernel in kernels {
        match vmlinux::unpack(cache, kernel, task)? {
            Some(path) => unpacked.push(path),
            None => return Ok(()),
        }
    }
    for (arm, path) in plan.arms.iter().zip(unpacked) {
        let files = arms.get_mut(&arm.name);
        files.expect("every arm has files to boot").kernel = path;
    }
    Ok(())
}

/// Whether guests boot under KVM. Only the baseline's kernel is tried.
fn probe_kvm(
    plan: &Plan,
    arms: &BTreeMap<String, BootFiles>,
    cache: &Cache,
    sources: &Sources,
    task: Task<'_>,
) -> Result<Kvm> {
    if plan.machine.clock == Clock::Instructions {
        return Ok(Kvm::Unwanted);
    }
    match emulator_choice::for_kvm(sources.qemu.as_deref(), cache, task) {
        Ok(program) => {
            let baseline = &arms[&plan.baseline];
            kvm::probe(cache, &program, baseline, sources.refresh, task)
        }
        // `choose_qemu` reports the error.
        Err(_) => Ok(Kvm::Absent("no QEMU to try KVM with".into())),
    }
}

fn fetch_kernels(
    plan: &Plan,
    file: &Path,
    cache: &Cache,
    flavour: Flavour,
    refresh: bool,
    reporter: &Reporter,
    task: Task<'_>,
) -> Result<Vec<Kernel>> {
    let mut kernels = Vec::new();
    for arm in &plan.arms {
        let place = || format!("{}:{}: arm {}", file.display(), arm.line, arm.name);
        let kernel =
            kernel::fetch(cache, &arm.kernel, flavour, refresh, task).with_context(place)?;
        arm_needs::check_kernel(arm, &kernel).with_context(place)?;
        reporter.line(&format!(
            "arm {}: {} ({})",
            arm.name, kernel.release, kernel.package
        ));
        kernels.push(kernel);
    }
    Ok(kernels)
}

/// The place of the guests' clients.
fn clients_place(hardware: &Hardware) -> Clients {
    match &hardware.clients {
        None => Clients::Guest,
        Some(ClientsPlace::Host(_)) => Clients::Host,
        Some(ClientsPlace::Guest { .. }) => Clients::Guest2,
    }
}

/// The guest that runs the clients, with the files that it boots.
fn clients_guest(
    kernel: Kernel,
    content: Content<'_>,
    cache: &Cache,
    task: Task<'_>,
) -> Result<ClientsPlace> {
    let initramfs = initramfs::build(cache, &kernel, content, task)?;
    let files = BootFiles {
        kernel: kernel.vmlinuz,
        initramfs,
        cmdline: String::new(),
        cpus: None,
    };
    Ok(ClientsPlace::Guest {
        files: Box::new(files),
        release: kernel.release,
    })
}

/// The kernel of the clients' guest: the one that the plan names, else the baseline's.
fn client_kernel(
    plan: &Plan,
    file: &Path,
    kernels: &[Kernel],
    cache: &Cache,
    refresh: bool,
    reporter: &Reporter,
    task: Task<'_>,
) -> Result<Kernel> {
    let kernel = if let Some(named) = &plan.machine.client_kernel {
        kernel::fetch(cache, named, Flavour::Cloud, refresh, task)
            .with_context(|| format!("{}: client_kernel", file.display()))?
    } else {
        let mut arms = plan.arms.iter().zip(kernels);
        let baseline = arms.find(|(arm, _)| arm.name == plan.baseline);
        let (_, kernel) = baseline.context("plan is validated: the baseline is an arm")?;
        kernel.clone()
    };
    reporter.line(&format!("clients: {} ({})", kernel.release, kernel.package));
    Ok(kernel)
}

fn build_image(
    plan: &Plan,
    cache: &Cache,
    refresh: bool,
    reporter: &Reporter,
    task: Task<'_>,
) -> Result<Image> {
    let image = image::build(cache, request(plan, refresh), task)?;
    let whose = format!("image {:?}", image.title());
    check_packages(&whose, plan, &|package| image.has(package))?;
    for arm in &plan.arms {
        arm_needs::check_image(arm, &whose, &image)?;
    }
    let size = show_bytes(image.bytes);
    reporter.line(&format!(
        "image {}: {size}, {:.12}",
        image.title(),
        image.sha256
    ));
    Ok(image)
}

/// The kernel modules that any arm may load for any workload. All guests of a plan get the same modules.
fn modules(plan: &Plan) -> Result<Vec<String>> {
    let mut names = BTreeSet::new();
    let is_counted = plan.machine.clock == Clock::Instructions;
    let clients = match plan.machine.clients {
        None if is_counted || workload_in_guest(plan).is_some() => Some(Clients::Guest),
        clients => clients,
    };
    for workload in &plan.workloads {
        let workload = workload::from_plan(workload)?;
        for arm in &plan.arms {
            names.extend(needs::modules(
                &arm.sysctl,
                &arm.tuning,
                &*workload,
                &plan.disturbances,
                clients,
            ));
        }
    }
    if plan.machine.seek_disk.is_some() {
        names.extend(needs::DISK_MODULES.iter().map(ToString::to_string));
    }
    Ok(names.into_iter().collect())
}

/// Refuses kernels without `ublk`, which a disk with seeks needs.
fn check_ublk(plan: &Plan, file: &Path, kernels: &[Kernel]) -> Result<()> {
    for (arm, kernel) in plan.arms.iter().zip(kernels) {
        if let Some((what, remedy)) = lacks_ublk(plan, arm, kernel)? {
            bail!("{}:{}: {what} ({remedy})", file.display(), arm.line);
        }
    }
    Ok(())
}

/// The module for a disk with seeks that an arm's kernel lacks, and the remedy; `None` if nothing is missing.
pub(crate) fn lacks_ublk(
    plan: &Plan,
    arm: &Arm,
    kernel: &Kernel,
) -> Result<Option<(String, &'static str)>> {
    if plan.machine.seek_disk.is_none() {
        return Ok(None);
    }
    for module in needs::DISK_MODULES {
        if !kernel.has_module(module)? {
            let what = format!(
                "kernel without {module}, which disk in [machine] needs: arm {}, {}",
                arm.name, kernel.release
            );
            let remedy =
                "name one of 6.12 or later, as Debian 13 and its backports have, or remove disk";
            return Ok(Some((what, remedy)));
        }
    }
    Ok(None)
}

/// The id of a workload whose clients must run in the guest.
pub(crate) fn workload_in_guest(plan: &Plan) -> Option<&str> {
    let mut workloads = plan.workloads.iter();
    let inner = workloads.find(|workload| !workload::is_driven_from_outside(workload));
    inner.map(|workload| workload.id.as_str())
}

pub(crate) fn request(plan: &Plan, refresh: bool) -> Request<'_> {
    let image = plan.image.as_ref();
    let image = image.expect("plan is validated: an emulated machine has an image");
    Request {
        recipe: &image.recipe,
        suite: image.suite.as_deref(),
        refresh,
    }
}

/// Limit on the total size of a plan's files: they are loaded into the guests' memory.
pub(crate) const OWN_FILES_BYTES: u64 = 256 << 20;

/// The files that the plan's workloads name, relative to the directory of `plan_file`.
fn workload_files(plan: &Plan, plan_file: &Path) -> Result<Vec<PathBuf>> {
    let base = plan_file.parent().unwrap_or(Path::new(""));
    let mut files: BTreeMap<OsString, PathBuf> = BTreeMap::new();
    for workload in &plan.workloads {
        for named in workload::from_plan(workload)?.files() {
            let path = base.join(named);
            let name = path.file_name().unwrap_or_default().to_owned();
            match files.insert(name, path.clone()) {
                Some(other) if other != path => bail!(
                    "two files of one name in the plan: {} and {} (rename one of them)",
                    other.display(),
                    path.display()
                ),
                Some(_) | None => {}
            }
        }
    }
    let mut bytes = 0;
    for path in files.values() {
        bytes += file::metadata(path)
            .with_context(|| format!("cannot read {}", path.display()))?
            .len();
    }
    if bytes > OWN_FILES_BYTES {
        bail!(
            "files of workloads too large: {} (at most {}; larger ones belong in an image, with [[copy]] in its recipe)",
            show_bytes(bytes),
            show_bytes(OWN_FILES_BYTES)
        );
    }
    Ok(files.into_values().collect())
}

/// Names and SHA-256 sums of files, as inputs of a run. A resumed run must find them unchanged.
pub(crate) fn file_hashes(files: &[PathBuf]) -> Result<Vec<(String, String)>> {
    let hash = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Ok((format!("file {name}"), cache::hash_file(path)?))
    };
    files.iter().map(hash).collect()
}

/// Size of the disk that the plan's workloads need, 0 for none.
///
/// # Errors
/// The plan's machine cannot provide the disk, or the plan has options for a disk but no workload with one.
pub(crate) fn disk_bytes(plan: &Plan) -> Result<u64> {
    let mut most = 0;
    for workload in &plan.workloads {
        let bytes = workload::from_plan(workload)?.disk_bytes();
        match &plan.machine.seek_disk {
            Some(disk) => check_store_size(disk, bytes, workload)?,
            None if bytes > 0 && plan.machine.clock == Clock::Instructions => bail!(
                "clock \"instructions\" with a workload that has a disk to itself: {} (write disk = {{ kind = \"seek\" }} in \
                 [machine], or clock = \"wall\": the host's disk takes the host's time)",
                workload.id
            ),
            None => {}
        }
        most = most.max(bytes);
    }
    if most == 0 && plan.machine.seek_disk.is_some() {
        bail!(
            "disk in [machine] but no workload with a disk to itself (remove it, or add a workload such as io-mix)"
        );
    }
    let has_disk_tuning = |arm: &&Arm| {
        !arm.tuning.io_scheduler.is_empty()
            || !arm.tuning.queue.is_empty()
            || arm.tuning.file_system.is_some()
    };
    if most == 0
        && let Some(arm) = plan.arms.iter().find(has_disk_tuning)
    {
        bail!(
            "io_scheduler, queue or file_system in arm {} but no workload with a disk to itself (remove it, or add a workload such as io-mix)",
            arm.name
        );
    }
    Ok(most)
}

/// Refuses a workload that writes more than a disk with seeks can store.
fn check_store_size(disk: &SeekDisk, bytes: u64, workload: &WorkloadPlan) -> Result<()> {
    if bytes > disk.store_bytes {
        let enough = show_bytes(bytes.next_multiple_of(64 << 20));
        bail!(
            "store of the disk too small for {}: {} of {} (write store = \"{enough}\" in disk of [machine], with as much \
             memory more, or have the workload write less)",
            workload.id,
            show_bytes(disk.store_bytes),
            show_bytes(bytes)
        );
    }
    Ok(())
}

/// Refuses a user land without the packages of the workloads' servers.
fn check_packages(whose: &str, plan: &Plan, has: &dyn Fn(&str) -> Result<bool>) -> Result<()> {
    for workload in &plan.workloads {
        let mut missing = BTreeSet::new();
        for arm in &plan.arms {
            let served = workload::with_server(workload, arm.tuning.server.as_deref());
            let workload = workload::from_plan(&served.map_err(anyhow::Error::msg)?)?;
            for package in workload.packages() {
                let mut is_installed = false;
                for name in package.split('|') {
                    is_installed = is_installed || has(name)?;
                }
                if !is_installed {
                    missing.insert(package.replace('|', " or "));
                }
            }
        }
        if !missing.is_empty() {
            bail!(
                "{whose} lacks what workload {} needs: {} (install the packages, or name another image)",
                workload.id,
                Vec::from_iter(missing).join(", ")
            );
        }
    }
    Ok(())
}

/// Names and SHA-256 sums of the run's inputs. A resumed run must find them unchanged.
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
