//! Clients on slow links: each reads at a limited speed, so the server sees a slow receiver.
//!
//! Time starts with the first bytes of a response. Each piece is read when a link of that speed
//! would have delivered its last byte. After a late timer the next piece is larger, so the average
//! speed is kept.

use crate::clients::PeerState;

/// Size of a piece: the payload of a packet.
const PIECE_BYTES: u64 = 1460;

/// Smallest receive buffer worth asking for.
const WINDOW_BYTES: u64 = 8192;

/// How fast one client reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BandwidthLimit {
    bytes_per_s: f64,
    since_ns: u64,
    taken_bytes: u64,
    /// Whether bytes wait for a timer before they may be read.
    pub(crate) waits: bool,
    /// State of the server's side after the waiting bytes.
    pub(crate) peer: PeerState,
}

impl BandwidthLimit {
    pub(crate) fn new(bits_per_s: u32) -> Self {
        Self {
            bytes_per_s: f64::from(bits_per_s) / 8.0,
            since_ns: 0,
            taken_bytes: 0,
            waits: false,
            peer: PeerState::Open,
        }
    }

    /// Size of a receive buffer for half a second, so that most bytes wait in the server.
    pub(crate) fn window_bytes(self) -> u32 {
        (self.bytes_per_s as u64 / 2).clamp(WINDOW_BYTES, 1 << 20) as u32
    }

    /// A new connection starts.
    pub(crate) fn open(&mut self) {
        self.waits = false;
        self.peer = PeerState::Open;
    }

    /// The first bytes of a response arrived.
    pub(crate) fn begin(&mut self, now_ns: u64) {
        self.since_ns = now_ns;
        self.taken_bytes = 0;
    }

    /// When the next piece may be read; `left` is the rest of the response in bytes.
    pub(crate) fn next_ns(self, left: u64) -> u64 {
        let bytes = self.taken_bytes + left.clamp(1, PIECE_BYTES);
        self.since_ns + (bytes as f64 * 1e9 / self.bytes_per_s) as u64
    }

    /// Number of bytes that may be read now.
    pub(crate) fn arrived(self, now_ns: u64) -> usize {
        let passed_ns = now_ns.saturating_sub(self.since_ns);
        // Rounded to the nearest byte, because `next_ns` rounds down to a nanosecond.
        let bytes = (passed_ns as f64 * self.bytes_per_s / 1e9).round() as u64;
        bytes.saturating_sub(self.taken_bytes) as usize
    }

    pub(crate) fn take(&mut self, bytes: usize) {
        self.taken_bytes += bytes as u64;
    }

    /// Relative error of the speed since the first bytes, in millionths.
    pub(crate) fn error_ppm(self, now_ns: u64) -> u64 {
        let due_ns = self.taken_bytes as f64 * 1e9 / self.bytes_per_s;
        let passed_ns = now_ns.saturating_sub(self.since_ns) as f64;
        ((passed_ns / due_ns - 1.0).abs() * 1e6).round() as u64
    }

    /// Speed since `from_ns` as a share of the line's speed, in millionths.
    pub(crate) fn share_ppm(self, from_ns: u64, now_ns: u64) -> u64 {
        let due_ns = self.taken_bytes as f64 * 1e9 / self.bytes_per_s;
        let passed_ns = now_ns.saturating_sub(from_ns).max(1) as f64;
        (due_ns / passed_ns * 1e6).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_keeps_its_speed() {
        let mut limit = BandwidthLimit::new(28_800);
        limit.begin(5);
        let (mut left, mut now_ns) = (25_000, 5);
        while left > 0 {
            now_ns = limit.next_ns(left);
            let bytes = limit.arrived(now_ns);
            assert!(0 < bytes && bytes <= 1460, "{bytes} at once");
            limit.take(bytes);
            left -= bytes as u64;
        }
        assert_eq!(limit.error_ppm(now_ns), 0);
        assert_eq!(limit.error_ppm(now_ns + (now_ns - 5) / 100), 10_000);
        // If the server takes as long as the line, the share is one half.
        assert_eq!(limit.share_ppm(5, now_ns), 1_000_000);
        assert_eq!(limit.share_ppm(5, now_ns + now_ns - 5), 500_000);
        let seconds = (now_ns - 5) as f64 / 1e9;
        assert!((seconds - 25_000.0 / 3600.0).abs() < 1e-6, "{seconds} s");
    }

    #[test]
    fn a_late_timer_loses_no_speed() {
        let mut limit = BandwidthLimit::new(56_000);
        limit.begin(0);
        for second in 1..=10 {
            limit.take(limit.arrived(second * 1_000_000_000));
        }
        assert_eq!(limit.taken_bytes, 70_000);
        assert_eq!(
            limit.next_ns(7000),
            10_000_000_000 + 1460 * 1_000_000_000 / 7000
        );
    }
}
