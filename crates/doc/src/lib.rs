//! A report as blocks, with a renderer for each medium. It knows nothing of runs: a topic is turned into blocks once, for all media.
//!
//! ```text
//! terminal   plain text of a given width
//! markdown   GitHub's Markdown for a pull request
//! html       parts of a page, all text escaped
//! ```

use maud::Markup;

pub mod html;
pub mod markdown;
pub mod terminal;

/// A medium that renders blocks; code that builds blocks may leave out what a medium does not show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Plain text.
    Terminal,
    /// A pull request.
    Markdown,
    /// A page.
    Html,
}

/// A part of a report.
pub enum Block {
    /// A paragraph.
    Text(String),
    /// A less important paragraph, in small print on a page.
    Sub(String),
    /// The most important paragraph, bold in Markdown.
    Lead(String),
    /// The title of the whole report.
    Title(String),
    /// The title of a section; terminals do not show it.
    Section(String),
    /// The title of the following block, without a colon.
    Heading(String),
    /// Items, without a full stop.
    List(Vec<String>),
    /// Important items, in a box on a page.
    Notice(Notice),
    /// Rows of cells.
    Table(Table),
    /// A verdict.
    Headline(Headline),
    /// Blocks that a page shows on demand; other media leave them out.
    Folded(String, Vec<Block>),
    /// A drawing, or a table with drawings; only on a page.
    Drawing(Markup),
    /// Blocks that a terminal indents.
    Indented(Vec<Block>),
    /// An empty line on a terminal; other media have their own spacing.
    Gap,
}

/// A box with a title and a list.
pub struct Notice {
    /// Class of the page's box.
    pub class: &'static str,
    /// Title, capitalized as on a page.
    pub title: &'static str,
    /// Items, a sentence each.
    pub items: Vec<String>,
}

/// A table.
#[derive(Clone)]
pub struct Table {
    /// Rows of cells; the first row is the header.
    pub rows: Vec<Vec<String>>,
    /// Number of leading columns that are names; the others are figures.
    pub names: usize,
    /// Classes of the page's table; `cards` turns each row into a card on a narrow screen.
    pub class: &'static str,
    /// Whether the page limits the table's height.
    pub is_long: bool,
}

impl Table {
    /// A table with `names` leading columns of names.
    pub fn new(rows: Vec<Vec<String>>, names: usize) -> Self {
        Self {
            rows,
            names,
            class: "",
            is_long: false,
        }
    }

    /// Sets the classes of the page's table.
    #[must_use]
    pub fn cards(self, class: &'static str) -> Self {
        Self { class, ..self }
    }

    /// Limits the table's height on a page.
    #[must_use]
    pub fn long(self) -> Self {
        Self {
            is_long: true,
            ..self
        }
    }

    /// Whether it has no rows below its header.
    pub fn is_empty(&self) -> bool {
        self.rows.len() < 2
    }
}

/// A verdict with its reason and remarks.
pub struct Headline {
    /// What the verdict is about, if a report has several.
    pub scope: Option<String>,
    /// One word: `better`, `failed`.
    pub badge: &'static str,
    /// The sentence.
    pub text: String,
    /// Whether the question is open, so that the sentence needs its reason.
    pub is_open: bool,
    /// A list below the sentence.
    pub findings: Vec<String>,
    /// Reason of the verdict.
    pub reason: String,
    /// Further sentences.
    pub remarks: Vec<Remark>,
}

impl Headline {
    /// Adds remarks of one kind.
    pub fn remark(&mut self, kind: RemarkKind, texts: impl IntoIterator<Item = String>) {
        let remarks = texts.into_iter().map(|text| Remark { kind, text });
        self.remarks.extend(remarks);
    }
}

/// A sentence below a verdict.
pub struct Remark {
    /// Kind of the remark.
    pub kind: RemarkKind,
    /// The sentence.
    pub text: String,
}

/// Kinds of remarks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum RemarkKind {
    /// Defects of the kernel or of services.
    Defects,
    /// An accepted difference.
    Accepted,
    /// What limited the figures.
    Limit,
    /// Robustness of the verdict; the page and Markdown show it in a table.
    Robustness,
    /// The cause of the difference.
    Cause,
}

impl Block {
    /// A table with a title; empty without rows.
    pub fn titled_table(title: impl Into<String>, table: Table) -> Vec<Self> {
        if table.is_empty() {
            return Vec::new();
        }
        vec![Self::Gap, Self::Heading(title.into()), Self::Table(table)]
    }

    /// A table; empty without rows.
    pub fn table(table: Table) -> Vec<Self> {
        if table.is_empty() {
            return Vec::new();
        }
        vec![Self::Gap, Self::Table(table)]
    }

    /// A list; `None` without items.
    pub fn list(items: Vec<String>) -> Option<Self> {
        (!items.is_empty()).then_some(Self::List(items))
    }

    /// A box; `None` without items.
    pub fn notice(class: &'static str, title: &'static str, items: Vec<String>) -> Option<Self> {
        let notice = Notice {
            class,
            title,
            items,
        };
        (!notice.items.is_empty()).then_some(Self::Notice(notice))
    }
}
