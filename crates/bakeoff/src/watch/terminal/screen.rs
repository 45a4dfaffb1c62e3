//! Draws the screen from a snapshot and a choice.

use judge::topics::live::document;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Borders, Chart, Clear, Dataset, GraphType, Paragraph, Wrap};
use record::live::{Activity, ArmNow, Curve, Point, Snapshot};

use super::keys::{Choice, KEYS};

/// Below this width and height, nothing is shown.
const MIN_SIZE: (u16, u16) = (30, 8);

/// Rows of an arm's card.
const CARD_ROWS: u16 = 9;

/// Colours, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Palette {
    has_colour: bool,
}

impl Palette {
    /// `is_plain` disables colours.
    pub(super) fn of(is_plain: bool) -> Self {
        Self {
            has_colour: !is_plain,
        }
    }

    fn colour(self, colour: Color) -> Style {
        if self.has_colour {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }

    /// The colour of an arm by its index in the plan, the same as in reports.
    fn arm(self, index: usize) -> Style {
        const ARMS: [Color; 6] = [
            Color::Gray,
            Color::Yellow,
            Color::Blue,
            Color::Green,
            Color::Magenta,
            Color::Red,
        ];
        self.colour(ARMS[index % ARMS.len()])
    }

    fn verdict(self, word: &str) -> Style {
        let style = match word {
            "better" => self.colour(Color::Green),
            "worse" | "failed" => self.colour(Color::Red),
            "equivalent" => self.colour(Color::Blue),
            _ => self.colour(Color::Yellow),
        };
        style.add_modifier(Modifier::BOLD)
    }

    fn alarm(self) -> Style {
        self.colour(Color::Red).add_modifier(Modifier::BOLD)
    }
}

/// Style of less important text.
const DIMMED: Style = Style::new().add_modifier(Modifier::DIM);

/// Markers that also distinguish arms, for terminals without colours.
const MARKERS: [Marker; 3] = [Marker::Braille, Marker::Dot, Marker::HalfBlock];

/// What the screen shows.
#[derive(Clone, Copy)]
pub(super) struct View<'v> {
    pub(super) now: &'v Snapshot,
    pub(super) choice: &'v Choice,
    /// The curve of the chosen attempt.
    pub(super) chosen: Option<&'v Curve>,
    pub(super) palette: Palette,
}

/// Draws the screen. If it is too small, the lower parts are left out.
pub(super) fn draw(frame: &mut Frame<'_>, view: View<'_>) {
    let View {
        now,
        choice,
        palette,
        ..
    } = view;
    let area = frame.area();
    if area.width < MIN_SIZE.0 || area.height < MIN_SIZE.1 {
        frame.render_widget(Paragraph::new("too small").wrap(Wrap { trim: true }), area);
        return;
    }
    let verdict = verdict(now, palette);
    let notes = notes(now, palette);
    let head_rows = row_count(&head(now, palette), area.width);
    let verdict_rows = row_count(&verdict, area.width).min(area.height / 3);
    let note_rows = row_count(&notes, area.width).min(4);
    let [
        head_area,
        note_area,
        verdict_area,
        arms_area,
        curve_area,
        list_area,
        foot_area,
    ] = Layout::vertical([
        Constraint::Length(head_rows),
        Constraint::Length(note_rows),
        Constraint::Length(verdict_rows),
        Constraint::Max(arms_rows(now, area.width)),
        Constraint::Fill(3),
        Constraint::Fill(if area.height >= 24 { 2 } else { 0 }),
        Constraint::Length(1),
    ])
    .areas(area);
    paragraph(frame, head(now, palette), head_area);
    paragraph(frame, notes, note_area);
    paragraph(frame, verdict, verdict_area);
    arms(frame, now, arms_area, palette);
    curves(frame, view, curve_area);
    lists(frame, view, list_area);
    foot(frame, view, foot_area);
    if choice.is_help {
        help(frame, area);
    }
}

fn paragraph(frame: &mut Frame<'_>, lines: Vec<Line<'_>>, area: Rect) {
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: true }), area);
}

/// The number of rows that lines take when `paragraph` wraps them at words.
fn row_count(lines: &[Line<'_>], width: u16) -> u16 {
    let width = usize::from(width.max(1));
    let rows = lines.iter().map(|line| {
        let text: String = line.spans.iter().map(|span| &*span.content).collect();
        doc::terminal::wrap(&text, "", width).len().max(1)
    });
    rows.sum::<usize>().min(usize::from(u16::MAX)) as u16
}

fn head(now: &Snapshot, palette: Palette) -> Vec<Line<'static>> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    vec![
        Line::styled(text(&document::title(now)), bold),
        Line::from(vec![
            Span::styled(
                text(&document::state(now)),
                palette.verdict(document::state_class(now.state)),
            ),
            Span::raw(format!(", {}", document::progress(now))),
        ]),
    ]
}

fn notes(now: &Snapshot, palette: Palette) -> Vec<Line<'static>> {
    let notes = document::notes(now).into_iter();
    notes
        .map(|note| Line::styled(text(&note), palette.alarm()))
        .collect()
}

