//! Phoronix Test Suite's `composite.xml`: systems are arms, `RawString` holds the runs.
//!
//! The suite repeats a test on one system before it goes to the next, so there are no blocks.

use record::metric::Direction;
use roxmltree::{Document, Node};

use crate::observation::{FileFigures, Observation};

/// Reads all results of all systems.
pub(crate) fn read(text: &str, found: &mut FileFigures) {
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
    for result in document
        .descendants()
        .filter(|node| node.has_tag_name("Result"))
    {
        read_result(&document, result, found);
    }
}

fn read_result(document: &Document<'_>, result: Node<'_, '_>, found: &mut FileFigures) {
    let said = |tag: &str| child(result, tag).unwrap_or_default();
    let (title, description) = (said("Title"), said("Description"));
    let metric = if description.is_empty() {
        title
    } else {
        format!("{title} - {description}")
    };
    let direction = match said("Proportion").as_str() {
        "HIB" => Some(Direction::Higher),
        "LIB" => Some(Direction::Lower),
        _ => None,
    };
    let is_entry = |node: &Node<'_, '_>| node.has_tag_name("Entry");
    for entry in result.descendants().filter(is_entry) {
        let line = document.text_pos_at(entry.range().start).row as usize;
        let system = child(entry, "Identifier").unwrap_or_default();
        let runs = child(entry, "RawString").unwrap_or_default();
        if runs.is_empty() {
            let what = format!("no single runs, only a mean, of {system:?}: {metric}");
            found.wrong(line, what, "leave the result out, or run the test again");
        }
        for run in runs.split(':').filter(|run| !run.is_empty()) {
            let raw = entry.children().find(|node| node.has_tag_name("RawString"));
            let line = raw.map_or(line, |raw| {
                document.text_pos_at(raw.range().start).row as usize
            });
            let Some(value) = found.number(run, line, " in RawString") else {
                continue;
            };
            let observation = found.observation(&metric, &said("Scale"), value, line);
            found.observations.push(Observation {
                arm: system.clone(),
                direction,
                ..observation
            });
        }
    }
}

fn child(node: Node<'_, '_>, tag: &str) -> Option<String> {
    let child = node.children().find(|child| child.has_tag_name(tag))?;
    let text = child.text().unwrap_or_default().trim();
    (!text.is_empty()).then(|| text.to_string())
}
