//! The guest's memory.

use std::fs;

/// Access to a guest's memory; tests use a fake.
pub trait Memory {
    /// Eight bytes at an offset of the guest's RAM.
    fn word(&self, offset: u64) -> Option<u64>;

    /// The guest physical address of a byte in QEMU's memory.
    fn physical(&mut self, host: usize) -> Option<u64>;
}

/// Name of the memory file that the host creates as the guest's RAM.
const NAME: &str = "/memfd:bakeoff-ram";

/// Start of the kernel's image mapping, which maps physical address 0 without KASLR.
const IMAGE: u64 = 0xffff_ffff_8000_0000;

/// Start of the direct mapping, unless the kernel has `page_offset_base`.
pub const DIRECT: u64 = 0xffff_8880_0000_0000;

/// RAM that QEMU has mapped from a memory file.
pub struct Ram {
    start: usize,
    bytes: usize,
}

impl Ram {
    /// RAM that is not found yet, because QEMU maps it after it loads plugins.
    pub fn new() -> Self {
        Self { start: 0, bytes: 0 }
    }

    fn find(&mut self) {
        let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let ends: Vec<(usize, usize)> = maps
            .lines()
            .filter(|line| line.contains(NAME))
            .filter_map(|line| {
                let (start, end) = line.split(' ').next()?.split_once('-')?;
                let number = |text| usize::from_str_radix(text, 16).ok();
                Some((number(start)?, number(end)?))
            })
            .collect();
        // The mapping has several lines if QEMU called madvise on parts of it.
        if let (Some((start, _)), Some((_, end))) = (ends.first(), ends.last()) {
            (self.start, self.bytes) = (*start, end - start);
        }
    }
}

impl Memory for Ram {
    fn word(&self, offset: u64) -> Option<u64> {
        let offset = usize::try_from(offset).ok()?;
        if offset.checked_add(8)? > self.bytes {
            return None;
        }
        // SAFETY: the word lies within the mapping, which QEMU keeps until it exits. The guest does not run
        // meanwhile, because its only CPU is calling.
        Some(unsafe { ((self.start + offset) as *const u64).read_unaligned() })
    }

    fn physical(&mut self, host: usize) -> Option<u64> {
        if self.bytes == 0 {
            self.find();
        }
        let offset = host
            .checked_sub(self.start)
            .filter(|offset| *offset < self.bytes)?;
        Some(address(offset as u64, self.bytes as u64))
    }
}

/// With at least `LOW_LIMIT` of RAM, QEMU's q35 machine puts RAM beyond `LOW` above 4 GiB.
const LOW: u64 = 0x8000_0000;
const LOW_LIMIT: u64 = 0xb000_0000;
const HIGH: u64 = 1 << 32;

/// Offset of a physical address in RAM.
pub fn offset(physical: u64, bytes: u64) -> Option<u64> {
    let offset = match physical {
        low if low < LOW || bytes < LOW_LIMIT => low,
        high => high.checked_sub(HIGH)? + LOW,
    };
    (offset < bytes).then_some(offset)
}

fn address(offset: u64, bytes: u64) -> u64 {
    if offset < LOW || bytes < LOW_LIMIT {
        offset
    } else {
        offset - LOW + HIGH
    }
}

/// The physical address of a kernel address; `direct` is the start of the direct mapping.
pub fn physical_of(address: u64, direct: u64) -> u64 {
    if address >= IMAGE {
        address - IMAGE
    } else {
        address.wrapping_sub(direct)
    }
}
