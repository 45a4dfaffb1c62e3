//! The summary card of a run for chats and pull requests: one SVG of 1200 x 630 px that loads nothing. Its smallest text can be read
//! when the card is 400 px wide.

use base::input::text::clean_line;
use base::input::units::significant;
use doc::terminal::wrap;
use maud::{Markup, PreEscaped, html};
use record::metric::Direction;
use record::rundir::Run;
use record::verdict::{Comparison, Conclusion, Headline, Judgement, Verdict};

use crate::topics::headline::tell::against;
use crate::topics::host::tell::machine;
use crate::topics::mail::find::{Change, subject};
use crate::topics::mail::tell;
use crate::words::metric_name;

const WIDTH: u32 = 1200;
const HEIGHT: u32 = 630;

/// Empty space at the left and the right.
const EDGE: u32 = 48;

/// Width of one group of bars, and the left end of the second group.
const GROUP: u32 = 528;
const SECOND: u32 = WIDTH - EDGE - GROUP;

/// Font sizes of headline and text.
const LARGE: u32 = 46;
const SMALL: u32 = 28;

/// Mean width of a letter as a share of the font size, for generic sans-serif families.
const LETTER: f64 = 0.56;

/// Colours on white; the contrast of text is at least 5:1.
const INK: &str = "#1b2126";
const SOFT: &str = "#56626b";
const BASELINE: &str = "#7d8990";
const TRACK: &str = "#eceff1";

const FONTS: &str = "system-ui, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', Arial, sans-serif";

/// The card.
pub fn card(run: &Run, judgement: &Judgement) -> String {
    let about = subject(run, judgement);
    let headline = about.as_ref().map(|subject| subject.headline);
    let (word, colour) = headline.map_or(("no verdict", SOFT), |headline| {
        (headline.conclusion.word(), colour(&headline.conclusion))
    });
    let name = headline.map_or(run.plan.title.clone(), |headline| {
        tell::compared(run, headline)
    });
    let charts = headline.map_or(Vec::new(), |headline| {
        shown(
            judgement,
            headline,
            about.as_ref().map(|subject| subject.change),
        )
    });
    let mut lines: Vec<String> = charts.iter().map(|chart| tell::judged(chart)).collect();
    let other = headline.and_then(|headline| against(judgement, headline).first().copied());
    let other = other.filter(|other| {
        charts
            .iter()
            .all(|chart| chart.spec.name != other.spec.name)
    });
    lines.extend(other.filter(|_| !charts.is_empty()).map(tell::contrary));
    if lines.is_empty() {
        let text = headline.and_then(|headline| tell::verdict(run, judgement, headline));
        lines = fitted(&text.unwrap_or(tell::NOTHING.into()), LARGE, 2);
    }
    let caveat = tell::first_caveat(run, judgement).unwrap_or_default();
    let pill = 40 + text_width(word, 38);
    let left = EDGE + pill + 24;
    let title = fitting(&name, 40, WIDTH - EDGE - left);
    let svg = html! {
        svg xmlns="http://www.w3.org/2000/svg" width=(WIDTH) height=(HEIGHT)
            viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" font-family=(FONTS) {
            title { (clean_line(&format!("{name}: {word}"))) }
            rect width=(WIDTH) height=(HEIGHT) fill="#ffffff" {}
            rect width=(WIDTH) height="16" fill=(colour) {}
            rect x=(EDGE) y="44" width=(pill) height="58" rx="29" fill=(colour) {}
            text x=(EDGE + pill / 2) y="85" font-size="34" fill="#ffffff" font-weight="bold" text-anchor="middle" { (word) }
            (text(left, 87, title, INK, "bold", &cut(&name, title, WIDTH - EDGE - left)))
            @let (most, top, step) = if lines.len() > 2 { (38, 144, 42) } else { (LARGE, 164, 58) };
            @let size = lines.iter().map(|line| fitting(line, most, WIDTH - 2 * EDGE)).min().unwrap_or(most);
            @for (place, line) in lines.iter().enumerate() {
                (text(EDGE, top + step * place as u32, size, INK, "normal", &cut(line, size, WIDTH - 2 * EDGE)))
            }
            @if let Some(headline) = headline {
                @for (comparison, left) in charts.iter().zip([EDGE, SECOND]) {
                    (bars(run, judgement, headline, comparison, left))
                }
            }
            rect x=(EDGE) y="490" width=(WIDTH - 2 * EDGE) height="2" fill=(TRACK) {}
            @for (place, line) in fitted(&caveat, SMALL, 2).iter().enumerate() {
                (text(EDGE, 530 + 36 * place as u32, SMALL, INK, "normal", line))
            }
            (text(EDGE, 606, SMALL, SOFT, "normal", &machine_line(run, &tell::basis(judgement, headline))))
        }
    };
    crate::report::shown(svg) + "\n"
}

