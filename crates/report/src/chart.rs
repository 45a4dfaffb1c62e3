//! The page's charts: data and layout for Plotly, without colours.
//!
//! Colours belong to the page, which has a light and a dark face: a trace says by its arm's place
//! in the plan (`meta.arm`) whose it is, and the page's script paints it. Every chart has its
//! numbers in a table beside it.

use plotly::Plot;
use record::metric::Role;
use record::rundir::Run;
use record::verdict::{ArmClients, ArmCurve, ArmSummary, Comparison, Scaling};
use serde_json::{Value, json};

use crate::{curves, scaling, words};

/// A chart of the page.
pub(crate) struct Chart {
    /// Its element's id.
    pub(crate) id: String,
    /// What it shows, for those who cannot see it.
    pub(crate) label: String,
    data: Vec<Value>,
    layout: Value,
}

/// The charting library's code. Plotly's crate brings `MathJax` with it, which no chart here needs.
pub(crate) fn library() -> String {
    let sources = Plot::offline_js_sources();
    let (script, _mathjax) = sources
        .split_once("</script>")
        .expect("plotly's sources are script elements");
    let (_tag, code) = script
        .split_once('>')
        .expect("a script element begins with its tag");
    code.to_string()
}

/// Charts as JSON that may stand inside a script element: no `<` in it can end the element.
pub(crate) fn json(charts: &[Chart]) -> String {
    let figure =
        |chart: &Chart| json!({ "id": chart.id, "data": chart.data, "layout": chart.layout });
    let figures: Vec<Value> = charts.iter().map(figure).collect();
    Value::Array(figures).to_string().replace('<', "\\u003c")
}

/// All metrics of one workload against the margin; `None` when none has a ratio.
pub(crate) fn verdicts(run: &Run, comparisons: &[&Comparison], number: usize) -> Option<Chart> {
    let margin = margin(run);
    let bars: Vec<Bar> = comparisons
        .iter()
        .filter_map(|one| Bar::of(run, one))
        .collect();
    let edge = edge(&bars, margin[1]);
    let mut data = Vec::new();
    for (place, arm) in run.plan.arms.iter().enumerate() {
        let its: Vec<&Bar> = bars.iter().filter(|bar| bar.place == place).collect();
        if !its.is_empty() {
            data.extend(intervals(place, (&arm.name, &its), edge));
        }
    }
    // Where several arms meet the baseline, each has a line of its own, metric by metric.
    let mut order: Vec<&Comparison> = comparisons.to_vec();
    order.sort_by_key(|one| comparisons.iter().position(|first| first.spec == one.spec));
    let order: Vec<String> = order.into_iter().map(|one| label(run, one)).collect();
    let lowest = bars.iter().map(|bar| bar.low.min(bar.change));
    let highest = bars.iter().map(|bar| bar.high.max(bar.change));
    let left = lowest.fold(2.0 * margin[0], f64::min).max(-edge) * 1.1;
    let right = highest.fold(2.0 * margin[1], f64::max).min(edge) * 1.1;
    let layout = json!({
        "meta": { "band": margin },
        "xaxis": {
            "title": { "text": "change against the baseline" },
            "ticksuffix": " %", "zeroline": true, "range": [left, right],
        },
        "yaxis": { "autorange": "reversed", "categoryorder": "array", "categoryarray": order },
        "showlegend": run.plan.arms.len() > 2,
    });
    let mut label =
        "Change of each metric with its interval, drawn against the margin (shaded); the \
                     arrow points to what is better"
            .to_string();
    if bars.iter().any(|bar| !bar.is_bounded) {
        label += "; hollow marks have no interval yet";
    }
    (!data.is_empty()).then(|| Chart {
        id: format!("verdicts-{number}"),
        label,
        data,
        layout,
    })
}

/// The margin as changes in percent.
fn margin(run: &Run) -> [f64; 2] {
    let margin = run.plan.design.margin;
    [(1.0 / (1.0 + margin) - 1.0) * 100.0, margin * 100.0]
}

fn label(run: &Run, comparison: &Comparison) -> String {
    match run.plan.arms.len() {
        2 => words::directed(&comparison.spec),
        _ => format!("{} {}", words::directed(&comparison.spec), comparison.arm),
    }
}

