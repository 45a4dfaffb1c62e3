//! Axes: where a value lies between two ends, and which values are named there.
//!
//! A chart is as wide as its window, and nobody knows that width when the page is written. So ticks come in two
//! kinds: those that a phone has room for too, and those that are drawn on wider windows only.

use crate::words;

/// How values are spread over an axis.
#[derive(Clone, Copy)]
enum Scale {
    Linear,
    /// All values are above zero.
    Log,
    /// Values are ratios. Even in the logarithm of the ratio up to about `knee`, and in the logarithm of that beyond
    /// it: a change of 1 % and one of 4000 % can both be read.
    Change {
        knee: f64,
    },
}

impl Scale {
    fn spread(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Log => value.ln(),
            Self::Change { knee } => (ratio_log(value) / knee).asinh(),
        }
    }
}

/// Largest and smallest ratio that have places of their own.
const FARTHEST: f64 = 1000.0;

/// Logarithm of a ratio, kept within what an axis shows.
pub(crate) fn ratio_log(ratio: f64) -> f64 {
    let most = FARTHEST.ln();
    ratio.ln().clamp(-most, most)
}

/// Whether a ratio is drawn at the end of its axis, as its place lies beyond.
pub(crate) fn is_beyond(ratio: f64) -> bool {
    ratio.ln().abs() > FARTHEST.ln()
}

/// A named value of an axis.
pub(crate) struct Tick {
    /// Its place as a share of the axis.
    pub(crate) at: f64,
    pub(crate) text: String,
    /// Left out where the window is narrow.
    pub(crate) is_extra: bool,
}

/// The length of an axis in pixels, at the least and in a wide window, and what its labels take of that.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    narrow: f64,
    wide: f64,
    per_letter: f64,
    per_label: f64,
}

/// Labels stand side by side.
pub(crate) const ACROSS: Room = Room {
    narrow: 270.0,
    wide: 820.0,
    per_letter: 7.0,
    per_label: 16.0,
};

/// As `ACROSS`, between two columns of text.
pub(crate) const BETWEEN: Room = Room {
    narrow: 300.0,
    wide: 640.0,
    per_label: 12.0,
    ..ACROSS
};

/// Labels stand one above the other.
pub(crate) const UPWARDS: Room = Room {
    narrow: 240.0,
    wide: 240.0,
    per_letter: 0.0,
    per_label: 34.0,
};

/// As `UPWARDS`, for a logarithmic axis, where few values are round.
pub(crate) const UPWARDS_LOG: Room = Room {
    per_label: 24.0,
    ..UPWARDS
};

impl Room {
    /// Room that a label takes.
    fn needs(self, text: &str) -> f64 {
        text.chars().count() as f64 * self.per_letter + self.per_label
    }
}

/// A value that might be named: the lower the rank, the sooner.
struct Candidate {
    value: f64,
    text: String,
    rank: u32,
}

/// One axis of a chart.
pub(crate) struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    pub(crate) ticks: Vec<Tick>,
    /// Whether the value zero (of a change, none) lies on the axis and is worth a line.
    pub(crate) origin: Option<f64>,
}

impl Axis {
    /// An axis between two values, with round numbers on it.
    pub(crate) fn linear(low: f64, high: f64, room: Room) -> Self {
        Self::stepped(low, high, room, 0.0)
    }

    /// As `linear`, for whole numbers: blocks, seconds.
    pub(crate) fn whole(low: f64, high: f64, room: Room) -> Self {
        Self::stepped(low, high, room, 1.0)
    }

    fn stepped(low: f64, high: f64, room: Room, least: f64) -> Self {
        let mut axis = Self::empty(Scale::Linear, low, high);
        axis.origin = (low < 0.0 && 0.0 < high).then(|| axis.at(0.0));
        axis.ticks = axis.steps(room, least, number);
        axis
    }