/// Colour of a verdict.
fn colour(conclusion: &Conclusion) -> &'static str {
    match conclusion {
        Conclusion::Better => "#12713d",
        Conclusion::Worse | Conclusion::Failed(_) => "#b3261e",
        Conclusion::Equivalent => "#1f5fa8",
        Conclusion::Undecided { .. } => "#6b5b00",
        Conclusion::TradeOff { .. }
        | Conclusion::ModelDependent { .. }
        | Conclusion::Withheld { .. } => "#8a5a00",
    }
}

/// The primary metric, and the p99 latency or else what is worse. None if the comparison is withheld.
fn shown<'j>(
    judgement: &'j Judgement,
    headline: &'j Headline,
    change: Option<Change<'j>>,
) -> Vec<&'j Comparison> {
    if matches!(headline.conclusion, Conclusion::Withheld { .. }) {
        return Vec::new();
    }
    let all = judgement.comparisons.iter();
    let of_arm: Vec<&Comparison> = all
        .filter(|comparison| {
            comparison.workload == headline.workload && comparison.arm == headline.arm
        })
        .collect();
    let Some(primary) = of_arm.first().copied() else {
        return Vec::new();
    };
    let worse = match change {
        Some(Change::Worse(worse)) => Some(worse),
        Some(Change::Failed | Change::Nothing) | None => None,
    };
    let tail = ["latency-p99", "wakeup-p99"];
    let tail = of_arm
        .iter()
        .copied()
        .find(|comparison| tail.contains(&comparison.spec.name.as_str()));
    let second = tail
        .or(worse)
        .filter(|comparison| comparison.spec.name != primary.spec.name);
    let has_figure = |comparison: &&Comparison| !comparison.pairs.is_empty();
    [Some(primary), second]
        .into_iter()
        .flatten()
        .filter(has_figure)
        .collect()
}

/// One metric's values before and after, from zero.
fn bars(
    run: &Run,
    judgement: &Judgement,
    headline: &Headline,
    comparison: &Comparison,
    left: u32,
) -> Markup {
    let spec = &comparison.spec;
    let values = [&run.plan.baseline, &headline.arm].map(|arm| {
        let value = tell::mean(judgement, &headline.workload, arm, &spec.name);
        (arm, value.unwrap_or(0.0))
    });
    let most = values[0].1.max(values[1].1);
    let unit = tell::unit_of(judgement, comparison);
    let is_higher = matches!(spec.direction, Direction::Higher);
    let name = format!("{}, {}", metric_name(&spec.name), unit.name);
    let arm_colour = match comparison.verdict {
        Verdict::Better => "#12713d",
        Verdict::Worse => "#b3261e",
        Verdict::Equivalent => "#1f5fa8",
        Verdict::Undecided => "#6b5b00",
    };
    html! {
        (text(left, 278, 32, INK, "bold", &cut(&name, 34, GROUP)))
        (text(left, 314, SMALL, SOFT, "normal", tell::direction(is_higher)))
        @for ((arm, value), (y, fill)) in values.iter().zip([(352, BASELINE), (424, arm_colour)]) {
            @let value_text = cut(&significant(value * unit.factor, 4), SMALL, GROUP / 2);
            @let room = GROUP.saturating_sub(text_width(&value_text, SMALL) + 20);
            @let share = if most > 0.0 { (value / most).clamp(0.0, 1.0) } else { 0.0 };
            @let length = f64::from(GROUP) * share;
            (text(left, y, SMALL, INK, "normal", &cut(arm, SMALL, room)))
            text x=(left + GROUP) y=(y) font-size=(SMALL) fill=(INK) font-weight="bold" text-anchor="end" { (value_text) }
            rect x=(left) y=(y + 12) width=(GROUP) height="24" rx="3" fill=(TRACK) {}
            rect x=(left) y=(y + 12) width=(format!("{length:.1}")) height="24" rx="3" fill=(fill) {}
        }
    }
}

fn text(x: u32, y: u32, size: u32, fill: &str, weight: &str, content: &str) -> Markup {
    let content = PreEscaped(html! { (clean_line(content)) }.into_string());
    html! { text x=(x) y=(y) font-size=(size) fill=(fill) font-weight=(weight) { (content) } }
}

/// Estimated width of a text in pixels.
fn text_width(text: &str, size: u32) -> u32 {
    (text.chars().count() as f64 * f64::from(size) * LETTER).ceil() as u32
}