/// How far the axis goes: a change that dwarfs all others is drawn at the edge, so that those can be seen.
fn edge(bars: &[Bar], margin: f64) -> f64 {
    const DWARFS: f64 = 5.0;
    let mut changes: Vec<f64> = bars.iter().map(|bar| bar.change.abs()).collect();
    changes.sort_by(f64::total_cmp);
    let mut edge = 4.0 * margin;
    for change in changes {
        if change <= DWARFS * edge {
            edge = edge.max(change);
        }
    }
    let ends = bars.iter().flat_map(|bar| [bar.low.abs(), bar.high.abs()]);
    let ends = ends.filter(|end| *end <= 2.0 * edge);
    ends.fold(edge, f64::max)
}

/// An arm's changes: those with an interval as marks with bars, then those that have none, or lie beyond the edge.
fn intervals(place: usize, (arm, bars): (&str, &[&Bar]), edge: f64) -> Vec<Value> {
    let has_bar = |bar: &&&Bar| bar.is_bounded && bar.change.abs() <= edge;
    let barred: Vec<&Bar> = bars.iter().filter(has_bar).copied().collect();
    let others: Vec<&Bar> = bars.iter().filter(|bar| !has_bar(bar)).copied().collect();
    let mut traces = Vec::new();
    if !barred.is_empty() {
        let each = |of: fn(&Bar) -> f64| barred.iter().map(|bar| of(bar)).collect::<Vec<f64>>();
        let mut trace = marks(place, (arm, &barred), edge);
        trace["error_x"] = json!({
            "type": "data", "symmetric": false, "thickness": 2, "width": 6,
            "array": each(|bar| bar.high - bar.change),
            "arrayminus": each(|bar| bar.change - bar.low),
        });
        traces.push(trace);
    }
    if !others.is_empty() {
        let mut trace = marks(place, (arm, &others), edge);
        trace["showlegend"] = json!(traces.is_empty());
        traces.push(trace);
    }
    traces
}

/// Marks without bars; one beyond the edge is an arrow there with its change beside it.
fn marks(place: usize, (arm, bars): (&str, &[&Bar]), edge: f64) -> Value {
    let each = |of: &dyn Fn(&Bar) -> Value| bars.iter().map(|bar| of(bar)).collect::<Vec<_>>();
    let is_beyond = |bar: &Bar| bar.change.abs() > edge;
    let mark = |bar: &Bar| match (is_beyond(bar), bar.is_bounded) {
        (true, _) if bar.change < 0.0 => "triangle-left".into(),
        (true, _) => "triangle-right".into(),
        (false, true) => symbol(place).to_string(),
        (false, false) => format!("{}-open", symbol(place)),
    };
    let said = |bar: &Bar| {
        if is_beyond(bar) {
            json!(bar.said)
        } else {
            json!("")
        }
    };
    let side = |bar: &Bar| ["middle left", "middle right"][usize::from(bar.change < 0.0)];
    json!({
        "type": "scatter", "mode": "markers+text", "name": arm, "meta": { "arm": place },
        "legendgroup": arm,
        "x": each(&|bar| json!(bar.change.clamp(-edge, edge))),
        "y": each(&|bar| json!(bar.label)),
        "text": each(&said), "textposition": each(&|bar| json!(side(bar))),
        "hovertext": each(&|bar| json!(bar.text)),
        "hovertemplate": "%{y}<br>%{hovertext}<extra></extra>",
        "marker": { "size": 10, "symbol": each(&|bar| json!(mark(bar))) },
    })
}

/// A comparison with a ratio, as changes in percent.
struct Bar {
    place: usize,
    label: String,
    text: String,
    said: String,
    change: f64,
    low: f64,
    high: f64,
    is_bounded: bool,
}

impl Bar {
    fn of(run: &Run, comparison: &Comparison) -> Option<Self> {
        let change = percent(comparison.ratio?);
        let said = words::change(comparison.ratio);
        let interval = comparison.low.zip(comparison.high);
        let text = match interval {
            Some(_) => words::interval(comparison),
            None => "no interval yet".into(),
        };
        let (low, high) = interval.map_or((change, change), |(low, high)| {
            (percent(low), percent(high))
        });
        Some(Self {
            place: place(run, &comparison.arm),
            label: label(run, comparison),
            text: format!("{} {said} {text}", comparison.verdict.word()),
            said,
            change,
            low,
            high,
            is_bounded: interval.is_some(),
        })
    }
}

