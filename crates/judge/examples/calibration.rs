//! Counts errors of the rule on simulated machines with known differences, and errors of its estimates under order effects.
//! Writes the tables in `docs/method/statistics.md`: `make verdict-calibration`.

mod common;

use std::fmt::Write as _;
use std::time::Instant;

use plan::Design;
use stats::calibration::{Estimates, OrderTerms, Tally, Terms, estimates, run};
use stats::noise_models::{MODELS, Noise, QUIET, REFERENCE};

/// One line of the table.
struct Row {
    noise: Noise,
    /// The relative difference of the arm; positive if it is better.
    effect: f64,
    metrics: u32,
    max_blocks: u32,
    simulations: u32,
}

fn main() -> std::io::Result<()> {
    let begun = Instant::now();
    common::write_table("method/statistics.md", "order effects", &order_effects())?;
    let mut table = String::from(
        "| machine | truth | metrics | most blocks | better | worse | equivalent | undecided | mean blocks | mean change of better and worse |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows() {
        let line = row.line();
        print!("{line}");
        table.push_str(&line);
    }
    println!("{} s", begun.elapsed().as_secs());
    common::write_table("method/statistics.md", "calibration", &table)
}

/// Number of blocks; number of blocks in which the arm runs second; seeds, of which about 1000 draw such an order.
const ORDERS: [(u32, Option<u32>, u64); 6] = [
    (6, None, 1000),
    (8, None, 1000),
    (12, None, 1000),
    (20, None, 1000),
    (6, Some(1), 10_700),
    (12, Some(2), 62_000),
];

/// The table of errors of estimates and intervals, by order and order effect.
fn order_effects() -> String {
    let mut table = String::from(
        "| blocks | arm second in | second trial faster by | runs | estimate off by | outside its interval | against its verdict | intervals that hold the truth |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for (blocks, arm_second, seeds) in ORDERS {
        for second in [0.0, 2.0, 5.0, 10.0] {
            let design = design(0.05, 4, blocks);
            let terms = OrderTerms {
                noise: 0.01,
                effect: 3.0,
                second,
                arm_second,
                design: &design,
            };
            let simulate = |seeds| estimates(terms, seeds);
            let parts = common::on_all_cores(seeds, &simulate).into_iter();
            let estimates = parts.fold(Estimates::default(), Estimates::and);
            let order = arm_second.map_or("as drawn".to_owned(), |blocks| blocks.to_string());
            let line = format!(
                "| {blocks} | {order} | {second} | {} | {:+.3} | {} | {} | {} of {} |\n",
                estimates.all,
                estimates.mean_error(),
                estimates.outside,
                estimates.contradicted,
                estimates.holding,
                estimates.with_interval,
            );
            print!("{line}");
            table.push_str(&line);
        }
    }
    table
}

fn design(error_rate: f64, min_blocks: u32, max_blocks: u32) -> Design {
    Design {
        margin: 0.02,
        error_rate,
        min_blocks,
        max_blocks,
        seed: 0,
        ..Design::DEFAULTS
    }
}

fn rows() -> Vec<Row> {
    let row = |noise, effect, simulations| Row {
        noise,
        effect,
        metrics: 1,
        max_blocks: 150,
        simulations,
    };
    let mut rows = vec![row(REFERENCE, 0.0, 500)];
    // At one margin, 200 simulations are too few: the required 95 % is only 1.5 standard errors away.
    let effects = [
        (-0.01, 200),
        (-0.02, 2000),
        (-0.05, 200),
        (-0.1, 200),
        (-0.2, 200),
    ];
    rows.extend(effects.map(|(effect, simulations)| row(REFERENCE, effect, simulations)));
    rows.extend([0.0, -0.02].map(|effect| Row {
        max_blocks: 32,
        ..row(QUIET, effect, 200)
    }));
    rows.extend(MODELS.map(|noise| row(noise, 0.0, 500)));
    rows.extend(MODELS.map(|noise| row(noise, -0.05, 100)));
    rows.push(Row {
        metrics: 8,
        ..row(REFERENCE, 0.0, 1000)
    });
    rows
}

impl Row {
    fn line(&self) -> String {
        let tally = self.count();
        let truth = match self.effect {
            0.0 => "same".to_owned(),
            effect => format!("{:+.0} %", 100.0 * effect),
        };
        // With several metrics, a simulation may have several verdicts.
        let undecided = match self.metrics {
            1 => (tally.all - tally.better - tally.worse - tally.equivalent).to_string(),
            _ => "-".to_owned(),
        };
        let change = match tally.mean_change() {
            // The few verdicts on equal arms are errors of both signs.
            Some(change) if self.metrics == 1 && self.effect != 0.0 => {
                format!("{:+.2} %", 100.0 * change)
            }
            Some(_) | None => "-".to_owned(),
        };
        let mut line = String::new();
        writeln!(
            line,
            "| {} | {truth} | {} | {} | {} of {} | {} | {} | {undecided} | {:.0} | {change} |",
            self.noise.name,
            self.metrics,
            self.max_blocks,
            tally.better,
            tally.all,
            tally.worse,
            tally.equivalent,
            tally.mean_blocks(),
        )
        .expect("writing to a string never fails");
        line
    }

    fn count(&self) -> Tally {
        let design = design(0.005, 8, self.max_blocks);
        let terms = Terms {
            noise: self.noise,
            effect: self.effect,
            design: &design,
            metrics: self.metrics,
        };
        let simulate = |seeds| run(terms, seeds);
        let tallies = common::on_all_cores(u64::from(self.simulations), &simulate).into_iter();
        tallies.fold(Tally::default(), Tally::and)
    }
}
