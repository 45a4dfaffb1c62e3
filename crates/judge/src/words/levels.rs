//! Levels of confidence intervals as a reader sees them: no interval stands anywhere without its own.

use std::collections::{BTreeMap, BTreeSet};

use base::input::units::show_share;

/// The levels of the intervals in one table. The head of their column names the most frequent one; a cell with another level names
/// that beside its interval.
pub struct Levels(Option<String>);

impl Levels {
    /// Of these intervals; `None` for a cell without one.
    pub fn of(confidences: impl IntoIterator<Item = Option<f64>>) -> Self {
        let mut counts = BTreeMap::<String, usize>::new();
        for confidence in confidences.into_iter().flatten() {
            *counts.entry(level(confidence)).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        Self(most.map(|(level, _)| level))
    }

    /// The head of their column: `97.5 % interval`.
    pub fn head(&self) -> String {
        match &self.0 {
            Some(level) => format!("{level} interval"),
            None => "interval".into(),
        }
    }

    /// A cell of that column: `[-0.20 %, +0.20 %]`, or `[-0.20 %, +0.20 %] (90 %)`.
    pub fn cell(&self, interval: &str, confidence: Option<f64>) -> String {
        match self.other(confidence) {
            Some(other) => format!("{interval} ({other})"),
            None => interval.into(),
        }
    }

    /// The level of an interval that has another than the head.
    pub(crate) fn other(&self, confidence: Option<f64>) -> Option<String> {
        let level = confidence.map(level);
        level.filter(|level| self.0.as_ref() != Some(level))
    }
}

/// An interval in a sentence: `[-0.20 %, +0.20 %] (90 % interval)`.
pub fn in_words(interval: &str, confidence: Option<f64>) -> String {
    match confidence {
        Some(confidence) => format!("{interval} ({} interval)", level(confidence)),
        None => interval.into(),
    }
}

/// All levels of some intervals, for the words under a drawing: `intervals of 90 % or 97.5 %`.
pub(crate) fn all(confidences: impl IntoIterator<Item = Option<f64>>) -> String {
    let known = confidences.into_iter().flatten().map(level);
    let levels: BTreeSet<String> = known.collect();
    let levels: Vec<String> = levels.into_iter().collect();
    format!("intervals of {}", levels.join(" or "))
}

/// A level in percent.
pub(crate) fn level(confidence: f64) -> String {
    show_share(confidence, 4)
}

#[cfg(test)]
mod tests {
    use record::fixtures::web;
    use record::models::Standing;
    use record::rundir::Run;
    use record::verdict::Verdict;
    use record::verdict::interim::InterimResult;
    use record::verdict::robustness::{AtPrice, ByPrice};

    use super::*;
    use crate::report::judged;
    use crate::topics::bisect::tell as bisect;
    use crate::topics::confirm::document as confirm;
    use crate::topics::interim::tell as interim;
    use crate::topics::models::tell as models;
    use crate::topics::night::document as night;
    use crate::topics::why::document as why;

    #[test]
    fn a_column_names_its_level_and_a_cell_another_one() {
        let levels = Levels::of([Some(0.975), None, Some(0.9), Some(0.975)]);
        assert_eq!(levels.head(), "97.5 % interval");
        assert_eq!(levels.cell("[a, b]", Some(0.975)), "[a, b]");
        assert_eq!(levels.cell("[a, b]", Some(0.9)), "[a, b] (90 %)");
        assert_eq!(levels.cell("-", None), "-");
        assert_eq!(Levels::of([None]).head(), "interval");
        assert_eq!(
            in_words("[a, b]", Some(1.0 - 0.05 / 11.0)),
            "[a, b] (99.55 % interval)"
        );
        assert_eq!(
            all([Some(0.975), Some(0.9), None]),
            "intervals of 90 % or 97.5 %"
        );
    }