    /// A logarithmic axis with 1, 2 and 5 of each decade, or what of them has room. Values are above zero.
    pub(crate) fn log(low: f64, high: f64, room: Room) -> Self {
        let axis = Self::empty(Scale::Log, low, high);
        let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        let mut candidates = Vec::new();
        for decade in first..=last {
            for (digit, rank) in [(1.0, 0), (2.0, 1), (5.0, 1)] {
                let value = digit * 10f64.powi(decade);
                let text = number(value, (-decade).max(0) as usize);
                candidates.push(Candidate { value, text, rank });
            }
        }
        let few = candidates
            .iter()
            .filter(|one| (low..=high).contains(&one.value));
        if few.count() < 3 {
            // Less than a decade: round steps, placed logarithmically.
            let mut axis = axis;
            axis.ticks = axis.steps(room, 0.0, number);
            return axis;
        }
        axis.named(candidates, room)
    }

    /// A logarithmic axis with given values named; the sooner in the list, the more important.
    pub(crate) fn log_named(low: f64, high: f64, named: &[(f64, &str)], room: Room) -> Self {
        let axis = Self::empty(Scale::Log, low, high);
        let candidates = named
            .iter()
            .enumerate()
            .map(|(place, (value, text))| Candidate {
                value: *value,
                text: (*text).into(),
                rank: place as u32,
            });
        axis.named(candidates.collect(), room)
    }

    /// A linear axis on which each of some values is named, where it has room.
    pub(crate) fn named_at(low: f64, high: f64, values: &[u32], room: Room) -> Self {
        let axis = Self::empty(Scale::Linear, low, high);
        let last = values.len().saturating_sub(1);
        let candidates = values.iter().enumerate().map(|(place, value)| Candidate {
            value: f64::from(*value),
            text: words::count(u64::from(*value)),
            rank: u32::from(place != 0 && place != last),
        });
        axis.named(candidates.collect(), room)
    }

    /// Ratios as changes in percent, `knee` being the change (a logarithm) about which the axis goes from even to
    /// logarithmic.
    pub(crate) fn change(low: f64, high: f64, knee: f64, room: Room) -> Self {
        let mut axis = Self::empty(Scale::Change { knee }, low, high);
        axis.origin = (low < 1.0 && 1.0 < high).then(|| axis.at(1.0));
        let farthest = ratio_log(low).abs().max(ratio_log(high).abs());
        if farthest > 3.0 * knee {
            return axis.named(changes(), room);
        }
        // Round numbers of percent, as far as they have room: they are close at the ends.
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        let even = Self::linear(percent(low), percent(high), room);
        let ticks = even.ticks.iter().map(|tick| {
            let change = even.low + tick.at * (even.high - even.low);
            Candidate {
                value: 1.0 + change / 100.0,
                text: percent_text(change, &tick.text),
                rank: u32::from(tick.is_extra),
            }
        });
        axis.named(ticks.collect(), room)
    }

    fn empty(scale: Scale, low: f64, high: f64) -> Self {
        let (low, high) = if low < high {
            (low, high)
        } else {
            // A single value has an axis around it.
            match scale {
                Scale::Linear if low == 0.0 => (0.0, 1.0),
                Scale::Linear => (low - low.abs() * 0.05, low + low.abs() * 0.05),
                Scale::Log | Scale::Change { .. } => (low / 1.05, low * 1.05),
            }
        };
        Self {
            scale,
            low,
            high,
            ticks: Vec::new(),
            origin: None,
        }
    }

