//! Threads of one process that are all alive: each counts itself when it begins and once more when all are there.

use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::Result;

use crate::context::WorkloadContext;
use crate::limits::growth::{Grown, Growth, all_work};

/// The smallest stack that every libc accepts.
const STACK_BYTES: usize = 16 << 10;

pub(super) fn reach(_: &WorkloadContext, growth: &mut Growth<'_>, wanted: u64) -> Result<Grown> {
    let (begun, ended) = (AtomicU64::new(0), AtomicU64::new(0));
    let gate = RwLock::new(());
    let grown = thread::scope(|scope| {
        let closed = gate.write().expect("nobody panics while holding the gate");
        let grown = growth.grow("threads", wanted, &mut |number| {
            let (gate, begun, ended) = (&gate, &begun, &ended);
            let builder = thread::Builder::new().stack_size(STACK_BYTES);
            builder.spawn_scoped(scope, move || {
                begun.fetch_add(1, Ordering::Relaxed);
                drop(gate.read());
                ended.fetch_add(1, Ordering::Relaxed);
            })?;
            // One that was made has also run.
            while begun.load(Ordering::Relaxed) <= number {
                thread::yield_now();
            }
            Ok(())
        });
        drop(closed);
        grown
    })?;
    all_work(&grown, ended.load(Ordering::Relaxed))?;
    Ok(grown)
}
