//! Axes: positions of values between two ends, and labels.
//!
//! A chart is as wide as its window, whose width is not known when the page is written. So there are two kinds of ticks:
//! those that fit on a phone, and extra ones for wider windows.

use crate::words;

/// The function that maps values to positions.
#[derive(Clone, Copy)]
enum Scale {
    Linear,
    /// For values above zero.
    Log,
    /// For ratios: linear in the logarithm of the ratio up to about `knee`, logarithmic in it beyond. Shows both a change
    /// of 1 % and one of 4000 %.
    Change {
        knee: f64,
    },
}

impl Scale {
    fn apply(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Log => value.ln(),
            Self::Change { knee } => (ratio_log(value) / knee).asinh(),
        }
    }
}

/// The largest ratio on an axis; its reciprocal is the smallest one.
const FARTHEST: f64 = 1000.0;

/// The logarithm of a ratio, clamped to what an axis shows.
pub(crate) fn ratio_log(ratio: f64) -> f64 {
    let most = FARTHEST.ln();
    ratio.ln().clamp(-most, most)
}

/// Whether a ratio is clamped to the end of its axis.
pub(crate) fn is_beyond(ratio: f64) -> bool {
    ratio.ln().abs() > FARTHEST.ln()
}

/// A labelled value of an axis.
pub(crate) struct Tick {
    /// Its position as a share of the axis.
    pub(crate) at: f64,
    pub(crate) text: String,
    /// Not shown in narrow windows.
    pub(crate) is_extra: bool,
}

/// The length of an axis in a narrow and in a wide window, and the size of its labels; all in pixels.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    narrow: f64,
    wide: f64,
    per_letter: f64,
    per_label: f64,
}

/// Labels side by side.
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

/// Labels one above the other.
pub(crate) const UPWARDS: Room = Room {
    narrow: 240.0,
    wide: 240.0,
    per_letter: 0.0,
    per_label: 34.0,
};

/// As `UPWARDS`, for a logarithmic axis, which has few round values.
pub(crate) const UPWARDS_LOG: Room = Room {
    per_label: 24.0,
    ..UPWARDS
};

impl Room {
    /// The size of a label.
    fn needs(self, text: &str) -> f64 {
        text.chars().count() as f64 * self.per_letter + self.per_label
    }
}

/// A value that may get a label; low ranks take precedence.
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
    /// The position of zero, or of no change, for a line; `None` unless it lies between the ends.
    pub(crate) origin: Option<f64>,
}

impl Axis {
    /// An axis between two values, with labels at round numbers.
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

