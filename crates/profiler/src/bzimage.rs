//! Unpacks the kernel inside a bzImage, found by its header.

use anyhow::{Context, Result, bail};
use object::LittleEndian;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader as _, ProgramHeader as _};

use crate::unpack;

/// Largest unpacked kernel, in bytes. Debian's has 70 MiB, one with all options 190 MiB.
const MOST_BYTES: u64 = 192 << 20;

/// Segments whose notes are inspected; a kernel has five.
const MOST_SEGMENTS: usize = 64;

/// Notes that are inspected; a kernel has some twenty.
const MOST_NOTES: usize = 4096;

/// Documentation/arch/x86/boot.rst: `setup_sects`, `payload_offset`, `payload_length`.
const SETUP_SECTORS: usize = 0x1f1;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;

/// The ELF file inside a bootable image.
pub fn unpack(image: &[u8]) -> Result<Vec<u8>> {
    if image.get(0x202..0x206) != Some(b"HdrS") {
        bail!("not a bootable x86 kernel");
    }
    let word = |at: usize| {
        let bytes = image.get(at..at + 4).context("kernel image cut off")?;
        Ok::<_, anyhow::Error>(u32::from_le_bytes(bytes.try_into().expect("four bytes")) as usize)
    };
    let sectors = match image[SETUP_SECTORS] {
        0 => 4,
        sectors => usize::from(sectors),
    };
    let start = (sectors + 1) * 512 + word(PAYLOAD_OFFSET)?;
    let payload = image.get(start..start.saturating_add(word(PAYLOAD_LENGTH)?));
    let payload = payload.context("kernel image cut off")?;
    let vmlinux = decompress(payload)?;
    if !vmlinux.starts_with(b"\x7fELF") {
        bail!("no ELF file in the kernel image");
    }
    Ok(vmlinux)
}

/// Whether an unpacked kernel can be booted directly, by the PVH entry that Xen's ELF note names
/// (`XEN_ELFNOTE_PHYS32_ENTRY` in include/xen/interface/elfnote.h).
pub fn has_pvh_entry(vmlinux: &[u8]) -> bool {
    const PHYS32_ENTRY: u32 = 18;
    let endian = LittleEndian;
    let Ok(header) = FileHeader64::<LittleEndian>::parse(vmlinux) else {
        return false;
    };
    let segments = header.program_headers(endian, vmlinux).unwrap_or_default();
    let notes = segments
        .iter()
        .take(MOST_SEGMENTS)
        .filter_map(|segment| segment.notes(endian, vmlinux).ok()?);
    let mut notes = notes
        .flat_map(|notes| notes.map_while(Result::ok))
        .take(MOST_NOTES);
    notes.any(|note| note.name() == b"Xen" && note.n_type(endian) == PHYS32_ENTRY)
}

const CANNOT: &str = "cannot unpack the kernel";

fn decompress(payload: &[u8]) -> Result<Vec<u8>> {
    // All formats but gzip append the unpacked length.
    let body = &payload[..payload.len().saturating_sub(4)];
    match payload {
        [0x1f, 0x8b, ..] => unpack::gzip(payload, MOST_BYTES).context(CANNOT),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => unpack::xz(body, MOST_BYTES).context(CANNOT),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => unpack::zstd(body, MOST_BYTES).context(CANNOT),
        [0x02, 0x21, 0x4c, 0x18, blocks @ ..] => lz4(&blocks[..blocks.len().saturating_sub(4)]),
        [0x7f, b'E', b'L', b'F', ..] => Ok(body.to_vec()),
        [0x5d, 0, 0, ..] => bail!("kernel packed with LZMA (known: lz4, zstd, xz, gzip)"),
        [b'B', b'Z', b'h', ..] => bail!("kernel packed with bzip2 (known: lz4, zstd, xz, gzip)"),
        [0x89, b'L', b'Z', b'O', ..] => {
            bail!("kernel packed with LZO (known: lz4, zstd, xz, gzip)")
        }
        _ => bail!("kernel packed in an unknown way (known: lz4, zstd, xz, gzip)"),
    }
}

