//! What a scheduler counts while it runs.

/// How often things have happened since it was loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Times that a next task was chosen. Of `fifo`, tasks that entered its queue, from which the framework chooses.
    pub picks: u64,
    /// Tasks looked at for that.
    pub scanned: u64,
    /// Times that all tasks got new time at once (2.4).
    pub recalculations: u64,
    /// Times that the active and the expired array changed places (2.6).
    pub exchanges: u64,
    /// Tasks that took the CPU from another at their waking.
    pub preemptions: u64,
    /// Tasks that found no place in the scheduler's table, and were not scheduled by it.
    pub refused: u64,
    /// Times that a lock was taken, on several CPUs.
    pub locks: u64,
    /// Of these, times that another CPU held it.
    pub contended: u64,
    /// Times that a task ran on another CPU than before.
    pub migrations: u64,
    /// Times that a CPU looked for tasks in the queues of others (2.6).
    pub balances: u64,
}

impl Counters {
    /// Reads what the BPF programs keep: `struct counters` of `kernel.h`, in the machine's own byte order.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let (words, []) = bytes.as_chunks::<8>() else {
            return None;
        };
        let words: Vec<u64> = words.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        let [
            picks,
            scanned,
            recalculations,
            exchanges,
            preemptions,
            refused,
            locks,
            contended,
            migrations,
            balances,
        ] = words.try_into().ok()?;
        Some(Self {
            picks,
            scanned,
            recalculations,
            exchanges,
            preemptions,
            refused,
            locks,
            contended,
            migrations,
            balances,
        })
    }

    /// Each with its name.
    pub fn named(&self) -> [(&'static str, u64); 10] {
        [
            ("picks", self.picks),
            ("scanned", self.scanned),
            ("recalculations", self.recalculations),
            ("exchanges", self.exchanges),
            ("preemptions", self.preemptions),
            ("refused", self.refused),
            ("locks", self.locks),
            ("contended", self.contended),
            ("migrations", self.migrations),
            ("balances", self.balances),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_come_in_their_order_and_complete() {
        let bytes: Vec<u8> = (1..=10u64).flat_map(u64::to_ne_bytes).collect();
        let counters = Counters::parse(&bytes).unwrap();
        assert_eq!(
            counters.named().map(|(_, count)| count),
            [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
        );
        assert_eq!((counters.scanned, counters.balances), (2, 10));
        for length in [0, 7, 72, 79, 81, 88] {
            let bytes = [bytes.as_slice(), &[0; 8]].concat();
            assert_eq!(Counters::parse(&bytes[..length]), None, "{length} bytes");
        }
    }
}
