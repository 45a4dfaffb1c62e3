//! Functions that the calibrations share.

use std::ops::Range;
use std::path::Path;
use std::{fs, io, thread};

/// Simulates with seeds from 0 to `seeds`, on all cores.
pub(crate) fn on_all_cores<T: Send>(
    seeds: u64,
    simulate: &(dyn Fn(Range<u64>) -> T + Sync),
) -> Vec<T> {
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    thread::scope(|scope| {
        let share = |core: u64| seeds * core / cores..seeds * (core + 1) / cores;
        let workers: Vec<_> = (0..cores)
            .map(|core| scope.spawn(move || simulate(share(core))))
            .collect();
        let tallies = workers.into_iter().map(thread::ScopedJoinHandle::join);
        tallies
            .map(|tally| tally.expect("simulations do not panic"))
            .collect()
    })
}

/// Replaces the table between the marks of this name in a page of `docs/`.
pub(crate) fn write_table(page: &str, name: &str, table: &str) -> io::Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(page);
    let text = fs::read_to_string(&path)?;
    let (begin, end) = (
        format!("<!-- {name}: begin -->\n"),
        format!("<!-- {name}: end -->"),
    );
    let (head, rest) = text
        .split_once(&begin)
        .expect("the page has a mark where the table begins");
    let (_, tail) = rest
        .split_once(&end)
        .expect("the page has a mark where the table ends");
    fs::write(path, format!("{head}{begin}{table}{end}{tail}"))
}
