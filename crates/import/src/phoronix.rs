//! Phoronix Test Suite's `composite.xml`: systems are arms, `RawString` holds the runs.
//!
//! The suite repeats a test on one system before it goes to the next, so there are no blocks. Results
//! that are no figures, sensors over time for example, are left out with their reason.

use std::collections::{BTreeMap, BTreeSet};

use record::metric::Direction;
use roxmltree::{Document, Node};

use crate::json::Lines;
use crate::observation::{FileFigures, Observation};

/// What tells results of one title and description apart: the first that does is named.
const APART: [&str; 4] = ["Scale", "Arguments", "Identifier", "AppVersion"];

/// Reads all results of all systems.
pub(crate) fn read(text: &str, found: &mut FileFigures) {
    // An entity of a document is as long as it says each time that it is named.
    if let Some(at) = text.find("<!ENTITY") {
        let line = Lines::new(text).at(at);
        found.wrong(
            line,
            "XML that declares entities",
            "export the result again",
        );
        return;
    }
    if let Some(line) = crowded(text) {
        let what = format!("more than {MOST_ATTRIBUTES} attributes in one place");
        found.wrong(line, what, "export the result again");
        return;
    }
    // Result files of older versions name a style found in a document type.
    let options = roxmltree::ParsingOptions {
        allow_dtd: true,
        ..Default::default()
    };
    let document = match Document::parse_with_options(text, options) {
        Ok(document) => document,
        Err(why) => {
            let line = why.pos().row as usize;
            found.wrong(line, format!("not XML: {why}"), "export the result again");
            return;
        }
    };
    let lines = Lines::new(text);
    let (mut by_name, mut left_out) = (BTreeMap::<String, Vec<Node<'_, '_>>>::new(), Vec::new());
    for result in document
        .descendants()
        .filter(|node| node.has_tag_name("Result"))
    {
        match no_figures(result) {
            Some(why) => left_out.push((result, why)),
            None => by_name.entry(name(result)).or_default().push(result),
        }
    }
    for (result, why) in left_out {
        let name = name(result);
        // A sensor may have the name of the test that it watched.
        let metric = match child(result, "Scale").filter(|_| by_name.contains_key(&name)) {
            Some(scale) => format!("{name} ({scale} over time)"),
            None if by_name.contains_key(&name) => format!("{name} (over time)"),
            None => name,
        };
        let has_failed = |entry: &Node<'_, '_>| {
            child(*entry, "Value").is_some_and(|value| value.split(',').any(|one| one == "FAIL"))
        };
        for entry in entries(result).filter(has_failed) {
            let system = child(entry, "Identifier").unwrap_or_default();
            found
                .remarks
                .insert(format!("{system} has FAIL in {metric}"));
        }
        found.leave_out(&why, metric, line_of(&lines, result));
    }
    for (name, alike) in by_name {
        let is_apart = |tag: &&&str| {
            let texts: BTreeSet<_> = alike.iter().map(|node| child(*node, tag)).collect();
            texts.len() == alike.len()
        };
        let tag = APART.iter().find(is_apart);
        for result in &alike {
            let metric = match tag {
                _ if alike.len() == 1 => name.clone(),
                Some(tag) => format!("{name} ({})", child(*result, tag).unwrap_or_default()),
                None => {
                    let what = format!("two results of one name: {name}");
                    found.wrong(line_of(&lines, *result), what, "leave one of them out");
                    continue;
                }
            };
            read_result(&lines, *result, &metric, found);
        }
    }
}

