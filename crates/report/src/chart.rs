//! The page's charts: data and layout for Plotly, without colours.
//!
//! Colours belong to the page, which has a light and a dark face: a trace says by its arm's place
//! in the plan (`meta.arm`) whose it is, and the page's script paints it. Every chart has its
//! numbers in a table beside it.

use plotly::Plot;
use record::metric::Role;
use record::rundir::Run;
use record::verdict::{ArmTable, Comparison};
use serde_json::{Value, json};

use crate::words;

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

/// All metrics of one workload against the margin; `None` when none has an interval.
pub(crate) fn verdicts(run: &Run, comparisons: &[&Comparison], number: usize) -> Option<Chart> {
    let mut data = Vec::new();
    for (place, arm) in run.plan.arms.iter().enumerate() {
        let its = comparisons.iter().filter(|one| one.arm == arm.name);
        let bars: Vec<Bar> = its
            .filter_map(|one| Bar::of(one, label(run, one)))
            .collect();
        if !bars.is_empty() {
            data.push(intervals(place, &arm.name, &bars));
        }
    }
    // Where several arms meet the baseline, each has a line of its own, metric by metric.
    let mut order: Vec<&Comparison> = comparisons.to_vec();
    order.sort_by_key(|one| comparisons.iter().position(|first| first.spec == one.spec));
    let order: Vec<String> = order.into_iter().map(|one| label(run, one)).collect();
    let margin = run.plan.design.margin;
    let layout = json!({
        "meta": { "band": [(1.0 / (1.0 + margin) - 1.0) * 100.0, margin * 100.0] },
        "xaxis": {
            "title": { "text": "change against the baseline" },
            "ticksuffix": " %", "zeroline": true,
        },
        "yaxis": { "autorange": "reversed", "categoryorder": "array", "categoryarray": order },
        "showlegend": data.len() > 1,
    });
    let label = "Change of each metric with its interval, drawn against the margin; the arrow \
                 points to what is better"
        .into();
    (!data.is_empty()).then(|| Chart {
        id: format!("verdicts-{number}"),
        label,
        data,
        layout,
    })
}

fn label(run: &Run, comparison: &Comparison) -> String {
    match run.plan.arms.len() {
        2 => words::directed(&comparison.spec),
        _ => format!("{} {}", words::directed(&comparison.spec), comparison.arm),
    }
}

fn intervals(place: usize, arm: &str, bars: &[Bar]) -> Value {
    let each = |of: fn(&Bar) -> Value| bars.iter().map(of).collect::<Vec<_>>();
    json!({
        "type": "scatter", "mode": "markers", "name": arm, "meta": { "arm": place },
        "x": each(|bar| json!(bar.change)), "y": each(|bar| json!(bar.label)),
        "text": each(|bar| json!(bar.text)), "hovertemplate": "%{y}<br>%{text}<extra></extra>",
        "error_x": {
            "type": "data", "symmetric": false, "thickness": 2, "width": 6,
            "array": each(|bar| json!(bar.above)), "arrayminus": each(|bar| json!(bar.below)),
        },
        "marker": { "size": 10, "symbol": symbol(place) },
    })
}

/// A comparison with an interval, as changes in percent.
struct Bar {
    label: String,
    text: String,
    change: f64,
    below: f64,
    above: f64,
}

impl Bar {
    fn of(comparison: &Comparison, label: String) -> Option<Self> {
        let (ratio, low, high) = (comparison.ratio?, comparison.low?, comparison.high?);
        let text = format!(
            "{} {} {}",
            comparison.verdict.word(),
            words::change(comparison.ratio),
            words::interval(comparison)
        );
        Some(Self {
            label,
            text,
            change: (ratio - 1.0) * 100.0,
            below: (ratio - low) * 100.0,
            above: (high - ratio) * 100.0,
        })
    }
}

/// Pages served per second over the window.
pub(crate) fn over_time(run: &Run, tables: &[&ArmTable], number: usize) -> Option<Chart> {
    let line = |place: usize, table: &&ArmTable| {
        json!({
            "type": "scatter", "mode": "lines", "name": table.arm, "meta": { "arm": place },
            "x": axis(&table.over_time, |point| point.0),
            "y": axis(&table.over_time, |point| point.1),
            "line": { "width": 2, "dash": dash(place) },
            "hovertemplate": "second %{x}: %{y:.4~g} pages/s",
        })
    };
    let layout = json!({
        "xaxis": { "title": { "text": "seconds since the window opened" } },
        "yaxis": { "title": { "text": "pages per second" }, "rangemode": "tozero" },
        "hovermode": "x unified",
    });
    let data = lines(run, tables, |table| table.over_time.len() > 1, line);
    let label = "Pages served per second over the window, mean over trials".into();
    (!data.is_empty()).then(|| Chart {
        id: format!("time-{number}"),
        label,
        data,
        layout,
    })
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
        "yaxis": { "title": { "text": spec.unit } },
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
pub(crate) fn latency(run: &Run, tables: &[&ArmTable], number: usize) -> Option<Chart> {
    let line = |place: usize, table: &&ArmTable| {
        // The maximum lies at quantile 1, which no logarithmic axis reaches.
        let points: Vec<(f64, f64)> = table
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
    // Plotly would name every second tick by its first digit only.
    let steps: Vec<f64> = [0.01, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5]
        .into_iter()
        .flat_map(|decade| [decade, 2.0 * decade, 5.0 * decade])
        .collect();
    let layout = json!({
        "xaxis": {
            "type": "log", "title": { "text": "share of pages" },
            "tickvals": [1, 2, 10, 100, 1e3, 1e4, 1e5, 1e6],
            "ticktext": ["0", "50 %", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %", "99.9999 %"],
        },
        "yaxis": {
            "type": "log", "title": { "text": "answered within, ms" },
            "tickvals": steps, "ticktext": steps.iter().map(f64::to_string).collect::<Vec<_>>(),
        },
        "hovermode": "closest",
    });
    let data = lines(run, tables, |table| table.latency_curve.len() > 1, line);
    let label = "Latency quantiles of all trials together".into();
    (!data.is_empty()).then(|| Chart {
        id: format!("latency-{number}"),
        label,
        data,
        layout,
    })
}

fn lines(
    run: &Run,
    tables: &[&ArmTable],
    has_points: impl Fn(&ArmTable) -> bool,
    line: impl Fn(usize, &&ArmTable) -> Value,
) -> Vec<Value> {
    let place = |table: &ArmTable| run.plan.arms.iter().position(|arm| arm.name == table.arm);
    let shown = tables.iter().filter(|table| has_points(table));
    shown
        .map(|table| line(place(table).unwrap_or(0), table))
        .collect()
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
    use crate::play;

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
        let (run, judgement) = play::run();
        let comparisons: Vec<_> = judgement.comparisons.iter().collect();
        let chart = blocks(&run, &comparisons, 0).unwrap();
        let pairs = judgement.comparisons[0].pairs.len();
        assert_eq!(chart.data[0]["x"].as_array().unwrap().len(), pairs * 3);
        assert_eq!(chart.data.len(), 3);
    }

    #[test]
    fn a_workload_without_figures_has_no_charts() {
        let (run, _) = play::run();
        assert!(verdicts(&run, &[], 0).is_none() && blocks(&run, &[], 0).is_none());
        assert!(over_time(&run, &[], 0).is_none() && latency(&run, &[], 0).is_none());
    }
}
