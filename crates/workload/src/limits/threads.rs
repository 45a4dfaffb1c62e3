//! Threads of one process, each of which answers when it starts and counts itself when all exist.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{RwLock, mpsc};
use std::thread;

use anyhow::{Context, Result};

use crate::context::WorkloadContext;
use crate::limits::growth::{Grown, Growth, all_work};

/// The smallest stack that every libc accepts.
const STACK_BYTES: usize = 16 << 10;

pub(super) fn reach(_: &WorkloadContext, growth: &mut Growth<'_>, wanted: u64) -> Result<Grown> {
    let ended = AtomicU64::new(0);
    let (sender, started) = mpsc::channel();
    let gate = RwLock::new(());
    let grown = thread::scope(|scope| {
        let closed = gate.write().expect("nobody panics while holding the gate");
        let grown = growth.grow("threads", wanted, &mut |_| {
            let (gate, ended, sender) = (&gate, &ended, sender.clone());
            let builder = thread::Builder::new().stack_size(STACK_BYTES);
            builder.spawn_scoped(scope, move || {
                let _ = sender.send(());
                drop(gate.read());
                ended.fetch_add(1, Ordering::Relaxed);
            })?;
            // Waits until the thread has run. Yielding instead would wait for the first turn of a
            // new task, which takes 12 times as long under CFS as under EEVDF.
            started.recv().context("hear from a thread")
        });
        drop(closed);
        grown
    })?;
    all_work(&grown, ended.load(Ordering::Relaxed))?;
    Ok(grown)
}