    /// Where a text has an interval: two numbers with signs or in percent in square brackets.
    fn intervals(text: &str) -> Vec<(usize, usize)> {
        let is_number = |text: &str| {
            let digits = text.trim_start_matches(['+', '-']);
            let is_signed = digits.len() < text.len() || digits.starts_with('0');
            let is_shown = is_signed || digits.ends_with(" %");
            is_shown && digits.starts_with(|letter: char| letter.is_ascii_digit())
        };
        let mut found = Vec::new();
        for (open, _) in text.match_indices('[') {
            let Some(close) = text[open..].find(']').map(|length| open + length) else {
                continue;
            };
            let ends: Vec<&str> = text[open + 1..close].split(", ").collect();
            if ends.len() == 2 && ends.iter().all(|end| is_number(end)) {
                found.push((open, close + 1));
            }
        }
        found
    }

    /// Whether a level follows: `(97.5 % interval)`, or `(90 %)` in a column.
    fn is_followed(text: &str, end: usize, column: Option<&str>) -> bool {
        let beside = text[end..].strip_prefix(" (");
        let beside = beside.and_then(|rest| rest.split_once(')'));
        let beside = beside.map_or("", |(beside, _)| beside);
        let is_level = |text: &str| {
            text.ends_with(" %") && text.starts_with(|first: char| first.is_ascii_digit())
        };
        let in_words = beside.strip_suffix(" interval").is_some_and(is_level);
        let in_column = column.is_some_and(|head| head.contains(" % interval"));
        in_words || in_column
    }

    /// Intervals of a terminal or of Markdown without a stated level, and how many there are in all.
    fn unstated(text: &str) -> (Vec<String>, usize) {
        let (mut unstated, mut count) = (Vec::new(), 0);
        let (mut head, mut before) = (None, "");
        for line in text.lines() {
            let is_rule = !line.is_empty() && line.chars().all(|letter| " -|:".contains(letter));
            match (is_rule, line.is_empty()) {
                (true, _) => head = Some(before),
                (false, true) => head = None,
                (false, false) => {}
            }
            for (open, end) in intervals(line) {
                count += 1;
                if !is_followed(line, end, head) {
                    unstated.push(format!("{} in {line:?}", &line[open..end]));
                }
            }
            before = line;
        }
        (unstated, count)
    }

    /// The same of a page: of a cell, its name or the head of its table.
    fn unstated_on_page(page: &str) -> (Vec<String>, usize) {
        let page = page.replace('\u{a0}', " ");
        let mut text = String::new();
        // Scripts and styles print nothing.
        for part in page.split("<script") {
            text += part.split_once("</script>").map_or(part, |(_, rest)| rest);
        }
        let (mut unstated, mut count) = (Vec::new(), 0);
        for (open, end) in intervals(&text) {
            count += 1;
            let before = &text[..open];
            let table = before
                .rfind("<table")
                .filter(|at| !before[*at..].contains("</table>"));
            let head = table.and_then(|at| before[at..].split_once("</thead>"));
            let cell = before.rfind("<td").map(|at| &before[at..]);
            let named = cell.filter(|cell| cell.contains("data-name"));
            let column = named
                .or(head.map(|(head, _)| head))
                .filter(|_| table.is_some());
            if !is_followed(&text, end, column) {
                let from = (0..=open.saturating_sub(60))
                    .rev()
                    .find(|at| text.is_char_boundary(*at));
                unstated.push(text[from.unwrap_or(0)..end].to_string());
            }
        }
        (unstated, count)
    }

    #[test]
    fn an_interval_without_a_level_is_found() {
        for (text, want) in [
            ("better [+1.0 %, +2.0 %], 6 blocks", 1),
            ("better [+1.0 %, +2.0 %] (90 %), 6 blocks", 1),
            ("better [+1.0 %, +2.0 %] (90 % interval), 6 blocks", 0),
            ("a  interval\n-  --------\nb  [-1.0 %, +2.0 %]", 1),
            (
                "a  90 % interval\n-  --------\nb  [-1.0 %, +2.0 %]\n\nb [-3, +4]",
                1,
            ),
            (
                "| a | 90 % interval |\n|---|---|\n| b | [-1.0 %, +2.0 %] |",
                0,
            ),
        ] {
            assert_eq!(unstated(text).0.len(), want, "{text}");
        }
        let table = |head: &str, cell: &str| {
            let cell = format!("<td{cell}>[-1.0\u{a0}%, +2.0\u{a0}%]</td>");
            format!("<table><thead><th>{head}</th></thead><tr>{cell}</tr></table>")
        };
        for (page, want) in [
            (table("interval", ""), 1),
            (table("90 % interval", ""), 0),
            (table("90 % interval", " data-name=\"interval\""), 1),
            (table("90 % interval", "") + "[-1, +1]", 1),
        ] {
            assert_eq!(unstated_on_page(&page).0.len(), want, "{page}");
        }
    }

