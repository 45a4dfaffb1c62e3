//! Compares the load generator with its peers: same machine, same server, interleaved runs in
//! random order.
//!
//! ```text
//! cargo bench -p bakeoff-load --bench load             measure everything, write target/bench-load.md (make bench-load)
//! cargo bench -p bakeoff-load --bench load -- --quick  one round of everything, printed only
//! cargo test  -p bakeoff-load --bench load             tests of the bench, without the peers
//! ```
//! Every client, including bakeoff's, is a child process, so all are measured in the same way. The
//! server has CPU 0 and the client CPU 1. The bench must never leave a server or a file behind.

mod bar;
mod baseline;
mod child;
mod client;
mod contest;
mod host;
mod late;
mod page;
mod participants;
mod peers;
mod ratio;
mod reach;
mod rounds;
mod server;
mod smoke;

use std::env;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::child::Runner;
use crate::participants::Participants;
use crate::rounds::Effort;

fn main() -> Result<()> {
    let typed: Vec<String> = env::args().skip(1).collect();
    let has = |word: &str| typed.iter().any(|each| each == word);
    match typed.first().map(String::as_str) {
        Some(client::ROLE) => client::run(typed.get(1).context("a client needs its part")?),
        Some(baseline::ROLE) => {
            baseline::serve(typed.get(1).context("the baseline server needs a file")?)
        }
        Some(late::ROLE) => late::serve(typed.get(1).context("the late server needs a time")?),
        // Test runners list test names; this test has none.
        Some("--list") => Ok(()),
        Some(_) if has("--bench") && has("--quick") => {
            let page = measure(Effort::QUICK)?;
            print!("{page}");
            Ok(())
        }
        Some(_) if has("--bench") => keep(&measure(Effort::FULL)?),
        Some(_) | None => smoke::run(),
    }
}

/// The whole experiment, as a page.
fn measure(effort: Effort) -> Result<String> {
    let runner = Runner::new()?;
    let participants = Participants::open(&runner)?;
    let before = host::HostUsage::take(participants.servers())?;
    let contests = rounds::run_all(&runner, &participants, effort)?;
    let others =
        host::HostUsage::take(participants.servers())?.others_since(&before, runner.used());
    let bar = bar::measure(&runner, &participants, effort)?;
    Ok(page::write(&page::Page {
        host: host::describe()?,
        load_before: before.load,
        others,
        effort,
        call_ns: host::call_ns(),
        peers: &participants.peers,
        contests: &contests,
        bar: &bar,
    }))
}

fn keep(page: &str) -> Result<()> {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench-load.md");
    std::fs::write(&place, page).context("cannot write target/bench-load.md")?;
    println!("written: target/bench-load.md");
    Ok(())
}
