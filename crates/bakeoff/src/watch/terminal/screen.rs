//! What is drawn, from a snapshot and a choice.

use judge::topics::live::document as told;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Borders, Chart, Clear, Dataset, GraphType, Paragraph, Wrap};
use record::live::{Activity, ArmNow, Curve, Point, Snapshot};

use super::keys::{Choice, KEYS};

/// Below this nothing can be told.
const LEAST: (u16, u16) = (30, 8);

/// Lines of an arm's card.
const CARD_ROWS: u16 = 9;

/// Colours, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Palette {
    has_colour: bool,
}

impl Palette {
    /// `is_plain` where no colour is wanted.
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

    /// The arm at this place of the plan, as the report's colours are.
    fn arm(self, place: usize) -> Style {
        const ARMS: [Color; 6] = [
            Color::Gray,
            Color::Yellow,
            Color::Blue,
            Color::Green,
            Color::Magenta,
            Color::Red,
        ];
        self.colour(ARMS[place % ARMS.len()])
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

/// What is less important.
const SOFT: Style = Style::new().add_modifier(Modifier::DIM);

/// Arms differ in their marks too, for terminals without colours.
const MARKERS: [Marker; 3] = [Marker::Braille, Marker::Dot, Marker::HalfBlock];

/// What is looked at.
#[derive(Clone, Copy)]
pub(super) struct View<'v> {
    pub(super) now: &'v Snapshot,
    pub(super) choice: &'v Choice,
    /// What the clients of the chosen attempt saw.
    pub(super) chosen: Option<&'v Curve>,
    pub(super) palette: Palette,
}

/// Draws all of it: what there is no room for is left out from below.
pub(super) fn draw(frame: &mut Frame<'_>, view: View<'_>) {
    let View {
        now,
        choice,
        palette,
        ..
    } = view;
    let area = frame.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        frame.render_widget(Paragraph::new("too small").wrap(Wrap { trim: true }), area);
        return;
    }
    let verdict = verdict(now, palette);
    let notes = notes(now, palette);
    let head_rows = wrapped(&head(now, palette), area.width);
    let verdict_rows = wrapped(&verdict, area.width).min(area.height / 3);
    let note_rows = wrapped(&notes, area.width).min(4);
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

/// Rows that lines take, as `paragraph` wraps them: by words, so a few more than by letters.
fn wrapped(lines: &[Line<'_>], width: u16) -> u16 {
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
        Line::styled(text(&told::title(now)), bold),
        Line::from(vec![
            Span::styled(
                text(&told::state(now)),
                palette.verdict(told::state_class(now.state)),
            ),
            Span::raw(format!(", {}", told::progress(now))),
        ]),
    ]
}

fn notes(now: &Snapshot, palette: Palette) -> Vec<Line<'static>> {
    let notes = told::notes(now).into_iter();
    notes
        .map(|note| Line::styled(text(&note), palette.alarm()))
        .collect()
}

fn verdict(now: &Snapshot, palette: Palette) -> Vec<Line<'static>> {
    let verdicts = told::verdicts(now).into_iter();
    verdicts
        .map(|(word, said)| match word {
            "" => Line::styled(said, SOFT),
            word => Line::from(vec![
                Span::styled(word, palette.verdict(word)),
                Span::raw(format!(" {}", text(&said))),
            ]),
        })
        .collect()
}

/// How many cards stand side by side.
fn columns(now: &Snapshot, width: u16) -> usize {
    (usize::from(width) / 36).clamp(1, now.arms.len().max(1))
}

fn arms_rows(now: &Snapshot, width: u16) -> u16 {
    let rows = now.arms.len().div_ceil(columns(now, width)) as u16;
    rows.saturating_mul(CARD_ROWS).min(2 * CARD_ROWS)
}