/// Estimate after each block: the change in each block, and estimate and interval after so many blocks; `None` before
/// there are two.
pub(crate) fn estimate_history(
    run: &Run,
    comparisons: &[&Comparison],
    number: usize,
) -> Option<Chart> {
    let primaries = words::primaries(comparisons.iter().copied());
    let grown: Vec<&Comparison> = primaries.filter(|one| one.pairs.len() > 1).collect();
    let spec = &grown.first()?.spec;
    let margin = margin(run);
    let mut data: Vec<Value> = grown.iter().map(|one| running_band(run, one)).collect();
    data.extend(grown.iter().flat_map(|one| running(run, one)));
    // The first intervals may be as wide as a house: the axis follows the blocks and the last interval.
    let changes = grown.iter().flat_map(|one| changes(one));
    let ends = grown.iter().filter_map(|one| one.estimate_history.last());
    let ends = ends.flat_map(|last| [percent(last.low), percent(last.high)]);
    let shown: Vec<f64> = changes.flatten().chain(ends).chain(margin).collect();
    let low = shown.iter().copied().fold(0.0, f64::min);
    let high = shown.iter().copied().fold(0.0, f64::max);
    let air = (high - low) * 0.12;
    let most = grown.iter().map(|one| one.pairs.len()).max().unwrap_or(0);
    let layout = json!({
        "meta": { "level": margin },
        "xaxis": {
            "title": { "text": "blocks so far" }, "dtick": whole_ticks(most), "zeroline": false,
            "range": [0.5, most as f64 + 0.5],
        },
        "yaxis": {
            "title": { "text": format!("change of {}", words::directed(spec)) },
            "ticksuffix": " %", "zeroline": true, "range": [low - air, high + air],
        },
        "hovermode": "closest",
    });
    Some(Chart {
        id: format!("estimates-{number}"),
        label:
            "The change in each block, and estimate and interval after so many blocks; the margin \
                is shaded"
                .into(),
        data,
        layout,
    })
}