    /// A run with everything that has an interval of its own.
    fn forms(run: Run) -> Vec<String> {
        let (mut run, mut judgement) = judged(run);
        run.models = models::tests::asked(Standing::ModelDependent, Verdict::Worse, 0.95).models;
        let at = |byte, ratio: f64| AtPrice {
            byte,
            verdict: Verdict::Worse,
            ratio: Some(ratio),
            low: Some(ratio - 0.002),
            high: Some(ratio + 0.002),
            confidence: Some(0.975),
        };
        for headline in &mut judgement.headlines {
            headline.by_price = Some(ByPrice {
                standing: Standing::ModelDependent,
                at: vec![at(0.125, 0.95), at(0.5, 1.05)],
            });
        }
        let why = why::tests::explained(&why::tests::newer(), 6, None);
        let whys = [why];
        let wide = 2000;
        let mut texts = vec![
            crate::report::terminal(&run, &judgement, &whys, wide),
            crate::report::markdown(&run, &judgement, &whys),
        ];
        texts.extend(judgement.comparisons.iter().map(crate::report::reason));
        texts
            .into_iter()
            .chain([crate::report::html(&run, &judgement, &whys)])
            .collect()
    }

    fn check(what: &str, (unstated, count): (Vec<String>, usize), least: usize) {
        assert_eq!(unstated, Vec::<String>::new(), "{what}");
        assert!(count >= least, "{what}: {count} intervals");
    }

    #[test]
    fn every_interval_stands_under_its_level() {
        for (what, run, least) in [
            ("two kernels", web::two_kernels(), 6),
            ("workloads", web::two_workloads(), 20),
            ("trade-off", web::trade_off_and_failure(), 4),
            ("ramp", web::connection_ramp(), 16),
            ("CPUs", web::cpu_counts(&[1, 2, 4]), 1),
        ] {
            let mut texts = forms(run);
            let page = texts.pop().unwrap();
            check(what, unstated_on_page(&page), least);
            for (place, text) in texts.iter().enumerate() {
                check(what, unstated(text), if place < 2 { least } else { 0 });
            }
        }
        let wide = 2000;
        let why = why::tests::explained(&why::tests::newer(), 6, Some("latency-p99"));
        check("why", unstated(&crate::report::why_terminal(&why, wide)), 8);
        check("why", unstated(&crate::report::why_markdown(&why)), 8);
        let found = confirm::tests::found();
        check(
            "confirm",
            unstated(&crate::report::confirmation_terminal(&found, wide)),
            4,
        );
        check(
            "confirm",
            unstated(&crate::report::confirmation_markdown(&found)),
            4,
        );
        let series = bisect::tests::three_versions();
        check(
            "series",
            unstated(&crate::report::series_terminal(&series, wide)),
            2,
        );
        check(
            "series",
            unstated_on_page(&crate::report::series_html(&series)),
            2,
        );
        let night = night::tests::index();
        check(
            "night",
            unstated(&crate::report::night_terminal(&night, wide)),
            3,
        );
        check("night", unstated(&crate::report::night_markdown(&night)), 3);
        check(
            "night",
            unstated_on_page(&crate::report::night_html(&night)),
            11,
        );
        let results =
            web::two_kernels()
                .entries
                .into_iter()
                .filter_map(|entry| match entry.event {
                    record::journal::Event::InterimAnalysis { results, .. } => Some(results),
                    _ => None,
                });
        let results: Vec<InterimResult> = results.flatten().collect();
        let lines: Vec<String> = results.iter().map(interim::interim_analysis).collect();
        check("interim analyses", unstated(&lines.join("\n")), 1);
    }
}
