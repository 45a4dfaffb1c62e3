//! A loaded run in, HTML, Markdown or terminal text out. Computes no statistics.

use record::rundir::Run;
use record::verdict::Judgement;

/// A self-contained page.
pub fn html(run: &Run, judgement: &Judgement) -> String {
    let _ = (run, judgement);
    String::new()
}

/// For a mail or a pull request.
pub fn markdown(run: &Run, judgement: &Judgement) -> String {
    let _ = (run, judgement);
    String::new()
}

/// For a terminal of `width` columns.
pub fn terminal(run: &Run, judgement: &Judgement, width: usize) -> String {
    let _ = (run, judgement, width);
    String::new()
}