    /// A logarithmic axis with labels at 1, 2 and 5 of each decade, as far as they fit. Values must be above zero.
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
        let inside = candidates
            .iter()
            .filter(|candidate| (low..=high).contains(&candidate.value));
        if inside.count() < 3 {
            // Less than a decade: linear steps on the logarithmic axis.
            let mut axis = axis;
            axis.ticks = axis.steps(room, 0.0, number);
            return axis;
        }
        axis.labelled(candidates, room)
    }

    /// A logarithmic axis with given labels, the most important first.
    pub(crate) fn log_labelled(low: f64, high: f64, labels: &[(f64, &str)], room: Room) -> Self {
        let axis = Self::empty(Scale::Log, low, high);
        let labels = (0..).zip(labels);
        let candidates = labels.map(|(rank, (value, text))| Candidate {
            value: *value,
            text: (*text).into(),
            rank,
        });
        axis.labelled(candidates.collect(), room)
    }

    /// A linear axis with labels at given values, as far as they fit.
    pub(crate) fn labelled_at(low: f64, high: f64, values: &[u32], room: Room) -> Self {
        let axis = Self::empty(Scale::Linear, low, high);
        let last = values.len().saturating_sub(1);
        let candidates = values.iter().enumerate().map(|(index, value)| Candidate {
            value: f64::from(*value),
            text: words::count(u64::from(*value)),
            rank: u32::from(index != 0 && index != last),
        });
        axis.labelled(candidates.collect(), room)
    }

    /// Ratios as changes in percent. `knee` is the change, as a logarithm, at which the axis becomes logarithmic.
    pub(crate) fn change(low: f64, high: f64, knee: f64, room: Room) -> Self {
        let mut axis = Self::empty(Scale::Change { knee }, low, high);
        axis.origin = (low < 1.0 && 1.0 < high).then(|| axis.at(1.0));
        let farthest = ratio_log(low).abs().max(ratio_log(high).abs());
        if farthest > 3.0 * knee {
            return axis.labelled(changes(), room);
        }
        // Round percentages as far as they fit: near the ends they are close together.
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        let linear = Self::linear(percent(low), percent(high), room);
        let candidates = linear.ticks.iter().map(|tick| {
            let change = linear.low + tick.at * (linear.high - linear.low);
            Candidate {
                value: 1.0 + change / 100.0,
                text: percent_text(change, &tick.text),
                rank: u32::from(tick.is_extra),
            }
        });
        axis.labelled(candidates.collect(), room)
    }

    /// How many times as good as the baseline: worse to the left, better to the right, with the same labels on both sides.
    pub(crate) fn better(low: f64, high: f64, knee: f64, room: Room) -> Self {
        let mut axis = Self::empty(Scale::Change { knee }, low, high);
        axis.origin = (low < 1.0 && 1.0 < high).then(|| axis.at(1.0));
        let mut candidates = vec![Candidate {
            value: 1.0,
            text: "0".into(),
            rank: 0,
        }];
        for (percent, rank) in SMALL.into_iter().chain([(50.0, 5)]) {
            let ratio = 1.0 + percent / 100.0;
            for value in [ratio, 1.0 / ratio] {
                let text = format!("{percent} %");
                candidates.push(Candidate { value, text, rank });
            }
        }
        for (ratio, rank) in LARGE.into_iter().skip(1) {
            for value in [ratio, 1.0 / ratio] {
                let text = format!("{ratio}x");
                candidates.push(Candidate { value, text, rank });
            }
        }
        axis.labelled(candidates, room)
    }

    fn empty(scale: Scale, low: f64, high: f64) -> Self {
        let (low, high) = if low < high {
            (low, high)
        } else {
            // A single value gets an axis around it.
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

    /// The position of a value as a share of the axis; below 0 or above 1 outside the axis.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let [value, low, high] = [value, self.low, self.high].map(|value| self.scale.apply(value));
        (value - low) / (high - low)
    }

    /// Ticks in steps of 1, 2 or 5 times a power of ten, as many as fit.
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

    /// Adds the labels that fit into a narrow window, then extra ones that fit into a wide window.
    fn labelled(mut self, mut candidates: Vec<Candidate>, room: Room) -> Self {
        candidates.retain(|candidate| (self.low..=self.high).contains(&candidate.value));
        candidates.sort_by_key(|candidate| candidate.rank);
        for (width, is_extra) in [(room.narrow, false), (room.wide, true)] {
            for Candidate { value, text, .. } in &candidates {
                let at = self.at(*value);
                let is_free = self.ticks.iter().all(|tick| {
                    let distance = f64::midpoint(room.needs(&tick.text), room.needs(text));
                    (tick.at - at).abs() * width >= distance
                });
                if is_free {
                    let text = text.clone();
                    self.ticks.push(Tick { at, text, is_extra });
                }
            }
        }
        self.ticks.sort_by(|a, b| a.at.total_cmp(&b.at));
        self
    }
}

/// The smallest number that is at least `least` and 1, 2 or 5 times a power of ten.
fn round_step(least: f64) -> f64 {
    if least <= 0.0 || !least.is_finite() {
        return 1.0;
    }
    let decade = 10f64.powi(least.log10().floor() as i32);
    let steps = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * decade);
    let step = steps.into_iter().find(|step| *step >= least * (1.0 - 1e-9));
    step.unwrap_or(10.0 * decade)
}

