//! Unpacks untrusted data within limits, because a few bytes can unpack to any number.

use anyhow::{Context as _, Result, anyhow};
use base::input::file;
use flate2::read::GzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::{DEFAULT_MAX_WINDOW_SIZE, StreamingDecoder};

/// Memory for a dictionary of xz, in KiB; kernels are packed with 128 MiB.
const XZ_KIB: u32 = 144 << 10;

/// Unpacks a zstd frame of at most `most_bytes`; its window is no larger.
pub fn zstd(packed: &[u8], most_bytes: u64) -> Result<Vec<u8>> {
    let window_bytes = most_bytes.min(DEFAULT_MAX_WINDOW_SIZE);
    let decoder = StreamingDecoder::new_with_max_window_size(packed, window_bytes);
    let decoder = decoder.map_err(|why| anyhow!("{why}")).context("zstd")?;
    file::read_all(decoder, most_bytes).context("zstd")
}

/// Unpacks an xz stream of at most `most_bytes`.
pub fn xz(packed: &[u8], most_bytes: u64) -> Result<Vec<u8>> {
    let reader = XzReader::new_mem_limit(packed, true, XZ_KIB);
    file::read_all(reader, most_bytes).context("xz")
}

/// Unpacks a gzip member of at most `most_bytes`.
pub fn gzip(packed: &[u8], most_bytes: u64) -> Result<Vec<u8>> {
    file::read_all(GzDecoder::new(packed), most_bytes).context("gzip")
}