/// LZ4's legacy frame: blocks that unpack to up to 8 MiB each, preceded by their length.
fn lz4(mut blocks: &[u8]) -> Result<Vec<u8>> {
    const BLOCK_BYTES: usize = 8 << 20;
    let mut out = Vec::new();
    while let Some((length, rest)) = blocks.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        let block = rest
            .get(..length)
            .context("cannot unpack the kernel (lz4): block cut off")?;
        let body = lz4_flex::block::decompress(block, BLOCK_BYTES);
        out.extend(body.context("cannot unpack the kernel (lz4)")?);
        if out.len() as u64 > MOST_BYTES {
            bail!("kernel larger than {MOST_BYTES} bytes");
        }
        blocks = &rest[length..];
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use base::skip::limits;

    use super::*;

    fn image(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 1024];
        image[SETUP_SECTORS] = 1;
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4]
            .copy_from_slice(&(payload.len() as u32).to_le_bytes());
        image.extend(payload);
        image
    }

    fn body() -> Vec<u8> {
        (0..100_000_u32)
            .flat_map(|number| (number / 7).to_le_bytes())
            .collect()
    }

    fn check(payload: &[u8]) {
        let mut vmlinux = b"\x7fELF".to_vec();
        vmlinux.extend(body());
        assert!(unpack(&image(payload)).unwrap() == vmlinux);
    }

    fn elf() -> Vec<u8> {
        let mut vmlinux = b"\x7fELF".to_vec();
        vmlinux.extend(body());
        vmlinux
    }

    fn with_length(mut packed: Vec<u8>) -> Vec<u8> {
        packed.extend((elf().len() as u32).to_le_bytes());
        packed
    }

    /// An ELF file with one segment, a note of this name and type.
    fn with_note(name: [u8; 4], kind: u32) -> Vec<u8> {
        let mut header = vec![0; 64 + 56];
        header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        for (at, value) in [(16, 2), (18, 62), (54, 56), (56, 1)] {
            header[at] = value;
        }
        header[32] = 64;
        let segment = &mut header[64..];
        for (at, value) in [(0, 4), (8, 120), (32, 24), (40, 24), (48, 4)] {
            segment[at] = value;
        }
        for word in [4, 8, kind] {
            header.extend(word.to_le_bytes());
        }
        header.extend(name);
        header.extend([0; 8]);
        header
    }

    #[test]
    fn a_kernel_with_a_pvh_entry_has_a_xen_note() {
        assert!(has_pvh_entry(&with_note(*b"Xen\0", 18)));
        assert!(!has_pvh_entry(&with_note(*b"Xen\0", 6)));
        assert!(!has_pvh_entry(&with_note(*b"GNU\0", 18)));
        let whole = with_note(*b"Xen\0", 18);
        for length in 0..whole.len() {
            has_pvh_entry(&whole[..length]);
        }
    }

    #[test]
    fn kernels_of_all_packings_are_unpacked() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&elf()).unwrap();
        check(&gzip.finish().unwrap());
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        check(&with_length(ruzstd::encoding::compress_to_vec(
            elf().as_slice(),
            level,
        )));
        let mut lz4 = vec![0x02, 0x21, 0x4c, 0x18];
        for block in elf().chunks(8 << 20) {
            let packed = lz4_flex::block::compress(block);
            lz4.extend((packed.len() as u32).to_le_bytes());
            lz4.extend(packed);
        }
        check(&with_length(lz4));
        check(&with_length(elf()));
    }

    #[test]
    fn errors_name_what_is_no_kernel_or_truncated() {
        let why = |image: &[u8]| format!("{:#}", unpack(image).unwrap_err());
        assert_eq!(why(b"MZ"), "not a bootable x86 kernel");
        assert!(why(&image(b"BZh9 packed")).starts_with("kernel packed with bzip2"));
        let whole = image(&with_length(elf()));
        assert_eq!(why(&whole[..2000]), "kernel image cut off");
        assert_eq!(
            why(&image(&[0x1f, 0x8b, 8, 0]))
                .rsplit_once(':')
                .map(|(start, _)| start),
            Some("cannot unpack the kernel: gzip")
        );
    }

    #[test]
    fn a_kernel_that_unpacks_without_end_is_refused_within_limits() {
        let mut packed = Vec::new();
        let best = flate2::Compression::best();
        let mut writer = flate2::write::GzEncoder::new(&mut packed, best);
        let zeros = vec![0; 1 << 20];
        for _ in 0..=MOST_BYTES >> 20 {
            writer.write_all(&zeros).unwrap();
        }
        writer.finish().unwrap();
        let image = image(&packed);
        let why = limits::refusal(|| unpack(&image));
        assert_eq!(why, "cannot unpack the kernel: gzip: longer than 192 MiB");
    }
}