/// The line of an element that has more attributes than any result: the parser takes the square of their number, and namespaces
/// are looked at for each element below.
fn crowded(text: &str) -> Option<usize> {
    let (mut before, mut namespaces) = (0, 0);
    for tag in text.split('<') {
        // Comments and declarations have no attributes.
        let tag_only = tag
            .split('>')
            .next()
            .filter(|tag| !tag.starts_with(['!', '?']));
        let attributes = tag_only.unwrap_or_default().matches('=').count();
        namespaces += tag_only.unwrap_or_default().matches("xmlns").count();
        if attributes > MOST_ATTRIBUTES || namespaces > MOST_ATTRIBUTES {
            return Some(1 + text[..before].matches('\n').count());
        }
        before += tag.len() + 1;
    }
    None
}

/// Most attributes of an element. A result of Phoronix has none but those of its root.
const MOST_ATTRIBUTES: usize = 64;

fn line_of(lines: &Lines<'_>, node: Node<'_, '_>) -> usize {
    lines.at(node.range().start)
}

fn name(result: Node<'_, '_>) -> String {
    let title = child(result, "Title").unwrap_or_default();
    match child(result, "Description") {
        Some(description) => format!("{title} - {description}"),
        None => title,
    }
}

/// Why a result holds no figure of each run, if it does not.
fn no_figures(result: Node<'_, '_>) -> Option<String> {
    let format = child(result, "DisplayFormat").unwrap_or_default();
    match format.as_str() {
        "PASS_FAIL" | "MULTI_PASS_FAIL" => return Some("it has PASS or FAIL, no figure".into()),
        format if format.ends_with("LINE_GRAPH") => return Some(OVER_TIME.into()),
        "" | "BAR_GRAPH" | "BAR_ANALYZE_GRAPH" | "HORIZONTAL_BAR_GRAPH" | "VERTICAL_BAR_GRAPH" => {}
        _ => return Some(format!("its display format is {format}")),
    }
    let is_list = |entry| {
        let texts = [child(entry, "Value"), child(entry, "RawString")];
        texts
            .iter()
            .flatten()
            .any(|text| text.split(',').count() > 2)
    };
    entries(result).any(is_list).then(|| OVER_TIME.into())
}

/// What a list of figures with commas is.
const OVER_TIME: &str = "it is a line over time, as of a sensor";

fn entries<'a, 'i>(result: Node<'a, 'i>) -> impl Iterator<Item = Node<'a, 'i>> {
    result
        .descendants()
        .filter(|node| node.has_tag_name("Entry"))
}

fn read_result(lines: &Lines<'_>, result: Node<'_, '_>, metric: &str, found: &mut FileFigures) {
    let unit = child(result, "Scale").unwrap_or_default();
    let direction = match child(result, "Proportion").as_deref() {
        Some("HIB") => Some(Direction::Higher),
        Some("LIB") => Some(Direction::Lower),
        _ => None,
    };
    let mut systems = BTreeSet::new();
    for entry in entries(result) {
        let line = line_of(lines, entry);
        let system = child(entry, "Identifier").unwrap_or_default();
        if !systems.insert(system.clone()) {
            let what = format!("two entries of {system:?}: {metric}");
            found.wrong(line, what, "leave one of them out");
        }
        let Some(runs) = child(entry, "RawString") else {
            if child(entry, "Value").is_some() {
                found.leave_out("it has a mean alone, no single runs", metric, line);
            } else {
                let remark = format!("{system} failed, so it is not judged: {metric}");
                found.remarks.insert(remark);
            }
            continue;
        };
        let raw = entry.children().find(|node| node.has_tag_name("RawString"));
        let line = raw.map_or(line, |raw| line_of(lines, raw));
        for run in runs.split(':').filter(|run| !run.trim().is_empty()) {
            let Some(value) = found.number(run, line, " in RawString") else {
                continue;
            };
            found.add(Observation {
                arm: system.clone(),
                direction,
                ..found.observation(metric, &unit, value, line)
            });
        }
    }
}

fn child(node: Node<'_, '_>, tag: &str) -> Option<String> {
    let child = node.children().find(|child| child.has_tag_name(tag))?;
    let text = child.text().unwrap_or_default().trim();
    (!text.is_empty()).then(|| text.to_string())
}
