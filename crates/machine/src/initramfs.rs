//! The initramfs: bakeoff as the guest's first process, and the modules that it may load.
//!
//! ```text
//! /init                                the binary
//! /files/...                           the plan's files, for the workload
//! /lib/modules/RELEASE/kernel/...      modules, decompressed
//! /lib/modules/RELEASE/modules.dep     rewritten for what is there
//! /lib/modules/RELEASE/modules.builtin copied from the kernel
//! /lib/modules/RELEASE/config          the kernel's configuration
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use cpio::newc::{Builder, ModeFileType, trailer};

use crate::cache;
use crate::cache::Cache;
use crate::cache::about::{About, Part};
use crate::kernel::Kernel;
use crate::modules;
use crate::modules::{Module, Signed};
use crate::task::Task;

/// Version of the layout, part of the key.
const LAYOUT: &str = "initramfs-4";

/// What goes into an initramfs in addition to the kernel's modules.
#[derive(Debug, Clone, Copy)]
pub struct Content<'c> {
    /// The first process.
    pub init: &'c Path,
    /// Names of the modules that a guest may load.
    pub modules: &'c [String],
    /// The plan's files, with distinct names.
    pub files: &'c [PathBuf],
    /// The arm's part of the kernel's command line, which may require signed modules.
    pub cmdline: &'c str,
}

/// The initramfs of a kernel, from the cache or new.
pub fn build(
    cache: &Cache,
    kernel: &Kernel,
    content: Content<'_>,
    task: Task<'_>,
) -> Result<PathBuf> {
    let Content {
        init,
        modules,
        files: own_files,
        ..
    } = content;
    let signed = signed(kernel, content.cmdline)?;
    let agent = Part::file(init, &cache::hash_file(init)?);
    let id = {
        let parts = [
            LAYOUT,
            &kernel.sha256,
            &agent.sha256,
            &format!("{signed:?}"),
            &modules.join(" "),
            &own_files
                .iter()
                .map(|file| signature(file))
                .collect::<Result<Vec<_>>>()?
                .join(" "),
        ];
        cache::hash(parts.join("\n").as_bytes())
    };
    if let Some(entry) = cache.entry("initramfs", &id)? {
        return Ok(entry.join(FILE));
    }
    task.tell("packing the initramfs", None);
    let init = fs::read(init).with_context(|| format!("cannot read {}", init.display()))?;
    let modules = match &kernel.modules {
        Some(dir) => modules::collect(dir, modules, signed)?,
        None => Vec::new(),
    };
    let mut files = vec![("init".to_string(), 0o755, init)];
    for file in own_files {
        files.push(own_file(file)?);
    }
    files.extend(module_tree(kernel, modules)?);
    let bytes: u64 = files.iter().map(|(_, _, body)| body.len() as u64).sum();
    let staging = cache.staging(bytes)?;
    let body = archive(&files)?;
    cache::write(&staging.path.join(FILE), &body).map_err(|why| cache.cannot_write(&why))?;
    let of_kernel = Part {
        name: "kernel".into(),
        version: kernel.release.clone(),
        sha256: kernel.sha256.clone(),
    };
    let source = format!("bakeoff and modules of {}", kernel.release);
    About::now(&kernel.release, source, vec![of_kernel, agent]).write(cache, &staging.path)?;
    Ok(cache.keep(&staging, "initramfs", &id)?.join(FILE))
}

const FILE: &str = "initramfs.cpio";

/// Options of a kernel that loads signed modules only.
const ENFORCING: [&str; 3] = [
    "CONFIG_MODULE_SIG_FORCE=y",
    "CONFIG_LOCK_DOWN_KERNEL_FORCE_INTEGRITY=y",
    "CONFIG_LOCK_DOWN_KERNEL_FORCE_CONFIDENTIALITY=y",
];

/// Whether this kernel with this command line loads signed modules only.
fn signed(kernel: &Kernel, cmdline: &str) -> Result<Signed> {
    let config = match &kernel.config {
        Some(path) => {
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?
        }
        None => String::new(),
    };
    let built = config.lines().any(|line| ENFORCING.contains(&line));
    let asked = ["module.sig_enforce", "lockdown="]
        .iter()
        .any(|word| cmdline.contains(word));
    Ok(if built || asked {
        Signed::Only
    } else {
        Signed::No
    })
}

type Entry = (String, u32, Vec<u8>);

/// The identity of one of the plan's files: name, mode, content.
fn signature(file: &Path) -> Result<String> {
    let mode = fs::metadata(file)
        .with_context(|| format!("cannot read {}", file.display()))?
        .permissions()
        .mode();
    Ok(format!(
        "{:?} {mode:o} {}",
        file.file_name(),
        cache::hash_file(file)?
    ))
}

fn own_file(file: &Path) -> Result<Entry> {
    let read = || -> io::Result<Entry> {
        let mode = fs::metadata(file)?.permissions().mode() & 0o777;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        Ok((format!("files/{name}"), mode, fs::read(file)?))
    };
    read().with_context(|| format!("cannot read {}", file.display()))
}

