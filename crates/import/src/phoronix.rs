//! Phoronix Test Suite's `composite.xml`: systems are arms, `RawString` holds the runs.
//!
//! The suite repeats a test on one system before it goes to the next, so there are no blocks. Results
//! without figures, such as sensors over time, are left out with their reason.

use std::collections::{BTreeMap, BTreeSet};

use record::metric::Direction;
use roxmltree::{Document, Node};

use crate::json::Lines;
use crate::observation::{FileFigures, Observation};

/// Elements that may distinguish results of the same title and description, in order of preference.
const DISTINGUISHING: [&str; 4] = ["Scale", "Arguments", "Identifier", "AppVersion"];

/// Reads all results of all systems.
pub(crate) fn read(text: &str, file: &mut FileFigures) {
    // An entity expands to its full length at each use.
    if let Some(at) = text.find("<!ENTITY") {
        let line = Lines::new(text).at(at);
        file.wrong(
            line,
            "XML that declares entities",
            "export the result again",
        );
        return;
    }
    if let Some(line) = line_with_many_attributes(text) {
        let what = format!("more than {MAX_ATTRIBUTES} attributes in one place");
        file.wrong(line, what, "export the result again");
        return;
    }
    // Result files of older versions contain a document type.
    let options = roxmltree::ParsingOptions {
        allow_dtd: true,
        ..Default::default()
    };
    let document = match Document::parse_with_options(text, options) {
        Ok(document) => document,
        Err(why) => {
            let line = why.pos().row as usize;
            file.wrong(line, format!("not XML: {why}"), "export the result again");
            return;
        }
    };
    let lines = Lines::new(text);
    let (mut by_name, mut left_out) = (BTreeMap::<String, Vec<Node<'_, '_>>>::new(), Vec::new());
    for result in document
        .descendants()
        .filter(|node| node.has_tag_name("Result"))
    {
        match why_no_figures(result) {
            Some(why) => left_out.push((result, why)),
            None => by_name.entry(name(result)).or_default().push(result),
        }
    }
    for (result, why) in left_out {
        let name = name(result);
        // A sensor may have the same name as the test that it watched.
        let metric = match child(result, "Scale").filter(|_| by_name.contains_key(&name)) {
            Some(scale) => format!("{name} ({scale} over time)"),
            None if by_name.contains_key(&name) => format!("{name} (over time)"),
            None => name,
        };
        let has_failed = |entry: &Node<'_, '_>| {
            child(*entry, "Value").is_some_and(|value| value.split(',').any(|part| part == "FAIL"))
        };
        for entry in entries(result).filter(has_failed) {
            let system = child(entry, "Identifier").unwrap_or_default();
            file.remarks
                .insert(format!("{system} has FAIL in {metric}"));
        }
        file.leave_out(&why, metric, line_of(&lines, result));
    }
    for (name, results) in by_name {
        let distinguishes = |tag: &&&str| {
            let texts: BTreeSet<_> = results.iter().map(|node| child(*node, tag)).collect();
            texts.len() == results.len()
        };
        let tag = DISTINGUISHING.iter().find(distinguishes);
        for result in &results {
            let metric = match tag {
                _ if results.len() == 1 => name.clone(),
                Some(tag) => format!("{name} ({})", child(*result, tag).unwrap_or_default()),
                None => {
                    let what = format!("two results of one name: {name}");
                    file.wrong(line_of(&lines, *result), what, "leave one of them out");
                    continue;
                }
            };
            read_result(&lines, *result, &metric, file);
        }
    }
}

/// The first line with too many attributes. Parsing time grows with the square of the number of
/// attributes, and every element below inspects the namespaces.
fn line_with_many_attributes(text: &str) -> Option<usize> {
    let (mut before, mut namespaces) = (0, 0);
    for tag in text.split('<') {
        // Comments and declarations have no attributes.
        let tag_only = tag
            .split('>')
            .next()
            .filter(|tag| !tag.starts_with(['!', '?']));
        let attributes = tag_only.unwrap_or_default().matches('=').count();
        namespaces += tag_only.unwrap_or_default().matches("xmlns").count();
        if attributes > MAX_ATTRIBUTES || namespaces > MAX_ATTRIBUTES {
            return Some(1 + text[..before].matches('\n').count());
        }
        before += tag.len() + 1;
    }
    None
}

/// Most attributes of an element. In a Phoronix result only the root has any.
const MAX_ATTRIBUTES: usize = 64;

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

/// Why a result has no figure per run; `None` if it has.
fn why_no_figures(result: Node<'_, '_>) -> Option<String> {
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

/// Reason to leave out a comma-separated list of figures.
const OVER_TIME: &str = "it is a line over time, as of a sensor";

fn entries<'a, 'i>(result: Node<'a, 'i>) -> impl Iterator<Item = Node<'a, 'i>> {
    result
        .descendants()
        .filter(|node| node.has_tag_name("Entry"))
}

fn read_result(lines: &Lines<'_>, result: Node<'_, '_>, metric: &str, file: &mut FileFigures) {
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
            file.wrong(line, what, "leave one of them out");
        }
        let Some(runs) = child(entry, "RawString") else {
            if child(entry, "Value").is_some() {
                file.leave_out("it has a mean alone, no single runs", metric, line);
            } else {
                let remark = format!("{system} failed, so it is not judged: {metric}");
                file.remarks.insert(remark);
            }
            continue;
        };
        let raw = entry.children().find(|node| node.has_tag_name("RawString"));
        let line = raw.map_or(line, |raw| line_of(lines, raw));
        for run in runs.split(':').filter(|run| !run.trim().is_empty()) {
            let Some(value) = file.number(run, line, " in RawString") else {
                continue;
            };
            file.add(Observation {
                arm: system.clone(),
                direction,
                ..file.observation(metric, &unit, value, line)
            });
        }
    }
}

fn child(node: Node<'_, '_>, tag: &str) -> Option<String> {
    let child = node.children().find(|child| child.has_tag_name(tag))?;
    let text = child.text().unwrap_or_default().trim();
    (!text.is_empty()).then(|| text.to_string())
}
