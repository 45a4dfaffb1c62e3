//! Loads kernel modules from the initramfs, where the host has unpacked them: dependencies first, by `modules.dep`.
//!
//! Nothing else loads modules in a guest: there is no modprobe for the kernel to call.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use rustix::system::finit_module;

use crate::proc::{release, text_of};

/// The modules of one kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Modules {
    dir: PathBuf,
    known: BTreeMap<String, Module>,
    built_in: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Module {
    /// Below the directory.
    path: String,
    /// Names of the modules that must be loaded before it.
    needs: Vec<String>,
}

impl Modules {
    /// Reads what `/lib/modules` has for the running kernel: nothing, for a kernel without modules.
    pub(crate) fn of_this_kernel() -> Self {
        let dir = Path::new("/lib/modules").join(release());
        let dep = text_of(dir.join("modules.dep"));
        let built_in = text_of(dir.join("modules.builtin"));
        Self::parse(dir, &dep, &built_in)
    }

    fn parse(dir: PathBuf, dep: &str, built_in: &str) -> Self {
        let known = dep.lines().filter_map(|line| {
            let (file, needs) = line.split_once(':')?;
            let module = Module {
                path: file.into(),
                needs: needs.split_ascii_whitespace().map(name).collect(),
            };
            Some((name(file), module))
        });
        Self {
            dir,
            known: known.collect(),
            built_in: built_in.lines().map(name).collect(),
        }
    }

    /// Loads modules with their dependencies. Returns those that are neither files nor known to be built in: an
    /// error only if something later needs them. Fails where a file does not load.
    pub(crate) fn load_all(&self, names: &[&str]) -> Result<Vec<String>> {
        let mut missing = Vec::new();
        for wanted in names {
            let order = self.order(wanted)?;
            if order.is_empty() && !self.is_built_in(wanted) {
                missing.push((*wanted).to_string());
            }
            for module in order {
                self.load(module, c"")
                    .with_context(|| format!("load module {wanted}"))?;
            }
        }
        Ok(missing)
    }

    /// Modules to load for this one, dependencies first; none if it is not a file.
    fn order(&self, wanted: &str) -> Result<Vec<&Module>> {
        let mut order = Vec::new();
        let mut above = Vec::new();
        self.visit(&name(wanted), &mut above, &mut order)?;
        Ok(order)
    }

    fn visit<'m>(
        &'m self,
        wanted: &str,
        above: &mut Vec<String>,
        order: &mut Vec<&'m Module>,
    ) -> Result<()> {
        let Some(module) = self.known.get(wanted) else {
            return Ok(());
        };
        if above.iter().any(|name| name == wanted) {
            bail!(
                "modules.dep goes in a circle: {} -> {wanted}",
                above.join(" -> ")
            );
        }
        if order.contains(&module) {
            return Ok(());
        }
        above.push(wanted.into());
        for needed in &module.needs {
            self.visit(needed, above, order)?;
        }
        above.pop();
        order.push(module);
        Ok(())
    }

    /// Loads a module with options, and its dependencies without. Fails if it is not a file.
    pub(crate) fn load_with(&self, wanted: &str, options: &str) -> Result<()> {
        let order = self.order(wanted)?;
        let Some((last, before)) = order.split_last() else {
            bail!("no such module in the initramfs: {wanted}");
        };
        for module in before {
            self.load(module, c"")?;
        }
        self.load(last, &CString::new(options)?)
    }

    fn is_built_in(&self, wanted: &str) -> bool {
        let wanted = name(wanted);
        self.built_in.contains(&wanted) || Path::new("/sys/module").join(&wanted).exists()
    }

    fn load(&self, module: &Module, options: &CStr) -> Result<()> {
        let path = self.dir.join(&module.path);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(why) if why.kind() == ErrorKind::NotFound => bail!(
                "module is in modules.dep but not in the initramfs: {}",
                module.path
            ),
            Err(why) => return Err(why).with_context(|| format!("open {}", path.display())),
        };
        match finit_module(&file, options, 0) {
            // NODEV: a driver for missing hardware, such as a CPU's checksum instruction. KVM's drivers return
            // OPNOTSUPP where the CPU cannot run guests.
            Ok(()) | Err(Errno::EXIST | Errno::NODEV | Errno::OPNOTSUPP) => Ok(()),
            Err(why) => Err(why).with_context(|| path.display().to_string()),
        }
    }

    /// The kernel's configuration, which some distributions, or the host, put beside the modules.
    pub(crate) fn kernel_config(&self) -> Option<String> {
        let boot = PathBuf::from(format!("/boot/config-{}", release()));
        [self.dir.join("config"), boot]
            .iter()
            .find_map(|path| fs::read_to_string(path).ok())
    }
}