    /// The place of a value, as a share of the axis: below 0 or above 1 where it lies outside.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let [value, low, high] = [value, self.low, self.high].map(|one| self.scale.spread(one));
        (value - low) / (high - low)
    }

    /// Ticks in steps of 1, 2 or 5 times a power of ten, as close as labels have room.
    fn steps(&self, room: Room, least: f64, text: impl Fn(f64, usize) -> String) -> Vec<Tick> {
        let (mut step, mut ticks) = (least.max(round_step((self.high - self.low) / 40.0)), vec![]);
        loop {
            let decimals = (-step.log10().floor()).max(0.0) as usize;
            let first = (self.low / step - 1e-9).ceil() as i64;
            let end = (self.high / step + 1e-9).floor() as i64;
            let values = (first..=end).map(|index| (index, index as f64 * step));
            let labels: Vec<(i64, f64, String)> = values
                .map(|(index, value)| (index, value, text(value, decimals)))
                .collect();
            let longest = labels.iter().map(|(_, _, text)| room.needs(text));
            let longest = longest.fold(1.0, f64::max);
            let count = labels.len() as f64;
            if longest * count <= room.wide || labels.len() <= 2 {
                let stride = [1, 2, 5, 10, 20, 50]
                    .into_iter()
                    .find(|stride| longest * count / *stride as f64 <= room.narrow)
                    .unwrap_or(100);
                ticks.extend(labels.into_iter().map(|(index, value, text)| Tick {
                    at: self.at(value),
                    text,
                    is_extra: index % stride != 0,
                }));
                return ticks;
            }
            step = round_step(step * 1.5);
        }
    }

    /// Names what has room: first in a narrow window, then in a wide one.
    fn named(mut self, mut candidates: Vec<Candidate>, room: Room) -> Self {
        candidates.retain(|one| (self.low..=self.high).contains(&one.value));
        candidates.sort_by_key(|one| one.rank);
        for (width, is_extra) in [(room.narrow, false), (room.wide, true)] {
            for one in &candidates {
                let at = self.at(one.value);
                let is_free = self.ticks.iter().all(|tick| {
                    let apart = f64::midpoint(room.needs(&tick.text), room.needs(&one.text));
                    (tick.at - at).abs() * width >= apart
                });
                if is_free {
                    let text = one.text.clone();
                    self.ticks.push(Tick { at, text, is_extra });
                }
            }
        }
        self.ticks.sort_by(|one, other| one.at.total_cmp(&other.at));
        self
    }
}

/// The next number at or above that is 1, 2 or 5 times a power of ten.
fn round_step(least: f64) -> f64 {
    if least <= 0.0 || !least.is_finite() {
        return 1.0;
    }
    let decade = 10f64.powi(least.log10().floor() as i32);
    let steps = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * decade);
    let found = steps.into_iter().find(|step| *step >= least * (1.0 - 1e-9));
    found.unwrap_or(10.0 * decade)
}

/// Changes worth a name, as ratios: round in percent, and doublings and their like the same way up and down.
fn changes() -> Vec<Candidate> {
    // In percent, up and down; then as ratios.
    const SMALL: [(f64, u32); 11] = [
        (0.01, 6),
        (0.02, 7),
        (0.05, 7),
        (0.1, 4),
        (0.2, 6),
        (0.5, 5),
        (1.0, 3),
        (2.0, 5),
        (5.0, 4),
        (10.0, 2),
        (20.0, 4),
    ];
    const LARGE: [(f64, u32); 8] = [
        (1.5, 5),
        (2.0, 2),
        (5.0, 3),
        (10.0, 1),
        (20.0, 5),
        (50.0, 5),
        (100.0, 2),
        (1000.0, 3),
    ];
    let one = |ratio: f64, rank| {
        let change = (ratio - 1.0) * 100.0;
        let decimals = if change.abs() < 1.0 { 2 } else { 1 };
        let text = number(change, decimals);
        let text = match text.split_once('.') {
            Some(_) => text.trim_end_matches('0').trim_end_matches('.'),
            None => &text,
        };
        Candidate {
            value: ratio,
            text: percent_text(change, text),
            rank,
        }
    };
    let mut candidates = vec![one(1.0, 0)];
    for (percent, rank) in SMALL {
        candidates.push(one(1.0 + percent / 100.0, rank));
        candidates.push(one(1.0 - percent / 100.0, rank));
    }
    for (times, rank) in LARGE {
        candidates.push(one(times, rank));
        // Two thirds are no round number of percent.
        if times > 1.5 {
            candidates.push(one(1.0 / times, rank));
        }
    }
    candidates
}