fn module_tree(kernel: &Kernel, modules: Vec<Module>) -> Result<Vec<Entry>> {
    let Some(dir) = &kernel.modules else {
        return Ok(Vec::new());
    };
    let home = format!("lib/modules/{}", kernel.release);
    // Without this list, no built-in modules are known.
    let builtin = fs::read(dir.join("modules.builtin")).unwrap_or_default();
    let order = modules::dependency_file(&modules).into_bytes();
    let mut files = vec![
        (format!("{home}/modules.dep"), 0o644, order),
        (format!("{home}/modules.builtin"), 0o644, builtin),
    ];
    // Debian's kernels do not show their configuration; the agent looks for it here.
    if let Some(config) = &kernel.config {
        let body = fs::read(config).with_context(|| format!("cannot read {}", config.display()))?;
        files.push((format!("{home}/config"), 0o644, body));
    }
    for module in modules {
        files.push((format!("{home}/{}", module.path), 0o644, module.body));
    }
    Ok(files)
}

/// A newc archive of files, each directory before what is in it. The same files give the same bytes.
fn archive(files: &[Entry]) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut made = BTreeSet::new();
    let mut number = 1;
    for (name, mode, body) in files {
        for dir in ancestors(name) {
            if made.insert(dir) {
                let entry = Builder::new(dir)
                    .ino(number)
                    .mode(0o755)
                    .set_mode_file_type(ModeFileType::Directory);
                out = entry.write(out, 0).finish()?;
                number += 1;
            }
        }
        let entry = Builder::new(name)
            .ino(number)
            .mode(*mode)
            .set_mode_file_type(ModeFileType::Regular);
        let length = u32::try_from(body.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let mut writer = entry.write(out, length);
        writer.write_all(body)?;
        out = writer.finish()?;
        number += 1;
    }
    trailer(out)
}

/// The directories above a file, outermost first.
fn ancestors(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('/').map(|(end, _)| &name[..end])
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use expect_test::expect;

    use super::*;

    fn list(archive: &[u8]) -> String {
        let mut text = String::new();
        let mut rest = archive;
        loop {
            let reader = cpio::newc::Reader::new(rest).unwrap();
            let entry = reader.entry();
            if entry.is_trailer() {
                return text;
            }
            let line = format!(
                "{:o} {} {}\n",
                entry.mode(),
                entry.file_size(),
                entry.name()
            );
            text.push_str(&line);
            rest = reader.finish().unwrap();
        }
    }

    #[test]
    fn directories_come_before_what_is_in_them() {
        let files = [
            ("init".to_string(), 0o755, b"binary".to_vec()),
            (
                "lib/modules/6.1/kernel/veth.ko".to_string(),
                0o644,
                b"abc".to_vec(),
            ),
            ("lib/modules/6.1/modules.dep".to_string(), 0o644, Vec::new()),
        ];
        expect![[r"
            100755 6 init
            40755 0 lib
            40755 0 lib/modules
            40755 0 lib/modules/6.1
            40755 0 lib/modules/6.1/kernel
            100644 3 lib/modules/6.1/kernel/veth.ko
            100644 0 lib/modules/6.1/modules.dep
        "]]
        .assert_eq(&list(&archive(&files).unwrap()));
    }

    fn test_kernel() -> Kernel {
        Kernel {
            release: "6.9".into(),
            package: "test".into(),
            vmlinuz: "vmlinuz".into(),
            modules: None,
            config: None,
            sha256: "00".into(),
        }
    }

    #[test]
    fn signatures_stay_where_a_kernel_asks_for_them() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("config");
        let mut kernel = test_kernel();
        assert_eq!(signed(&kernel, "quiet").unwrap(), Signed::No);
        let asked = signed(&kernel, "quiet module.sig_enforce=1").unwrap();
        assert_eq!(asked, Signed::Only);
        fs::write(&config, "CONFIG_SMP=y\nCONFIG_MODULE_SIG_FORCE=y\n").unwrap();
        kernel.config = Some(config);
        assert_eq!(signed(&kernel, "").unwrap(), Signed::Only);
    }

    #[test]
    fn an_initramfs_is_made_once_for_each_content() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(&dir.path().join("cache"));
        let stop = AtomicBool::new(false);
        let task = Task::silent(&stop);
        let init = dir.path().join("init");
        let kernel = test_kernel();
        let build = |content: &str| {
            fs::write(&init, content).unwrap();
            let content = Content {
                files: &[],
                init: &init,
                modules: &[],
                cmdline: "",
            };
            super::build(&cache, &kernel, content, task).unwrap()
        };
        let first = build("one");
        assert_eq!(first, build("one"));
        assert_ne!(first, build("two"));
        assert_eq!(list(&fs::read(first).unwrap()), "100755 3 init\n");
    }
}