/// Arms side by side, each with its newest trial.
fn arms(frame: &mut Frame<'_>, now: &Snapshot, area: Rect, palette: Palette) {
    let columns = columns(now, area.width);
    let rows = now.arms.chunks(columns);
    let heights = vec![Constraint::Fill(1); now.arms.len().div_ceil(columns)];
    let places = Layout::vertical(heights).split(area);
    for (row, place) in rows.zip(places.iter()) {
        let cards = Layout::horizontal(vec![Constraint::Fill(1); columns]).split(*place);
        for (arm, card) in row.iter().zip(cards.iter()) {
            let title = Span::styled(
                format!(" {} ", text(&arm.attempt.trial.arm)),
                palette.arm(arm.place).add_modifier(Modifier::BOLD),
            );
            let facts = told::arm(now, arm).into_iter();
            let lines: Vec<Line<'_>> = facts
                .map(|(name, value)| {
                    Line::from(vec![
                        Span::styled(format!("{name:<12} "), SOFT),
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
    place: usize,
    name: String,
    points: Vec<(f64, f64)>,
}

/// Throughput and p99 side by side; one above the other where it is narrow.
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
    let of = |value: &dyn Fn(&Point) -> Option<f64>| -> Vec<Series> {
        let series = |place: usize, name: String, points: &[Point]| Series {
            place,
            name,
            points: points
                .iter()
                .map(|point| (point.at_s, value(point).unwrap_or(f64::NAN)))
                .collect(),
        };
        match (choice.attempt(now), chosen) {
            (Some(attempt), Some(curve)) => {
                let arms = now.plan.iter().flat_map(|plan| &plan.arms);
                let place = arms
                    .map(|arm| &arm.name)
                    .position(|name| *name == attempt.trial.arm);
                let name = format!("{} {:03}", attempt.trial.arm, attempt.trial.number);
                vec![series(place.unwrap_or(0), name, curve.points())]
            }
            (Some(_), None) => Vec::new(),
            (None, _) => now
                .arms
                .iter()
                .map(|arm| series(arm.place, arm.attempt.trial.arm.clone(), whole(arm)))
                .collect(),
        }
    };
    let throughput = of(&|point| Some(point.ok_per_s()));
    let latency = of(&|point| point.p99_ms);
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

/// The last second of a trial under way may not be whole yet.
fn whole(arm: &ArmNow) -> &[Point] {
    match (&arm.activity, arm.curve.points()) {
        (Some(Activity::Measuring { .. }), [whole @ .., _]) if !whole.is_empty() => whole,
        (_, all) => all,
    }
}

fn chart(frame: &mut Frame<'_>, area: Rect, title: &str, all: &[Series], palette: Palette) {
    if area.height < 4 {
        return;
    }
    let points = || all.iter().flat_map(|one| &one.points);
    let block = Block::new().borders(Borders::TOP).title(title.to_owned());
    let last = points().map(|point| point.0).fold(0.0, f64::max).max(1.0);
    let most = points().map(|point| point.1).fold(0.0, f64::max);
    if most <= 0.0 {
        let none = Paragraph::new("no second of load yet").style(SOFT);
        frame.render_widget(none.block(block), area);
        return;
    }
    // A line of each stretch without a gap; the first has the name.
    let datasets = all.iter().flat_map(|series| {
        let stretches = series.points.split(|point| point.1.is_nan());
        let stretches = stretches.filter(|stretch| !stretch.is_empty()).enumerate();
        stretches.map(|(number, stretch)| {
            let line = Dataset::default()
                .marker(MARKERS[series.place % MARKERS.len()])
                .graph_type(GraphType::Line)
                .style(palette.arm(series.place))
                .data(stretch);
            match number {
                0 => line.name(text(&series.name)),
                _ => line,
            }
        })
    });
    let top = most * 1.1;
    let label = |value: f64| base::input::units::significant(value, 3);
    let across = Axis::default()
        .bounds([0.0, last])
        .labels(["0 s".into(), format!("{last:.0} s")]);
    let upwards =
        Axis::default()
            .bounds([0.0, top])
            .labels(["0".into(), label(top / 2.0), label(top)]);
    let chart = Chart::new(datasets.collect())
        .block(block)
        .x_axis(across)
        .y_axis(upwards);
    frame.render_widget(chart, area);
}

/// Trials, defects and the journal side by side, as far as there is room.
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
                text(&told::defect(arm, *number, seen)),
                view.palette.alarm(),
            )
        })
        .collect();
    let journal = now
        .entries
        .iter()
        .rev()
        .take(rows)
        .map(|entry| Line::raw(text(&told::entry(entry))))
        .collect();
    let mut parts = vec![(" trials ", trials)];
    if !defects.is_empty() || area.width >= 120 {
        let none = || vec![Line::styled(told::no_defects(now), SOFT)];
        parts.push((
            " defects ",
            if defects.is_empty() { none() } else { defects },
        ));
    }
    if area.width >= 70 {
        parts.push((" journal ", journal));
    }
    let places = Layout::horizontal(vec![Constraint::Fill(1); parts.len()])
        .spacing(1)
        .split(area);
    for ((title, lines), place) in parts.into_iter().zip(places.iter()) {
        let block = Block::new().borders(Borders::TOP).title(title);
        frame.render_widget(Paragraph::new(lines).block(block), *place);
    }
}

/// The newest trials first, the chosen one among them.
fn trials(view: View<'_>, rows: usize) -> Vec<Line<'static>> {
    let View {
        now,
        choice,
        palette,
        ..
    } = view;
    let all = now.attempts.len();
    let chosen = choice.index(now);
    let newest = chosen.map_or(all, |place| {
        all.min(place + rows.div_ceil(2)).max(all.min(rows))
    });
    let shown = (newest.saturating_sub(rows)..newest).rev();
    shown
        .map(|index| {
            let [number, block, arm, state, figure] = told::attempt(now, index);
            let line = text(&format!("{number} block {block} {arm}: {state} {figure}"));
            let is_chosen = chosen == Some(index);
            let style = if is_chosen {
                Style::new().add_modifier(Modifier::REVERSED)
            } else {
                Style::new()
            };
            let place = now
                .plan
                .iter()
                .flat_map(|plan| &plan.arms)
                .position(|one| one.name == arm);
            Line::styled(line, palette.arm(place.unwrap_or(0)).patch(style))
        })
        .collect()
}

fn foot(frame: &mut Frame<'_>, view: View<'_>, area: Rect) {
    let View { now, choice, .. } = view;
    let shown = match choice.attempt(now) {
        Some(attempt) => format!("trial {:03} of {}", attempt.trial.number, attempt.trial.arm),
        None => "newest trial of each arm".into(),
    };
    let line = format!("{}  q end  ←→ trial  ? keys  {shown}", told::time(now));
    frame.render_widget(Paragraph::new(text(&line)).style(SOFT), area);
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let lines: Vec<Line<'_>> = KEYS
        .iter()
        .map(|(key, does)| Line::raw(format!(" {key:<15} {does} ")))
        .collect();
    let width = lines.iter().map(Line::width).max().unwrap_or(0) as u16 + 2;
    let [place] = Layout::horizontal([Constraint::Max(width)])
        .flex(ratatui::layout::Flex::Center)
        .areas(area);
    let [place] = Layout::vertical([Constraint::Max(KEYS.len() as u16 + 2)])
        .flex(ratatui::layout::Flex::Center)
        .areas(place);
    frame.render_widget(Clear, place);
    frame.render_widget(
        Paragraph::new(lines).block(Block::bordered().title(" keys ")),
        place,
    );
}

/// Text of others: nothing in it moves the cursor.
fn text(told: &str) -> String {
    base::input::text::clean_line(told)
}