/// `+5 %`, `-5 %`, `0 %`.
fn percent_text(change: f64, number: &str) -> String {
    let sign = if change > 1e-9 { "+" } else { "" };
    format!("{sign}{number}\u{a0}%")
}

/// A number of an axis, in groups of three.
fn number(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let whole = whole
        .parse()
        .map_or_else(|_| whole.to_string(), words::count);
    let is_zero = text.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    let sign = if value < 0.0 && !is_zero { "-" } else { "" };
    format!("{sign}{whole}{fraction}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Labels, those for wide windows in brackets.
    fn told(axis: &Axis) -> String {
        let label = |tick: &Tick| {
            if tick.is_extra {
                format!("({})", tick.text)
            } else {
                tick.text.clone()
            }
        };
        let labels: Vec<String> = axis.ticks.iter().map(label).collect();
        labels.join(" ").replace('\u{a0}', " ")
    }

    #[test]
    fn round_numbers_are_named_as_close_as_there_is_room() {
        assert_eq!(
            told(&Axis::linear(3082.0, 3555.0, UPWARDS)),
            "3 100 3 200 3 300 3 400 3 500"
        );
        assert_eq!(
            told(&Axis::linear(0.0, 0.0123, UPWARDS)),
            "0.000 0.002 0.004 0.006 0.008 0.010 0.012"
        );
        assert_eq!(told(&Axis::whole(0.5, 3.5, ACROSS)), "1 2 3");
        assert_eq!(told(&Axis::linear(-3.0, 9.0, UPWARDS)), "-2 0 2 4 6 8");
    }

    #[test]
    fn few_labels_are_left_on_a_phone() {
        let ticks = told(&Axis::whole(0.5, 30.5, ACROSS));
        assert_eq!(
            ticks,
            "(2) 4 (6) 8 (10) 12 (14) 16 (18) 20 (22) 24 (26) 28 (30)"
        );
    }

    #[test]
    fn one_metric_does_not_hide_the_others() {
        let margin = 1.01f64.ln();
        let axis = Axis::change(1.0 / 45.0, 45.0, margin, BETWEEN);
        let gap = |one: f64, other: f64| axis.at(other) - axis.at(one);
        assert!(gap(1.0, 1.01) > 0.05, "{}", gap(1.0, 1.01));
        assert!(gap(1.1, 1.2) > 0.03 && gap(1.2, 45.0) > 0.2);
        assert!(
            (axis.at(2.0) + axis.at(0.5) - 1.0).abs() < 1e-12,
            "mirrored"
        );
        assert_eq!(
            told(&axis),
            "-90 % (-50 %) -10 % (-1 %) 0 % (+1 %) +10 % (+100 %) +900 %"
        );
    }

    #[test]
    fn ratios_without_a_logarithm_have_a_place() {
        let axis = Axis::change(0.0, f64::INFINITY, 0.01, BETWEEN);
        assert!(axis.at(0.0).abs() < 1e-12 && (axis.at(f64::INFINITY) - 1.0).abs() < 1e-12);
        assert!(is_beyond(0.0) && is_beyond(1001.0) && !is_beyond(45.0));
    }

    #[test]
    fn decades_are_named_before_what_lies_between() {
        assert_eq!(
            told(&Axis::log(0.2, 45.0, UPWARDS_LOG)),
            "0.2 0.5 1 2 5 10 20"
        );
        assert_eq!(
            told(&Axis::log(0.0001, 2e6, UPWARDS_LOG)),
            "0.0001 0.01 1 100 10 000 1 000 000"
        );
        assert_eq!(told(&Axis::log(2.1, 4.4, UPWARDS_LOG)), "2.5 3.0 3.5 4.0");
    }

    #[test]
    fn an_axis_of_one_value_has_two_ends() {
        for value in [0.0, 5.0, -5.0] {
            let axis = Axis::linear(value, value, UPWARDS);
            assert!((0.0..=1.0).contains(&axis.at(value)));
            assert!(!axis.ticks.is_empty());
        }
    }
}