/// The largest font size up to `most` at which the text fits, or the smallest of the card.
fn fitting(text: &str, most: u32, width: u32) -> u32 {
    let mut sizes = (SMALL..=most).rev();
    let size = sizes.find(|size| text.chars().count() <= letters(width, *size));
    size.unwrap_or(SMALL)
}

/// Letters that fit.
fn letters(width: u32, size: u32) -> usize {
    (f64::from(width) / (f64::from(size) * LETTER)) as usize
}

/// The text, or as much of it as fits.
fn cut(text: &str, size: u32, width: u32) -> String {
    let most = letters(width, size);
    if text.chars().count() <= most {
        return text.into();
    }
    let start: String = text.chars().take(most.saturating_sub(1)).collect();
    start + "\u{2026}"
}

/// At most `most` lines; the last one is cut.
fn fitted(text: &str, size: u32, most: usize) -> Vec<String> {
    let width = WIDTH - 2 * EDGE;
    let mut lines = wrap(&clean_line(text), "", letters(width, size));
    if lines.len() > most {
        let rest = lines.split_off(most - 1).join(" ");
        lines.push(rest);
    }
    lines.iter().map(|line| cut(line, size, width)).collect()
}

/// The intervals' level, and as many parts of the machine's description as fit on the line.
fn machine_line(run: &Run, basis: &str) -> String {
    let most = letters(WIDTH - 2 * EDGE, SMALL);
    let machine = without_brackets(&machine(&run.opening.machine));
    let parts = [basis].into_iter().chain(machine.split(", "));
    let mut line = String::new();
    for part in parts.filter(|part| !part.is_empty()) {
        let longer = match line.as_str() {
            "" => part.to_string(),
            start => format!("{start}, {part}"),
        };
        if longer.chars().count() > most {
            break;
        }
        line = longer;
    }
    line
}

fn without_brackets(text: &str) -> String {
    let mut depth = 0_u32;
    let mut kept = String::new();
    for letter in text.replace(" (", "(").chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 => kept.push(letter),
            _ => {}
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use record::fixtures::web;

    use super::*;
    use crate::report::judged;

    /// Texts of a card.
    fn texts(svg: &str) -> Vec<&str> {
        let parts = svg.split("<text").skip(1);
        let parts = parts.filter_map(|part| part.split_once('>')?.1.split_once("</text>"));
        parts.map(|(text, _)| text).collect()
    }

    #[test]
    fn a_card_has_verdict_changes_values_caveat_and_machine() {
        let (run, judgement) = judged(web::two_kernels());
        let svg = card(&run, &judgement);
        expect![[r#"
            better
            web-static: 7.2 against 6.1
            throughput +7.36 % [+7.12, +7.82], better
            p99 latency -6.86 % [-7.25, -6.65], better
            throughput, requests/s
            more is better
            6.1
            2285
            7.2
            2454
            p99 latency, ms
            less is better
            6.1
            47.26
            7.2
            44.01
            Counted instructions under emulation, not times.
            97.5 % interval, 9 blocks, QEMU 7.2.22, emulation, clock instructions"#]]
        .assert_eq(&texts(&svg).join("\n"));
        assert!(svg.starts_with(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1200\" height=\"630\""
        ));
    }

    #[test]
    fn every_run_has_a_card_without_markup_of_others() {
        let runs = [
            web::two_workloads(),
            web::trade_off_and_failure(),
            web::without_clients(),
            web::just_begun(),
        ];
        for mut run in runs {
            run.plan.arms[1].name = "<b>&\u{202e}".repeat(20);
            let renamed = run.plan.arms[1].name.clone();
            let records = run
                .attempts
                .iter_mut()
                .filter(|record| record.trial.arm == "7.2");
            records.for_each(|record| record.trial.arm.clone_from(&renamed));
            let (run, judgement) = judged(run);
            let svg = card(&run, &judgement);
            for part in ["<script", "<b>", "&\u{202e}", "\u{202e}", "href", "url("] {
                assert!(!svg.contains(part), "{part}: {svg}");
            }
            assert_eq!(svg.matches("<svg").count(), 1);
            assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
        }
    }

    #[test]
    fn a_failed_arm_has_its_reason_and_no_bars() {
        let (run, judgement) = judged(web::trade_off_and_failure());
        let mut judgement = judgement;
        judgement
            .headlines
            .retain(|headline| matches!(headline.conclusion, Conclusion::Failed(_)));
        let svg = card(&run, &judgement);
        let texts = texts(&svg);
        assert_eq!(texts[0], "failed");
        assert!(
            texts[2].starts_with("7.2-tuned failed: 10 of 10 trials"),
            "{texts:?}"
        );
        assert!(!svg.contains("more is better"));
    }
}
