//! The section on long trials.

use doc::{Block, Medium, Table};
use record::verdict::Judgement;
use record::verdict::soak::Soak;

use crate::topics::soak::tell;

/// Most parts of a window that Markdown shows.
const MOST_ROWS: usize = 31;

/// Sentences and tables of a workload. The page shows the window by days and by hours; Markdown shows the shorter table.
pub(crate) fn blocks(
    judgement: &Judgement,
    workload: &str,
    baseline: &str,
    medium: Medium,
) -> Vec<Block> {
    let mut soaks = judgement.soaks.iter();
    let Some(soak) = soaks.find(|soak| soak.workload == workload) else {
        return Vec::new();
    };
    let mut blocks = vec![Block::Gap, Block::Heading("Over time".into())];
    blocks.extend(Block::list(tell::sentences(soak, baseline)));
    blocks.extend(Block::table(Table::new(tell::rows(soak), 1)));
    let parts = parts(soak);
    if let (Medium::Markdown, Some((title, rows))) = (medium, parts.first()) {
        let rows = rows.iter().take(MOST_ROWS + 1).cloned().collect();
        blocks.extend(Block::titled_table(*title, Table::new(rows, 1)));
    }
    blocks.extend(parts.into_iter().map(|(title, rows)| {
        let table = Table::new(rows, 1).long();
        Block::Folded(title.into(), vec![Block::Table(table)])
    }));
    blocks
}

/// The window by days and by hours: titles and rows of the tables that are not empty.
fn parts(soak: &Soak) -> Vec<(&'static str, Vec<Vec<String>>)> {
    let days = tell::part_rows(soak, |arm| &arm.by_day, "day");
    let hours = tell::part_rows(soak, |arm| &arm.by_hour, "hour");
    let all = [("Day by day", days), ("Hour by hour", hours)];
    all.into_iter().filter(|(_, rows)| rows.len() > 1).collect()
}
