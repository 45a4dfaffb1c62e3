//! Kernels that a user gives as files: checks that need no boot.

use std::fs;
use std::path::{Path, PathBuf, absolute};

use anyhow::{Result, bail};
use base::arch::Arch;
use base::input::units::show_bytes;
use plan::kernel::KernelRef;

use super::{config_beside, head, valid_release};

/// Bytes that show for which architecture an image is.
const HEADER_BYTES: usize = 1 << 10;

/// Options without which a guest has no disk or no network; as modules they must come with the kernel.
const DRIVERS: [&str; 5] = [
    "CONFIG_VIRTIO_BLK",
    "CONFIG_VIRTIO_PCI",
    "CONFIG_EXT4_FS",
    "CONFIG_SQUASHFS",
    "CONFIG_VETH",
];

/// Refuses an image that is shorter than its header says.
pub(super) fn refuse_cut_off(path: &Path, image: &[u8], bytes: u64, arch: Arch) -> Result<()> {
    let Some(least) = arch.facts().least_bytes(image) else {
        return Ok(());
    };
    if bytes < least {
        bail!(
            "kernel image is cut off: {} has {bytes} bytes, its header asks for {least} (copy it again)",
            path.display()
        );
    }
    Ok(())
}

/// The modules of an image, where an installation or `make modules_install` puts them.
pub fn modules_beside(vmlinuz: &Path) -> Option<PathBuf> {
    let arch = Arch::of_image(&head(vmlinuz, Some(HEADER_BYTES)).ok()?)?;
    let image = head(vmlinuz, arch.facts().head_bytes()).ok()?;
    let release = valid_release(&image, arch)?;
    let path = absolute(vmlinuz).ok()?;
    let dir = path.parent()?;
    let parent = dir.parent().unwrap_or(dir);
    let places = [
        dir.join("lib/modules").join(release),
        dir.join("modules").join(release),
        dir.join(release),
        parent.join("lib/modules").join(release),
        parent.join("usr/lib/modules").join(release),
    ];
    places.into_iter().find(|place| has_modules(place))
}

fn has_modules(dir: &Path) -> bool {
    dir.join("modules.dep").is_file()
        || dir.join("modules.order").is_file()
        || dir.join("kernel").is_dir()
}

/// What a guest lacks if its kernel's modules are missing; `None` if the kernel has none, or has all needed ones built in.
pub fn lacks_modules(kernel: &KernelRef) -> Option<String> {
    let KernelRef::Path {
        path: vmlinuz,
        modules: None,
    } = kernel
    else {
        return None;
    };
    if vmlinuz.is_dir() {
        return None;
    }
    let config = config_beside(vmlinuz).and_then(|path| fs::read_to_string(path).ok());
    let lacking = match &config {
        Some(config) => {
            let is_module = |name: &&&str| config.lines().any(|line| line == format!("{name}=m"));
            let names: Vec<&str> = DRIVERS.iter().filter(is_module).copied().collect();
            if names.is_empty() {
                return None;
            }
            format!("{} are modules in it", names.join(", "))
        }
        None => "a distribution's kernel has its drivers as modules".into(),
    };
    let place = match modules_beside(vmlinuz) {
        Some(place) => format!("write modules = {:?}", place.display().to_string()),
        None => "write modules = \"DIR\", the directory lib/modules/RELEASE that holds modules.dep"
            .into(),
    };
    Some(format!(
        "kernel without modules: {}, {}; its guest will not come up if it needs any: {lacking} ({place})",
        vmlinuz.display(),
        show_bytes(fs::metadata(vmlinuz).map_or(0, |about| about.len())),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image of release 6.9.1 whose header asks for 2,560 bytes and so many paragraphs of 16.
    fn image(paragraphs: u32) -> Vec<u8> {
        let mut image = vec![0; 2560 + 16 * paragraphs as usize];
        image[0x1f4..0x1f8].copy_from_slice(&paragraphs.to_le_bytes());
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x20e..0x210].copy_from_slice(&0x40u16.to_le_bytes());
        image[0x240..0x248].copy_from_slice(b"6.9.1 #1");
        image
    }

    #[test]
    fn an_image_that_is_cut_off_is_refused_with_both_sizes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bzImage");
        let kernel = KernelRef::path(&path);
        let whole = image(100);
        fs::write(&path, &whole).unwrap();
        super::super::check(&kernel, Arch::X86_64).unwrap();
        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        let why = super::super::check(&kernel, Arch::X86_64)
            .unwrap_err()
            .to_string();
        let why = why.replace(&*dir.path().to_string_lossy(), "DIR");
        assert_eq!(
            why,
            "kernel image is cut off: DIR/bzImage has 4159 bytes, its header asks for 4160 (copy it again)"
        );
    }

    #[test]
    fn an_image_without_modules_is_told_and_those_beside_it_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let boot = dir.path().join("boot");
        fs::create_dir(&boot).unwrap();
        let vmlinuz = boot.join("vmlinuz-6.9.1");
        fs::write(&vmlinuz, image(1)).unwrap();
        let kernel = |modules: Option<PathBuf>| KernelRef::Path {
            path: vmlinuz.clone(),
            modules,
        };
        let lacks = lacks_modules(&kernel(None)).unwrap();
        assert!(lacks.contains("write modules = \"DIR\""), "{lacks}");
        let modules = dir.path().join("lib/modules/6.9.1");
        fs::create_dir_all(modules.join("kernel")).unwrap();
        assert_eq!(modules_beside(&vmlinuz), Some(modules.clone()));
        assert_eq!(lacks_modules(&kernel(Some(modules))), None);
        let config = boot.join("config-6.9.1");
        fs::write(&config, "CONFIG_VIRTIO_BLK=y\nCONFIG_EXT4_FS=m\n").unwrap();
        let lacks = lacks_modules(&kernel(None)).unwrap();
        assert!(lacks.contains("CONFIG_EXT4_FS are modules"), "{lacks}");
        assert!(lacks.contains("lib/modules/6.9.1"), "{lacks}");
        fs::write(&config, "CONFIG_VIRTIO_BLK=y\nCONFIG_EXT4_FS=y\n").unwrap();
        assert_eq!(lacks_modules(&kernel(None)), None);
    }
}
