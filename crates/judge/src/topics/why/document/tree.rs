//! Both arms' call paths in the page: data for a script that draws them, and a table of the largest ones for paper and for
//! browsers without scripts.

use std::collections::HashMap;

use base::input::text::escaped;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, PreEscaped, html};
use record::verdict::call_tree::{CallNode, CallTree, FunctionSum};
use record::verdict::mechanism::Presence;
use record::verdict::why::Why;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::topics::why::tell::paths;

/// The script that draws all trees of a page.
pub(crate) const SCRIPT: &str = include_str!("tree.js");

/// The script's hash for the page's content security policy, which allows no other script.
pub(crate) fn script_hash() -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(SCRIPT)))
}

/// Most rows of the table.
const LARGEST: usize = 20;

/// The search has only functions with at least this many instructions per request in one of the arms.
const LEAST_SEARCHED: f64 = 1.0;

/// The tree of one explanation; empty if there are no paths.
pub(crate) fn tree(why: &Why, id: &str) -> Markup {
    let rows = paths::largest(why, LARGEST);
    html! {
        @if let Some((head, rows)) = rows.split_first() {
            h4 { (paths::TITLE) }
            div.tree id={ "tree-" (id) } {
                p.sub { (paths::reading(why)) }
                p.key aria-hidden="true" {
                    span.swatch.less {} (paths::less(why)) " "
                    span.swatch.more {} (paths::more(why)) " "
                    span.swatch.vanished { "\u{2212}" } (paths::vanished(why)) " "
                    span.swatch.new { "+" } (paths::new(why))
                }
                div.paths {
                    p { (paths::table_title(why)) }
                    div.scroll { table {
                        thead { tr { @for (column, cell) in head.iter().enumerate() { th.n[column > 1] scope="col" { (cell) } } } }
                        tbody { @for row in rows { tr {
                            th.path scope="row" { (row[0]) } td.path { (row[1]) }
                            @for cell in &row[2..] { td.n { (cell) } }
                        } } }
                    } }
                }
                script type="application/json" { (PreEscaped(data(why))) }
            }
        }
    }
}

/// The data as JSON without characters that an HTML parser would take for markup.
fn data(why: &Why) -> String {
    let data = json!({
        "arms": [why.baseline, why.arm],
        "said": paths::labels(why),
        "names": [],
        "mechanisms": [],
    });
    let text = escape_texts(packed(why, data)).to_string();
    text.replace('<', "\\u003c").replace('>', "\\u003e")
}

/// Escapes control characters in all texts, as other parts of the page do.
fn escape_texts(data: Value) -> Value {
    match data {
        Value::String(text) => escaped(&text).into(),
        Value::Array(values) => values.into_iter().map(escape_texts).collect(),
        Value::Object(map) => {
            let entries = map.into_iter();
            entries
                .map(|(key, value)| (key, escape_texts(value)))
                .collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => data,
    }
}

/// Adds nodes and functions to the data; each name is stored once, figures to a tenth of an instruction.
fn packed(why: &Why, mut data: Value) -> Value {
    let CallTree {
        nodes, functions, ..
    } = &why.tree;
    let (mut names, mut mechanisms) = (Names::default(), Names::default());
    let node = |node: &CallNode| {
        let mark = match node.presence {
            Presence::Both | Presence::Renamed { .. } => 0,
            Presence::Vanished => 1,
            Presence::New => 2,
        };
        let mut row = vec![
            json!(node.parent),
            json!(names.index(&node.name)),
            json!(mechanisms.index(node.mechanism.word())),
            json!(mark),
            json!(node.folded),
        ];
        row.extend(node.own.map(|sum| round(sum, 10.0)));
        row.extend(node.calls.map(|calls| round(calls, 1e4)));
        row.extend(paths::notes(why, node).into_iter().map(Value::from));
        Value::Array(row)
    };
    data["nodes"] = nodes.iter().map(node).collect();
    let searched = functions
        .iter()
        .filter(|function| function.own.iter().any(|sum| *sum >= LEAST_SEARCHED));
    let function = |function: &FunctionSum| {
        let [baseline, arm] = function.own.map(|sum| round(sum, 10.0));
        json!([names.index(&function.name), baseline, arm])
    };
    data["functions"] = searched.map(function).collect();
    data["names"] = names.all.into();
    data["mechanisms"] = mechanisms.all.into();
    data
}

/// Rounds to a fraction of `parts`; whole numbers become integers, which are shorter in JSON.
fn round(value: f64, parts: f64) -> Value {
    let rounded = (value * parts).round() / parts;
    if rounded.fract() == 0.0 {
        json!(rounded as i64)
    } else {
        json!(rounded)
    }
}

#[derive(Default)]
struct Names {
    all: Vec<String>,
    indices: HashMap<String, usize>,
}

impl Names {
    fn index(&mut self, name: &str) -> usize {
        let next = self.all.len();
        let index = *self.indices.entry(name.into()).or_insert(next);
        if index == next {
            self.all.push(name.into());
        }
        index
    }
}