/// A module's name from its path; the kernel treats `-` and `_` alike.
fn name(path: &str) -> String {
    let path = path.trim();
    let file = path.rsplit('/').next().unwrap_or(path);
    file.strip_suffix(".ko").unwrap_or(file).replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    // Shortened from Debian's 5.10, where each line names the whole closure, nearest first.
    const DEP: &str = "\
kernel/drivers/virtio/virtio.ko: kernel/drivers/virtio/virtio_ring.ko
kernel/drivers/virtio/virtio_ring.ko:
kernel/drivers/virtio/virtio_pci.ko: kernel/drivers/virtio/virtio.ko kernel/drivers/virtio/virtio_ring.ko
kernel/fs/ext4/ext4.ko: kernel/lib/crc16.ko kernel/fs/mbcache.ko kernel/fs/jbd2/jbd2.ko
kernel/fs/jbd2/jbd2.ko:
kernel/fs/mbcache.ko:
kernel/lib/crc16.ko:
kernel/a/left-hand.ko: kernel/a/right_hand.ko
kernel/a/right_hand.ko: kernel/a/left-hand.ko
";

    fn check(wanted: &str, expected: &Expect) {
        let modules = Modules::parse("/m".into(), DEP, "kernel/net/veth.ko\n");
        let order = match modules.order(wanted) {
            Ok(order) => order
                .iter()
                .map(|module| module.path.as_str())
                .collect::<Vec<_>>()
                .join(" "),
            Err(why) => why.to_string(),
        };
        expected.assert_eq(&order);
    }

    #[test]
    fn dependencies_come_first_and_once() {
        check(
            "virtio_pci",
            &expect![
                "kernel/drivers/virtio/virtio_ring.ko kernel/drivers/virtio/virtio.ko kernel/drivers/virtio/virtio_pci.ko"
            ],
        );
        check(
            "ext4",
            &expect![
                "kernel/lib/crc16.ko kernel/fs/mbcache.ko kernel/fs/jbd2/jbd2.ko kernel/fs/ext4/ext4.ko"
            ],
        );
        check(
            "virtio-ring",
            &expect!["kernel/drivers/virtio/virtio_ring.ko"],
        );
    }

    #[test]
    fn what_is_not_a_file_has_no_order() {
        check("veth", &expect![""]);
        let modules = Modules::parse("/m".into(), DEP, "kernel/net/left-one.ko\n");
        assert!(modules.is_built_in("left_one") && !modules.is_built_in("no_such_module"));
    }

    #[test]
    fn a_circle_is_an_error_and_not_a_hang() {
        check(
            "left_hand",
            &expect!["modules.dep goes in a circle: left_hand -> right_hand -> left_hand"],
        );
    }

    #[test]
    fn a_kernel_without_modules_is_missing_all_and_fails_nothing() {
        let modules = Modules::parse("/m".into(), "", "");
        assert_eq!(
            modules.load_all(&["no_such_module"]).unwrap(),
            ["no_such_module"]
        );
    }

    #[test]
    fn a_module_that_the_host_forgot_is_named() {
        let modules = Modules::parse("/m".into(), DEP, "");
        let why = format!("{:#}", modules.load_all(&["crc16"]).unwrap_err());
        expect![
            "load module crc16: module is in modules.dep but not in the initramfs: kernel/lib/crc16.ko"
        ]
        .assert_eq(&why);
    }
}
