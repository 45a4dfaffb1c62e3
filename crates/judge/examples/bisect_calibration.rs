//! Counts errors of simulated bisections with known answers, and writes the table in `docs/howto/bisect.md`: `make bisect-calibration`.

mod common;

use std::fmt::Write as _;
use std::ops::Range;
use std::time::Instant;

use judge::topics::bisect::find::MAX_BLOCKS;
use judge::topics::bisect::find::simulation::{Tally, Terms, run, run_plain};
use plan::Design;
use stats::noise_models::{COUNTED, MODELS, Noise, QUIET, REFERENCE};

/// Simulated bisections per line.
const SIMULATIONS: u64 = 500;

const DESIGN: Design = Design {
    error_rate: 0.01,
    max_blocks: MAX_BLOCKS,
    seed: 0,
    ..Design::DEFAULTS
};

fn main() -> std::io::Result<()> {
    let begun = Instant::now();
    let mut table = String::from(
        "| machine | change | steps | wrong | undecided | blocks | wrong answers | bound | plain, 1 block: wrong | blocks | plain, 9 blocks: wrong | blocks |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for (noise, effect, steps) in rows() {
        let line = line(noise, effect, steps);
        print!("{line}");
        table.push_str(&line);
    }
    println!("{} s", begun.elapsed().as_secs());
    common::write_table("howto/bisect.md", "bisect-calibration", &table)
}

fn rows() -> Vec<(Noise, f64, usize)> {
    let mut rows = Vec::new();
    for (noise, effect) in [
        (COUNTED, 0.02),
        (QUIET, 0.05),
        (REFERENCE, 0.1),
        (REFERENCE, 0.05),
    ] {
        rows.extend([2, 8, 64, 4096].map(|steps| (noise, effect, steps)));
    }
    rows.extend(MODELS.map(|noise| (noise, 0.1, 64)));
    rows
}

fn line(noise: Noise, effect: f64, steps: usize) -> String {
    let terms = Terms {
        noise,
        effect,
        steps,
        design: &DESIGN,
        first_cost: 1.0,
    };
    let weighted = count(&|seeds| run(terms, seeds));
    let plain = [1, 9].map(|repeats| count(&|seeds| run_plain(terms, repeats, seeds)));
    let mut line = String::new();
    writeln!(
        line,
        "| {} | {:+.0} % | {steps} | {} of {} | {} | {:.1} | {:.1} % | {:.1} | {} | {:.0} | {} | {:.0} |",
        noise.name,
        100.0 * effect,
        weighted.wrong,
        weighted.all,
        weighted.undecided,
        weighted.mean_blocks(),
        100.0 * f64::from(weighted.wrong_answers) / f64::from(weighted.blocks.max(1)),
        weighted.bound(steps, DESIGN.error_rate),
        plain[0].wrong,
        plain[0].mean_blocks(),
        plain[1].wrong,
        plain[1].mean_blocks(),
    )
    .expect("writing to a string never fails");
    line
}

fn count(simulate: &(dyn Fn(Range<u64>) -> Tally + Sync)) -> Tally {
    let tallies = common::on_all_cores(SIMULATIONS, simulate).into_iter();
    tallies.fold(Tally::default(), Tally::and)
}
