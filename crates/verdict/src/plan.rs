//! Planning: at how many blocks to look, how much error to spend there, how many blocks it will take.
//!
//! ```text
//! looks        every block from the plan's min_blocks to 24, then every second one, and the last
//! information  t = n (margin / s)^2 / 28, at least n / max_blocks, at most n / 24        s: `score::planning_scale`
//! spent        a(t) = error rate * t
//! ```
//! Information grows faster where noise is small, so that a quiet machine may spend its error early. It is a
//! function of sizes alone and so cannot favour an arm.

use record::plan::Design;

use crate::score::{centred, planning_scale};

/// Information that is enough for a difference of one margin.
const ENOUGH: f64 = 28.0;

/// Blocks over which the error is spread at the least.
const SPREAD: u32 = 24;

/// Until this block each is looked at.
const EACH: u32 = 24;

/// A look: after `blocks` blocks, with a share `information` of the error spent by then.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Look {
    pub(crate) blocks: usize,
    pub(crate) information: f64,
}

/// The looks at the contrasts of a primary metric so far; `second` as in `centred`.
pub(crate) fn looks(contrasts: &[f64], second: &[f64], margin: f64, design: &Design) -> Vec<Look> {
    let (mut looks, mut before) = (Vec::new(), 0.0f64);
    for blocks in due(contrasts.len() as u32, design) {
        let n = blocks as usize;
        let scale = planning_scale(&centred(&contrasts[..n], &second[..n]).0);
        let wanted = f64::from(blocks) * (margin / scale).powi(2) / ENOUGH;
        let information = if blocks == design.max_blocks {
            1.0
        } else {
            let (least, most) = bounds(blocks, design);
            before.max(wanted.max(least).min(most)).min(1.0)
        };
        before = information;
        looks.push(Look {
            blocks: n,
            information,
        });
        if information >= 1.0 {
            break;
        }
    }
    looks
}

fn due(blocks: u32, design: &Design) -> impl Iterator<Item = u32> {
    let (first, last) = (design.min_blocks.max(1), design.max_blocks);
    let is_due = move |n: &u32| *n <= EACH || (*n - EACH).is_multiple_of(2) || *n == last;
    (first..=blocks.min(last)).filter(is_due)
}

fn bounds(blocks: u32, design: &Design) -> (f64, f64) {
    let spread = SPREAD.min(design.max_blocks);
    let share = |of: u32| f64::from(blocks) / f64::from(of);
    (share(design.max_blocks), share(spread))
}

/// The fewest blocks after which a difference can be told at all: by then the coins must have fallen in more ways
/// than may be mistaken for one. `None` when the plan's most is too few.
pub fn smallest(error_rate: f64, design: &Design) -> Option<u32> {
    let first = design.min_blocks.max(1);
    (first..=design.max_blocks).find(|blocks| {
        let information = if *blocks == design.max_blocks {
            1.0
        } else {
            bounds(*blocks, design).1.min(1.0)
        };
        // All coins one way, or all the other.
        (-f64::from(blocks - 1)).exp2() <= error_rate * information
    })
}

/// Blocks that find a difference of one margin in at least 95 of 100 runs, at a noise of `scale` in paired
/// log-ratios. Measured by simulation: 24 (s / margin)^2 at an error rate of 1 %, 20 at 5 %.
pub fn needed(scale: f64, margin: f64, error_rate: f64) -> u32 {
    (factor(error_rate) * (scale / margin).powi(2))
        .ceil()
        .clamp(1.0, f64::from(u32::MAX)) as u32
}

/// The smallest difference that `blocks` blocks show in at least 95 of 100 runs: the inverse of `needed`.
pub fn shown(scale: f64, blocks: u32, error_rate: f64) -> f64 {
    scale * (factor(error_rate) / f64::from(blocks)).sqrt()
}

/// Blocks after which a verdict falls on average where the truth is `effect`: 12.5 (s / effect)^2 to tell a
/// difference, 15 (s / room)^2 to tell that it lies within the margin, at an error rate of 1 %.
pub(crate) fn expected(scale: f64, effect: f64, margin: f64, error_rate: f64) -> u32 {
    let room = margin - effect.abs();
    let tells = 12.5 * (scale / effect).powi(2);
    let equals = if room > 0.0 {
        15.0 * (scale / room).powi(2)
    } else {
        f64::INFINITY
    };
    let blocks = tells.min(equals) * factor(error_rate) / factor(0.01);
    blocks.ceil().clamp(1.0, f64::from(u32::MAX)) as u32
}

fn factor(error_rate: f64) -> f64 {
    (20.0 + 4.0 * (0.05 / error_rate).ln() / 5f64.ln()).max(10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn design(min_blocks: u32, max_blocks: u32) -> Design {
        Design {
            margin: 0.02,
            error_rate: 0.01,
            min_blocks,
            max_blocks,
            seed: 1,
        }
    }

    #[test]
    fn each_block_is_looked_at_to_the_24th_then_every_second_and_the_last() {
        let all: Vec<u32> = due(31, &design(22, 31)).collect();
        assert_eq!(all, [22, 23, 24, 26, 28, 30, 31]);
        assert_eq!(due(29, &design(22, 31)).last(), Some(28));
    }

    #[test]
    fn information_never_falls_and_ends_whole() {
        let x: Vec<f64> = (0..60).map(|n| f64::from(n % 7) * 0.01 - 0.03).collect();
        let second: Vec<f64> = (0..60)
            .map(|n| if n % 3 == 0 { 1.0 } else { -1.0 })
            .collect();
        let looks = looks(&x, &second, 0.02, &design(8, 60));
        let rises = looks
            .windows(2)
            .all(|two| two[0].information <= two[1].information);
        assert!(rises && looks.last().unwrap().information >= 1.0);
        assert!(looks[0].information <= 8.0 / 24.0);
    }

    #[test]
    fn the_fewest_blocks_follow_from_the_error_rate() {
        assert_eq!(smallest(0.005, &design(8, 150)), Some(10));
        assert_eq!(smallest(0.05, &design(2, 6)), Some(6));
        assert_eq!(smallest(0.005, &design(2, 6)), None);
    }

    #[test]
    fn a_quarter_of_the_noise_needs_a_sixteenth_of_the_blocks() {
        assert_eq!(needed(0.049, 0.02, 0.01), 145);
        assert_eq!(needed(0.049, 0.02, 0.05), 121);
        assert_eq!(needed(0.02, 0.02, 0.01), 24);
        assert!((shown(0.02, 24, 0.01) - 0.02).abs() < 1e-12);
    }
}