fn verdict(now: &Snapshot, palette: Palette) -> Vec<Line<'static>> {
    let verdicts = document::verdicts(now).into_iter();
    verdicts
        .map(|(word, sentence)| match word {
            "" => Line::styled(sentence, DIMMED),
            word => Line::from(vec![
                Span::styled(word, palette.verdict(word)),
                Span::raw(format!(" {}", text(&sentence))),
            ]),
        })
        .collect()
}

/// The number of cards in a row.
fn columns(now: &Snapshot, width: u16) -> usize {
    (usize::from(width) / 36).clamp(1, now.arms.len().max(1))
}

fn arms_rows(now: &Snapshot, width: u16) -> u16 {
    let rows = now.arms.len().div_ceil(columns(now, width)) as u16;
    rows.saturating_mul(CARD_ROWS).min(2 * CARD_ROWS)
}

/// Draws a card for each arm with its newest trial.
fn arms(frame: &mut Frame<'_>, now: &Snapshot, area: Rect, palette: Palette) {
    let columns = columns(now, area.width);
    let rows = now.arms.chunks(columns);
    let heights = vec![Constraint::Fill(1); now.arms.len().div_ceil(columns)];
    let row_areas = Layout::vertical(heights).split(area);
    for (row, row_area) in rows.zip(row_areas.iter()) {
        let cards = Layout::horizontal(vec![Constraint::Fill(1); columns]).split(*row_area);
        for (arm, card) in row.iter().zip(cards.iter()) {
            let title = Span::styled(
                format!(" {} ", text(&arm.attempt.trial.arm)),
                palette.arm(arm.place).add_modifier(Modifier::BOLD),
            );
            let facts = document::arm(now, arm).into_iter();
            let lines: Vec<Line<'_>> = facts
                .map(|(name, value)| {
                    Line::from(vec![
                        Span::styled(format!("{name:<12} "), DIMMED),
                        Span::raw(text(&value)),
                    ])
                })
                .collect();
            let block = Block::new()
                .borders(Borders::TOP | Borders::LEFT)
                .title(title);
            frame.render_widget(Paragraph::new(lines).block(block), *card);
        }
    }
}

/// A line of a chart.
struct Series {
    /// Index of the arm in the plan.
    arm_index: usize,
    name: String,
    points: Vec<(f64, f64)>,
}

/// Draws throughput and p99 side by side, or one above the other if the screen is narrow.
fn curves(frame: &mut Frame<'_>, view: View<'_>, area: Rect) {
    let View {
        now,
        choice,
        chosen,
        palette,
    } = view;
    if area.height < 5 {
        return;
    }
    let all_series = |value: &dyn Fn(&Point) -> Option<f64>| -> Vec<Series> {
        let series = |arm_index: usize, name: String, points: &[Point]| Series {
            arm_index,
            name,
            points: points
                .iter()
                .map(|point| (point.at_s, value(point).unwrap_or(f64::NAN)))
                .collect(),
        };
        match (choice.attempt(now), chosen) {
            (Some(attempt), Some(curve)) => {
                let index = arm_index(now, &attempt.trial.arm);
                let name = format!("{} {:03}", attempt.trial.arm, attempt.trial.number);
                vec![series(index, name, curve.points())]
            }
            (Some(_), None) => Vec::new(),
            (None, _) => now
                .arms
                .iter()
                .map(|arm| {
                    series(
                        arm.place,
                        arm.attempt.trial.arm.clone(),
                        complete_points(arm),
                    )
                })
                .collect(),
        }
    };
    let throughput = all_series(&|point| Some(point.ok_per_s()));
    let latency = all_series(&|point| point.p99_ms);
    let is_wide = area.width >= 70;
    let halves = [Constraint::Fill(1), Constraint::Fill(1)];
    let [first, second] = if is_wide {
        Layout::horizontal(halves).spacing(1).areas(area)
    } else {
        Layout::vertical(halves).areas(area)
    };
    chart(frame, first, " requests/s ", &throughput, palette);
    chart(frame, second, " p99, ms ", &latency, palette);
}

/// The points of an arm's curve. The last second of a running trial is left out, because it may be incomplete.
fn complete_points(arm: &ArmNow) -> &[Point] {
    match (&arm.activity, arm.curve.points()) {
        (Some(Activity::Measuring { .. }), [complete @ .., _]) if !complete.is_empty() => complete,
        (_, all) => all,
    }
}

/// The index of an arm in the plan, 0 if it is unknown.
fn arm_index(now: &Snapshot, name: &str) -> usize {
    let mut arms = now.plan.iter().flat_map(|plan| &plan.arms);
    arms.position(|arm| arm.name == name).unwrap_or(0)
}

