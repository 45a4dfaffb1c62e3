//! The guest's memory.

use std::fs;

use crate::decode::Isa;

/// Access to a guest's memory; tests use a fake.
pub trait Memory {
    /// Eight bytes at a kernel address.
    fn word(&self, address: u64) -> Option<u64>;

    /// The guest physical address of a byte in QEMU's memory.
    fn physical(&mut self, host: usize) -> Option<u64>;
}

/// Name of the memory file that the host creates as the guest's RAM.
const NAME: &str = "/memfd:bakeoff-ram";

/// RAM that QEMU has mapped from a memory file.
pub struct Ram {
    isa: Isa,
    read: fn(u64) -> Option<u64>,
    start: usize,
    bytes: usize,
}

impl Ram {
    /// RAM that is not found yet, because QEMU maps it after it loads plugins. `read` reads a word at a kernel address.
    pub fn new(isa: Isa, read: fn(u64) -> Option<u64>) -> Self {
        Self {
            isa,
            read,
            start: 0,
            bytes: 0,
        }
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
    fn word(&self, address: u64) -> Option<u64> {
        (self.read)(address)
    }

    fn physical(&mut self, host: usize) -> Option<u64> {
        if self.bytes == 0 {
            self.find();
        }
        let offset = host
            .checked_sub(self.start)
            .filter(|offset| *offset < self.bytes)?;
        Some(address(self.isa, offset as u64, self.bytes as u64))
    }
}

/// With at least `LOW_LIMIT` of RAM, QEMU's q35 machine puts RAM beyond `LOW` above 4 GiB.
const LOW: u64 = 0x8000_0000;
const LOW_LIMIT: u64 = 0xb000_0000;
const HIGH: u64 = 1 << 32;

/// Where QEMU's virt machine of Arm puts RAM.
const ARM_START: u64 = 0x4000_0000;

/// The physical address of an offset in RAM of this size.
pub fn address(isa: Isa, offset: u64, bytes: u64) -> u64 {
    match isa {
        Isa::Aarch64 => offset + ARM_START,
        Isa::X86_64 if offset < LOW || bytes < LOW_LIMIT => offset,
        Isa::X86_64 => offset - LOW + HIGH,
    }
}
