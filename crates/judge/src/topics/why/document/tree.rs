//! Both arms' call paths in the page: as data for a script that draws them, and as a table of the largest ones where no script runs, and
//! on paper.

use std::collections::HashMap;

use base::input::text::escaped;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, PreEscaped, html};
use record::verdict::call_tree::{CallNode, CallTree};
use record::verdict::mechanism::Presence;
use record::verdict::why::Why;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::topics::why::tell::paths;

/// The script that draws all trees of a page.
pub(crate) const SCRIPT: &str = include_str!("tree.js");

/// By this the page's policy knows the script, and lets no other one run.
pub(crate) fn script_hash() -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(SCRIPT)))
}

/// Rows of the table.
const LARGEST: usize = 20;

/// Functions below this many instructions a request in both arms are not searched.
const LEAST_SEARCHED: f64 = 1.0;

/// The tree of one explanation; nothing where it is empty.
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
                        thead { tr { @for (place, cell) in head.iter().enumerate() { th.n[place > 1] scope="col" { (cell) } } } }
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

/// The data as JSON that no HTML parser takes for markup.
fn data(why: &Why) -> String {
    let data = json!({
        "arms": [why.baseline, why.arm],
        "said": paths::labels(why),
        "names": [],
        "mechanisms": [],
    });
    let text = written_out(packed(why, data)).to_string();
    text.replace('<', "\\u003c").replace('>', "\\u003e")
}

/// The data with its texts as they are shown elsewhere.
fn written_out(data: Value) -> Value {
    match data {
        Value::String(text) => escaped(&text).into(),
        Value::Array(all) => all.into_iter().map(written_out).collect(),
        Value::Object(all) => {
            let all = all.into_iter();
            all.map(|(key, value)| (key, written_out(value))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => data,
    }
}

/// Names are told once, figures to a tenth of an instruction.
fn packed(why: &Why, mut data: Value) -> Value {
    let CallTree {
        nodes, functions, ..
    } = &why.tree;
    let (mut names, mut mechanisms) = (Places::default(), Places::default());
    let node = |node: &CallNode| {
        let mark = match node.presence {
            Presence::Both | Presence::Renamed { .. } => 0,
            Presence::Vanished => 1,
            Presence::New => 2,
        };
        let mut row = vec![
            json!(node.parent),
            json!(names.place(&node.name)),
            json!(mechanisms.place(node.mechanism.word())),
            json!(mark),
            json!(node.folded),
        ];
        row.extend(node.own.map(|own| round(own, 10.0)));
        row.extend(node.calls.map(|calls| round(calls, 1e4)));
        row.extend(paths::notes(why, node).into_iter().map(Value::from));
        Value::Array(row)
    };
    data["nodes"] = nodes.iter().map(node).collect();
    let searched = functions
        .iter()
        .filter(|one| one.own.iter().any(|own| *own >= LEAST_SEARCHED));
    let function = |name: &str, own: [f64; 2]| {
        let [baseline, arm] = own.map(|own| round(own, 10.0));
        json!([names.place(name), baseline, arm])
    };
    let mut function = function;
    data["functions"] = searched.map(|one| function(&one.name, one.own)).collect();
    data["names"] = names.all.into();
    data["mechanisms"] = mechanisms.all.into();
    data
}

/// Whole numbers without a fraction: the page is shorter.
fn round(value: f64, parts: f64) -> Value {
    let rounded = (value * parts).round() / parts;
    if rounded.fract() == 0.0 {
        json!(rounded as i64)
    } else {
        json!(rounded)
    }
}

#[derive(Default)]
struct Places {
    all: Vec<String>,
    known: HashMap<String, usize>,
}

impl Places {
    fn place(&mut self, name: &str) -> usize {
        let next = self.all.len();
        let place = *self.known.entry(name.into()).or_insert(next);
        if place == next {
            self.all.push(name.into());
        }
        place
    }
}
