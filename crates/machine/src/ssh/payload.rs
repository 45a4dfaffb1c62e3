//! Files for a box: kernel, initramfs and image, uploaded once, and the secret of a boot, sent each time.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use cpio::newc::{Builder, ModeFileType, trailer};

use crate::cache;
use crate::cache::Cache;
use crate::cache::about::{About, Part};
use crate::kernel::Kernel;
use crate::program;
use crate::task::Task;

/// Version of the layout, part of the cache's key.
const LAYOUT: &str = "packed-2";

/// Where the agent finds the image, below the root of the initramfs.
const IMAGE: &str = "image.ext4";

/// Where the agent finds the secret.
const SECRET: &str = "secret";

/// A file that the box keeps by its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Upload {
    pub(crate) file: PathBuf,
    pub(crate) sha256: String,
    pub(crate) bytes: u64,
    /// Bytes in the box's memory once its kernel has unpacked it.
    pub(crate) unpacked_bytes: u64,
}

impl Upload {
    /// A file as it is.
    pub(crate) fn plain(file: &Path) -> Result<Self> {
        let bytes = size(file)?;
        Ok(Self {
            file: file.into(),
            sha256: cache::hash_file(file)?,
            bytes,
            unpacked_bytes: bytes,
        })
    }

    /// An initramfs, compressed.
    pub(crate) fn initramfs(cache: &Cache, file: &Path, task: Task<'_>) -> Result<Self> {
        packed(cache, file, task, &|to| fs::copy(file, to).map(drop))
    }

    /// An image as the one file of an archive, compressed.
    pub(crate) fn image(cache: &Cache, file: &Path, task: Task<'_>) -> Result<Self> {
        let bytes = size(file)?;
        let Ok(length) = u32::try_from(bytes) else {
            bail!(
                "image too large for an initramfs: {} (4 GiB at most)",
                file.display()
            );
        };
        packed(cache, file, task, &|to| {
            let entry = Builder::new(IMAGE)
                .mode(0o444)
                .set_mode_file_type(ModeFileType::Regular);
            let mut writer = entry.write(BufWriter::new(File::create(to)?), length);
            io::copy(&mut File::open(file)?, &mut writer)?;
            trailer(writer.finish()?)?.flush()
        })
    }
}

fn size(file: &Path) -> Result<u64> {
    let metadata = fs::metadata(file);
    let metadata = metadata.with_context(|| format!("cannot read {}", file.display()))?;
    Ok(metadata.len())
}

/// Writes an archive and compresses it, unless the cache has it.
fn packed(
    cache: &Cache,
    source: &Path,
    task: Task<'_>,
    write: &dyn Fn(&Path) -> io::Result<()>,
) -> Result<Upload> {
    const FILE: &str = "archive.zst";
    let sha256 = cache::hash_file(source)?;
    let id = cache::hash(format!("{LAYOUT}\n{sha256}").as_bytes());
    let unpacked_bytes = size(source)?;
    let place = if let Some(place) = cache.entry("packed", &id)? {
        place
    } else {
        task.tell("compressing what goes to the box", None);
        let staging = cache.staging(2 * unpacked_bytes)?;
        let plain = staging.path.join("archive");
        write(&plain).map_err(|why| cache.cannot_write(&why))?;
        let mut zstd = program::command("zstd", "zstd")?;
        zstd.args(["--quiet", "--rm", "-3"]);
        zstd.arg(&plain).arg("-o").arg(staging.path.join(FILE));
        program::run(&mut zstd, task)?;
        let part = Part::file(source, &sha256);
        About::now("for boxes", "bakeoff".into(), vec![part]).write(cache, &staging.path)?;
        cache.keep(&staging, "packed", &id)?
    };
    let file = place.join(FILE);
    Ok(Upload {
        sha256: cache::hash_file(&file)?,
        bytes: size(&file)?,
        file,
        unpacked_bytes,
    })
}

/// Fails if a kernel cannot unpack the files.
pub(crate) fn check_kernel(kernel: &Kernel) -> Result<()> {
    let Some(config) = &kernel.config else {
        return Ok(());
    };
    let text =
        fs::read_to_string(config).with_context(|| format!("cannot read {}", config.display()))?;
    if text.lines().any(|line| line == "CONFIG_RD_ZSTD=y") {
        return Ok(());
    }
    bail!(
        "kernel {} cannot unpack an initramfs of zstd (build it with CONFIG_RD_ZSTD=y)",
        kernel.release
    )
}

/// An uncompressed archive with the secret of a boot, which precedes the others.
pub(crate) fn secret_archive(secret: &str) -> io::Result<Vec<u8>> {
    let entry = Builder::new(SECRET)
        .mode(0o400)
        .set_mode_file_type(ModeFileType::Regular);
    let mut writer = entry.write(Vec::new(), secret.len() as u32);
    writer.write_all(secret.as_bytes())?;
    let mut archive = trailer(writer.finish()?)?;
    while archive.len() % 4 != 0 {
        archive.push(0);
    }
    Ok(archive)
}