fn percent(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

/// The change in each block, in percent; `None` where the baseline's figure is zero.
fn changes(comparison: &Comparison) -> Vec<Option<f64>> {
    let pairs = comparison.pairs.iter();
    let change = pairs.map(|pair| Some(percent(pair.arm / pair.baseline)));
    change
        .map(|change| change.filter(|change| change.is_finite()))
        .collect()
}

/// The interval after so many blocks, as an area.
fn running_band(run: &Run, comparison: &Comparison) -> Value {
    let there = comparison.estimate_history.iter();
    let back = there.clone().rev();
    let both = there.clone().chain(back.clone());
    let x: Vec<u32> = both.map(|estimate| estimate.blocks).collect();
    let y: Vec<f64> = there
        .map(|estimate| percent(estimate.high))
        .chain(back.map(|estimate| percent(estimate.low)))
        .collect();
    area((place(run, &comparison.arm), &comparison.arm), x, &y)
}

/// A shaded area that belongs to an arm: out along one edge, back along the other.
fn area((place, arm): (usize, &str), x: impl Into<Value>, y: &[f64]) -> Value {
    let x: Value = x.into();
    json!({
        "type": "scatter", "mode": "lines", "meta": { "arm": place, "band": true },
        "x": x, "y": y, "fill": "toself", "line": { "width": 0 }, "hoverinfo": "skip",
        "legendgroup": arm, "showlegend": false,
    })
}

/// The estimate after so many blocks as a line, and the blocks as points.
fn running(run: &Run, comparison: &Comparison) -> [Value; 2] {
    let (place, arm) = (place(run, &comparison.arm), &comparison.arm);
    let history = &comparison.estimate_history;
    let text: Vec<String> = history
        .iter()
        .map(|one| {
            let [ratio, low, high] =
                [one.ratio, one.low, one.high].map(|ratio| words::change(Some(ratio)));
            format!("{ratio} [{low}, {high}]")
        })
        .collect();
    let line = json!({
        "type": "scatter", "mode": "lines", "name": format!("{arm}, estimate"),
        "meta": { "arm": place }, "legendgroup": arm,
        "x": history.iter().map(|one| one.blocks).collect::<Vec<_>>(),
        "y": history.iter().map(|one| percent(one.ratio)).collect::<Vec<_>>(),
        "line": { "width": 2, "dash": dash(place) }, "text": text,
        "hovertemplate": "after %{x} blocks: %{text}<extra></extra>",
    });
    let blocks: Vec<String> = comparison
        .pairs
        .iter()
        .map(|pair| format!("block {}", pair.block))
        .collect();
    let points = json!({
        "type": "scatter", "mode": "markers", "name": format!("{arm}, each block"),
        "meta": { "arm": place }, "legendgroup": arm,
        "x": (1..=comparison.pairs.len()).collect::<Vec<_>>(), "y": changes(comparison),
        "marker": { "size": 8, "symbol": symbol(place) }, "text": blocks,
        "hovertemplate": "%{text}: %{y:+.2f} %<extra></extra>",
    });
    [line, points]
}

/// Pages served per second over the window.
pub(crate) fn over_time(run: &Run, tables: &[&ArmSummary], number: usize) -> Option<Chart> {
    let line = |place: usize, (table, clients): (&ArmSummary, &ArmClients)| {
        json!({
            "type": "scatter", "mode": "lines", "name": table.arm, "meta": { "arm": place },
            "x": axis(&clients.over_time, |point| point.0),
            "y": axis(&clients.over_time, |point| point.1),
            "line": { "width": 2, "dash": dash(place) },
            "hovertemplate": "second %{x}: %{y:.4~g} pages/s",
        })
    };
    let layout = json!({
        "xaxis": { "title": { "text": "seconds since the window opened" } },
        "yaxis": { "title": { "text": "requests per second" }, "rangemode": "tozero" },
        "hovermode": "x unified",
    });
    let data = lines(run, tables, |clients| clients.over_time.len() > 1, line);
    let label = "Requests served per second over the window, mean over trials".into();
    (!data.is_empty()).then(|| Chart {
        id: format!("time-{number}"),
        label,
        data,
        layout,
    })
}

/// A figure against the load: a line for each arm, and a band from the lowest trial to the highest. `None` where
/// no arm was measured at two loads.
pub(crate) fn curve(run: &Run, family: &[ArmCurve], id: String) -> Option<Chart> {
    let unit = curves::unit(family);
    let long: Vec<&ArmCurve> = family
        .iter()
        .filter(|one| one.typical.points.len() > 1)
        .collect();
    let curve = &long.first()?.typical;
    let mut data: Vec<Value> = long
        .iter()
        .filter(|one| one.trials > 1)
        .map(|one| spread((place(run, &one.arm), one), unit.factor))
        .collect();
    let line = |one: &&ArmCurve| median_line((place(run, &one.arm), one), &unit);
    data.extend(long.iter().map(line));
    let points = || long.iter().flat_map(|one| &one.typical.points);
    let y_title = format!("{}, {}", curve.name, unit.name);
    let yaxis = if spans(points().map(|point| point.value), 30.0) {
        logarithmic(&y_title)
    } else {
        json!({ "title": { "text": y_title }, "rangemode": "tozero" })
    };
    let xaxis = if spans(points().map(|point| point.at), 1000.0) {
        logarithmic(curves::axis(curve))
    } else {
        json!({ "title": { "text": curves::axis(curve) }, "zeroline": false })
    };
    let layout = json!({ "xaxis": xaxis, "yaxis": yaxis, "hovermode": "x unified" });
    let spread = if data.len() > long.len() {
        "; the bands go from the lowest trial to the highest"
    } else {
        ""
    };
    Some(Chart {
        id,
        label: format!("{}{spread}", curves::title(family)),
        data,
        layout,
    })
}

/// A primary figure against CPUs: as `curve`, a line for each group in the colour of its first arm; and dotted, the law.
pub(crate) fn cpus(run: &Run, groups: &[&Scaling], id: String) -> Option<Chart> {
    let first = groups.first()?;
    let family = scaling::family(groups);
    let unit = curves::unit(&family);
    let place = |group: &Scaling| place(run, &group.steps[0].arm);
    let bands = groups.iter().filter(|group| group.curve.trials > 1);
    let mut data: Vec<Value> = bands
        .map(|group| spread((place(group), &group.curve), unit.factor))
        .collect();
    let laws = groups
        .iter()
        .filter_map(|group| Some((group, group.law.as_ref()?)));
    data.extend(laws.map(|(group, law)| {
        json!({
            "type": "scatter", "mode": "lines", "name": format!("{}, law", group.curve.arm),
            "legendgroup": group.curve.arm, "meta": { "arm": place(group) },
            "x": law.line.iter().map(|point| point.at).collect::<Vec<_>>(),
            "y": law.line.iter().map(|point| point.value * unit.factor).collect::<Vec<_>>(),
            "line": { "width": 1, "dash": "dot" }, "hoverinfo": "skip",
        })
    }));
    let lines = groups.iter();
    data.extend(lines.map(|group| median_line((place(group), &group.curve), &unit)));
    let steps = groups.iter().flat_map(|group| &group.steps);
    let mut counts: Vec<u32> = steps.map(|step| step.cpus).collect();
    counts.sort_unstable();
    counts.dedup();
    let y_title = format!("{}, {}", first.curve.typical.name, unit.name);
    let layout = json!({
        "xaxis": { "title": { "text": "CPUs" }, "tickvals": counts, "zeroline": false },
        "yaxis": { "title": { "text": y_title }, "rangemode": "tozero" },
        "hovermode": "x unified",
    });
    let mut label = curves::title(&family);
    if family.iter().any(|one| one.trials > 1) {
        label += "; the bands go from the lowest trial to the highest";
    }
    if groups.iter().any(|group| group.law.is_some()) {
        label += "; thin and dotted, the fitted law";
    }
    Some(Chart {
        id,
        label,
        data,
        layout,
    })
}

/// Whether values are all above zero and so far apart that a linear axis would hide the small ones.
fn spans(values: impl Iterator<Item = f64>, times: f64) -> bool {
    let (low, high) = values.fold((f64::MAX, 0.0), |(low, high): (f64, f64), value| {
        (low.min(value), high.max(value))
    });
    low > 0.0 && high > times * low
}

fn median_line((place, one): (usize, &ArmCurve), unit: &curves::Unit) -> Value {
    let points = one.typical.points.iter();
    json!({
        "type": "scatter", "mode": "lines+markers", "name": one.arm, "legendgroup": one.arm,
        "meta": { "arm": place },
        "x": points.clone().map(|point| point.at).collect::<Vec<_>>(),
        "y": points.map(|point| point.value * unit.factor).collect::<Vec<_>>(),
        "line": { "width": 2, "dash": dash(place) },
        "marker": { "size": 7, "symbol": symbol(place) },
        "hovertemplate": format!("%{{y:.4~g}} {}", markup_free(&unit.name)),
    })
}

/// A unit comes from a workload or its plan, and Plotly reads markup and `%{}` in a template.
fn markup_free(unit: &str) -> String {
    unit.replace(['<', '>', '{', '}', '&'], " ")
}

fn spread((place, one): (usize, &ArmCurve), factor: f64) -> Value {
    let loads = one.typical.points.iter().map(|point| point.at);
    let x: Vec<f64> = loads.clone().chain(loads.rev()).collect();
    let edges = one.highest.iter().chain(one.lowest.iter().rev());
    let y: Vec<f64> = edges.map(|value| value * factor).collect();
    area((place, &one.arm), x, &y)
}

/// The primary metric block by block, baseline and arm of a block joined.
pub(crate) fn blocks(run: &Run, comparisons: &[&Comparison], number: usize) -> Option<Chart> {
    let primary = |comparison: &&&Comparison| comparison.spec.role == Role::Primary;
    let primaries: Vec<_> = comparisons.iter().filter(primary).collect();
    let spec = &primaries.first()?.spec;
    let mut data: Vec<Value> = primaries
        .iter()
        .map(|comparison| joints(comparison))
        .collect();
    let mut base: Vec<(f64, f64)> = primaries
        .iter()
        .flat_map(|comparison| &comparison.pairs)
        .map(|pair| (f64::from(pair.block), pair.baseline))
        .collect();
    base.sort_by(|one, two| one.0.total_cmp(&two.0));
    base.dedup();
    if base.is_empty() {
        return None;
    }
    for (place, arm) in run.plan.arms.iter().enumerate() {
        let its = primaries
            .iter()
            .filter(|comparison| comparison.arm == arm.name);
        let pairs = its.flat_map(|comparison| &comparison.pairs);
        let points: Vec<(f64, f64)> = match place {
            0 => base.clone(),
            _ => pairs
                .map(|pair| (f64::from(pair.block), pair.arm))
                .collect(),
        };
        data.push(json!({
            "type": "scatter", "mode": "markers", "name": arm.name, "meta": { "arm": place },
            "x": axis(&points, |point| point.0), "y": axis(&points, |point| point.1),
            "marker": { "size": 10, "symbol": symbol(place) },
            "hovertemplate": "%{y:.5~g}",
        }));
    }
    let layout = json!({
        "xaxis": {
            "title": { "text": "block" }, "dtick": whole_ticks(base.len()), "zeroline": false,
        },
        "yaxis": { "title": { "text": words::unit(&spec.unit) } },
        "hovermode": "x unified",
    });
    let label = format!("Every block's {}, the arms of a block joined", spec.name);
    Some(Chart {
        id: format!("blocks-{number}"),
        label,
        data,
        layout,
    })
}

/// The lines between baseline and arm; a `null` lifts the pen between blocks.
fn joints(comparison: &Comparison) -> Value {
    let pairs = comparison.pairs.iter();
    let x: Vec<Value> = pairs
        .clone()
        .flat_map(|pair| [json!(pair.block), json!(pair.block), Value::Null])
        .collect();
    let y: Vec<Value> = pairs
        .flat_map(|pair| [json!(pair.baseline), json!(pair.arm), Value::Null])
        .collect();
    json!({
        "type": "scatter", "mode": "lines", "x": x, "y": y, "meta": { "joint": true },
        "line": { "width": 1.5 }, "hoverinfo": "skip", "showlegend": false,
    })
}

/// Ticks on whole blocks only, and not too many of them.
fn whole_ticks(blocks: usize) -> usize {
    blocks.div_ceil(15).max(1)
}

/// Latency quantiles, the axis stretched towards 1: each nine as wide as the last.
pub(crate) fn latency(run: &Run, tables: &[&ArmSummary], number: usize) -> Option<Chart> {
    let line = |place: usize, (table, clients): (&ArmSummary, &ArmClients)| {
        // The maximum lies at quantile 1, which no logarithmic axis reaches.
        let points: Vec<(f64, f64)> = clients
            .latency_curve
            .iter()
            .copied()
            .filter(|(quantile, _)| *quantile < 1.0)
            .collect();
        let text: Vec<String> = points
            .iter()
            .map(|(quantile, _)| format!("{:.4} %", quantile * 100.0))
            .collect();
        json!({
            "type": "scatter", "mode": "lines", "name": table.arm, "meta": { "arm": place },
            "x": axis(&points, |(quantile, _)| 1.0 / (1.0 - quantile)),
            "y": axis(&points, |(_, ms)| *ms), "text": text,
            "line": { "width": 2, "dash": dash(place), "shape": "hv" },
            "hovertemplate": "%{text} within %{y:.4~g} ms",
        })
    };
    let layout = json!({
        "xaxis": {
            "type": "log", "title": { "text": "share of pages" },
            "tickvals": [1, 2, 10, 100, 1e3, 1e4, 1e5, 1e6],
            "ticktext": ["0", "50 %", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %", "99.9999 %"],
        },
        "yaxis": logarithmic("answered within, ms"),
        "hovermode": "closest",
    });
    let has_curve = |clients: &ArmClients| clients.latency_curve.len() > 1;
    let data = lines(run, tables, has_curve, line);
    let label = "Latency quantiles of all trials together".into();
    (!data.is_empty()).then(|| Chart {
        id: format!("latency-{number}"),
        label,
        data,
        layout,
    })
}

/// A logarithmic axis with named ticks: Plotly would name every second one by its first digit only.
fn logarithmic(title: &str) -> Value {
    let steps: Vec<f64> = [0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6]
        .into_iter()
        .flat_map(|decade| [decade, 2.0 * decade, 5.0 * decade])
        .collect();
    json!({
        "type": "log", "title": { "text": title }, "tickvals": steps,
        "ticktext": steps.iter().map(f64::to_string).collect::<Vec<_>>(),
    })
}

fn lines(
    run: &Run,
    tables: &[&ArmSummary],
    has_points: impl Fn(&ArmClients) -> bool,
    line: impl Fn(usize, (&ArmSummary, &ArmClients)) -> Value,
) -> Vec<Value> {
    let seen = tables
        .iter()
        .filter_map(|table| Some((*table, table.clients.as_ref()?)));
    let shown = seen.filter(|(_, clients)| has_points(clients));
    shown
        .map(|(table, clients)| line(place(run, &table.arm), (table, clients)))
        .collect()
}

/// An arm's place in the plan, which gives it its colour.
fn place(run: &Run, arm: &str) -> usize {
    let place = run.plan.arms.iter().position(|one| one.name == arm);
    place.expect("a judgement names arms of its plan")
}

fn axis(points: &[(f64, f64)], of: impl Fn(&(f64, f64)) -> f64) -> Vec<f64> {
    points.iter().map(of).collect()
}

/// Arms differ in shape too, for print and for eyes that tell colours less well.
fn symbol(place: usize) -> &'static str {
    [
        "circle",
        "diamond",
        "square",
        "triangle-up",
        "cross",
        "star",
    ][place % 6]
}

fn dash(place: usize) -> &'static str {
    ["dot", "solid", "dash", "dashdot", "longdash", "longdashdot"][place % 6]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judged;
    use fixtures::web;

    #[test]
    fn the_library_is_plotly_alone() {
        let code = library();
        assert!(code.contains("plotly.js v"), "{}", &code[..200]);
        assert!(!code.contains("</script") && !code.contains("MathJax.Hub.Queue(function"));
        assert!(code.len() < 5_000_000, "{}", code.len());
    }

    #[test]
    fn no_data_can_end_its_script_element() {
        let chart = Chart {
            id: "x".into(),
            label: String::new(),
            data: vec![json!({ "name": "</script><script>alert(1)</script><!--" })],
            layout: json!({}),
        };
        let text = json(&[chart]);
        assert!(!text.contains('<'), "{text}");
        let back: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            back[0]["data"][0]["name"],
            "</script><script>alert(1)</script><!--"
        );
    }

    #[test]
    fn pairs_are_joined_block_by_block() {
        let (run, judgement) = judged(web::two_kernels());
        let comparisons: Vec<_> = judgement.comparisons.iter().collect();
        let chart = blocks(&run, &comparisons, 0).unwrap();
        let pairs = judgement.comparisons[0].pairs.len();
        assert_eq!(chart.data[0]["x"].as_array().unwrap().len(), pairs * 3);
        assert_eq!(chart.data.len(), 3);
    }

    #[test]
    fn a_change_that_dwarfs_all_others_is_drawn_at_the_edge_with_its_number() {
        let (run, mut judgement) = judged(web::two_kernels());
        let wild = &mut judgement.comparisons[1];
        (wild.ratio, wild.low, wild.high) = (Some(45.0), None, None);
        let comparisons: Vec<_> = judgement.comparisons.iter().collect();
        let chart = verdicts(&run, &comparisons, 0).unwrap();
        let [barred, others] = chart.data.as_slice() else {
            panic!("marks with bars, and marks without")
        };
        assert!(barred["error_x"].is_object() && others["error_x"].is_null());
        assert_eq!(others["text"], json!(["+4\u{a0}400 %"]));
        let right = others["x"][0].as_f64().unwrap();
        assert!((7.0..9.0).contains(&right), "{right}");
    }

    #[test]
    fn the_estimate_is_drawn_block_by_block() {
        let (run, judgement) = judged(web::two_kernels());
        let primary = &judgement.comparisons[0];
        let chart = estimate_history(&run, &[primary], 0).unwrap();
        let [band, line, points] = chart.data.as_slice() else {
            panic!("an arm has three traces")
        };
        assert_eq!(
            band["x"].as_array().unwrap().len(),
            2 * primary.estimate_history.len()
        );
        assert_eq!(
            line["x"].as_array().unwrap().len(),
            primary.estimate_history.len()
        );
        assert_eq!(points["x"].as_array().unwrap().len(), primary.pairs.len());
        let low = chart.layout["yaxis"]["range"][0].as_f64().unwrap();
        assert!(-3.0 < low && low < -0.99, "the margin is in sight: {low}");
    }

    #[test]
    fn a_workload_without_figures_has_no_charts() {
        let (run, _) = judged(web::two_kernels());
        assert!(verdicts(&run, &[], 0).is_none() && blocks(&run, &[], 0).is_none());
        assert!(estimate_history(&run, &[], 0).is_none());
        assert!(over_time(&run, &[], 0).is_none() && latency(&run, &[], 0).is_none());
    }
}