fn chart(frame: &mut Frame<'_>, area: Rect, title: &str, all: &[Series], palette: Palette) {
    if area.height < 4 {
        return;
    }
    let points = || all.iter().flat_map(|series| &series.points);
    let block = Block::new().borders(Borders::TOP).title(title.to_owned());
    let last = points().map(|point| point.0).fold(0.0, f64::max).max(1.0);
    let most = points().map(|point| point.1).fold(0.0, f64::max);
    if most <= 0.0 {
        let none = Paragraph::new("no second of load yet").style(DIMMED);
        frame.render_widget(none.block(block), area);
        return;
    }
    // Each segment without a gap is a line; the first one has the name.
    let datasets = all.iter().flat_map(|series| {
        let segments = series.points.split(|point| point.1.is_nan());
        let segments = segments.filter(|segment| !segment.is_empty()).enumerate();
        segments.map(|(number, segment)| {
            let line = Dataset::default()
                .marker(MARKERS[series.arm_index % MARKERS.len()])
                .graph_type(GraphType::Line)
                .style(palette.arm(series.arm_index))
                .data(segment);
            match number {
                0 => line.name(text(&series.name)),
                _ => line,
            }
        })
    });
    let top = most * 1.1;
    let label = |value: f64| base::input::units::significant(value, 3);
    let x_axis = Axis::default()
        .bounds([0.0, last])
        .labels(["0 s".into(), format!("{last:.0} s")]);
    let y_axis =
        Axis::default()
            .bounds([0.0, top])
            .labels(["0".into(), label(top / 2.0), label(top)]);
    let chart = Chart::new(datasets.collect())
        .block(block)
        .x_axis(x_axis)
        .y_axis(y_axis);
    frame.render_widget(chart, area);
}

/// Draws trials, defects and the journal side by side, as far as they fit.
fn lists(frame: &mut Frame<'_>, view: View<'_>, area: Rect) {
    let now = view.now;
    if area.height < 3 {
        return;
    }
    let rows = usize::from(area.height) - 1;
    let trials = trials(view, rows);
    let defects: Vec<Line<'_>> = now
        .defects
        .iter()
        .rev()
        .take(rows)
        .map(|(arm, number, seen)| {
            Line::styled(
                text(&document::defect(arm, *number, seen)),
                view.palette.alarm(),
            )
        })
        .collect();
    let journal = now
        .entries
        .iter()
        .rev()
        .take(rows)
        .map(|entry| Line::raw(text(&document::entry(entry))))
        .collect();
    let mut parts = vec![(" trials ", trials)];
    if !defects.is_empty() || area.width >= 120 {
        let defects = if defects.is_empty() {
            vec![Line::styled(document::no_defects(now), DIMMED)]
        } else {
            defects
        };
        parts.push((" defects ", defects));
    }
    if area.width >= 70 {
        parts.push((" journal ", journal));
    }
    let areas = Layout::horizontal(vec![Constraint::Fill(1); parts.len()])
        .spacing(1)
        .split(area);
    for ((title, lines), area) in parts.into_iter().zip(areas.iter()) {
        let block = Block::new().borders(Borders::TOP).title(title);
        frame.render_widget(Paragraph::new(lines).block(block), *area);
    }
}

/// Lines for the newest trials, newest first. The chosen trial is always among them.
fn trials(view: View<'_>, rows: usize) -> Vec<Line<'static>> {
    let View {
        now,
        choice,
        palette,
        ..
    } = view;
    let all = now.attempts.len();
    let chosen = choice.index(now);
    let newest = chosen.map_or(all, |index| {
        all.min(index + rows.div_ceil(2)).max(all.min(rows))
    });
    let indexes = (newest.saturating_sub(rows)..newest).rev();
    indexes
        .map(|index| {
            let [number, block, arm, state, figure] = document::attempt(now, index);
            let line = text(&format!("{number} block {block} {arm}: {state} {figure}"));
            let style = if chosen == Some(index) {
                Style::new().add_modifier(Modifier::REVERSED)
            } else {
                Style::new()
            };
            Line::styled(line, palette.arm(arm_index(now, &arm)).patch(style))
        })
        .collect()
}

fn foot(frame: &mut Frame<'_>, view: View<'_>, area: Rect) {
    let View { now, choice, .. } = view;
    let shown = match choice.attempt(now) {
        Some(attempt) => format!("trial {:03} of {}", attempt.trial.number, attempt.trial.arm),
        None => "newest trial of each arm".into(),
    };
    let line = format!("{}  q end  ←→ trial  ? keys  {shown}", document::time(now));
    frame.render_widget(Paragraph::new(text(&line)).style(DIMMED), area);
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let lines: Vec<Line<'_>> = KEYS
        .iter()
        .map(|(key, effect)| Line::raw(format!(" {key:<15} {effect} ")))
        .collect();
    let width = lines.iter().map(Line::width).max().unwrap_or(0) as u16 + 2;
    let [area] = Layout::horizontal([Constraint::Max(width)])
        .flex(ratatui::layout::Flex::Center)
        .areas(area);
    let [area] = Layout::vertical([Constraint::Max(KEYS.len() as u16 + 2)])
        .flex(ratatui::layout::Flex::Center)
        .areas(area);
    frame.render_widget(Clear, area);
    frame.render_widget(
        Paragraph::new(lines).block(Block::bordered().title(" keys ")),
        area,
    );
}

/// Text from files, without control characters that a terminal would obey.
fn text(untrusted: &str) -> String {
    base::input::text::clean_line(untrusted)
}