/// Percentages, used with both signs, and their ranks.
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

/// Ratios and their ranks.
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

/// Candidates for labels of changes: round percentages, and large ratios with their reciprocals.
fn changes() -> Vec<Candidate> {
    let candidate = |ratio: f64, rank| {
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
    let mut candidates = vec![candidate(1.0, 0)];
    for (percent, rank) in SMALL {
        candidates.push(candidate(1.0 + percent / 100.0, rank));
        candidates.push(candidate(1.0 - percent / 100.0, rank));
    }
    for (ratio, rank) in LARGE {
        candidates.push(candidate(ratio, rank));
        // The reciprocal of 1.5 is no round percentage.
        if ratio > 1.5 {
            candidates.push(candidate(1.0 / ratio, rank));
        }
    }
    candidates
}

/// `+5 %`, `-5 %`, `0 %`.
fn percent_text(change: f64, number: &str) -> String {
    let sign = if change > 1e-9 { "+" } else { "" };
    format!("{sign}{number}\u{a0}%")
}

/// A number with digits in groups of three.
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

    /// The labels of an axis, extra ones in brackets.
    fn labels(axis: &Axis) -> String {
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
    fn as_many_round_numbers_are_labelled_as_fit() {
        assert_eq!(
            labels(&Axis::linear(3082.0, 3555.0, UPWARDS)),
            "3 100 3 200 3 300 3 400 3 500"
        );
        assert_eq!(
            labels(&Axis::linear(0.0, 0.0123, UPWARDS)),
            "0.000 0.002 0.004 0.006 0.008 0.010 0.012"
        );
        assert_eq!(labels(&Axis::whole(0.5, 3.5, ACROSS)), "1 2 3");
        assert_eq!(labels(&Axis::linear(-3.0, 9.0, UPWARDS)), "-2 0 2 4 6 8");
    }

    #[test]
    fn a_phone_shows_few_labels() {
        let ticks = labels(&Axis::whole(0.5, 30.5, ACROSS));
        assert_eq!(
            ticks,
            "(2) 4 (6) 8 (10) 12 (14) 16 (18) 20 (22) 24 (26) 28 (30)"
        );
    }

    #[test]
    fn a_large_change_does_not_hide_small_ones() {
        let margin = 1.01f64.ln();
        let axis = Axis::change(1.0 / 45.0, 45.0, margin, BETWEEN);
        let gap = |from: f64, to: f64| axis.at(to) - axis.at(from);
        assert!(gap(1.0, 1.01) > 0.05, "{}", gap(1.0, 1.01));
        assert!(gap(1.1, 1.2) > 0.03 && gap(1.2, 45.0) > 0.2);
        assert!(
            (axis.at(2.0) + axis.at(0.5) - 1.0).abs() < 1e-12,
            "mirrored"
        );
        assert_eq!(
            labels(&axis),
            "-90 % (-50 %) -10 % (-1 %) 0 % (+1 %) +10 % (+100 %) +900 %"
        );
    }

    #[test]
    fn ratios_without_a_logarithm_have_a_position() {
        let axis = Axis::change(0.0, f64::INFINITY, 0.01, BETWEEN);
        assert!(axis.at(0.0).abs() < 1e-12 && (axis.at(f64::INFINITY) - 1.0).abs() < 1e-12);
        assert!(is_beyond(0.0) && is_beyond(1001.0) && !is_beyond(45.0));
    }

    #[test]
    fn decades_are_labelled_before_values_in_between() {
        assert_eq!(
            labels(&Axis::log(0.2, 45.0, UPWARDS_LOG)),
            "0.2 0.5 1 2 5 10 20"
        );
        assert_eq!(
            labels(&Axis::log(0.0001, 2e6, UPWARDS_LOG)),
            "0.0001 0.01 1 100 10 000 1 000 000"
        );
        assert_eq!(labels(&Axis::log(2.1, 4.4, UPWARDS_LOG)), "2.5 3.0 3.5 4.0");
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
