//! A report as blocks, and a renderer for each medium. It knows nothing of runs: whoever tells a topic makes blocks of it once.
//!
//! ```text
//! terminal   plain text of a given width
//! markdown   GitHub's Markdown for a mail or a pull request
//! html       parts of a page, all text escaped
//! ```

use maud::Markup;

pub mod html;
pub mod markdown;
pub mod terminal;

/// A medium that shows blocks; builders of blocks leave out what it does not show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Plain text.
    Terminal,
    /// A mail or a pull request.
    Markdown,
    /// A page.
    Html,
}

/// A part of a report.
pub enum Block {
    /// A paragraph.
    Text(String),
    /// A paragraph of less weight: smaller in a page.
    Sub(String),
    /// A paragraph that says most: bold in Markdown.
    Lead(String),
    /// The title of the whole report.
    Title(String),
    /// The title of a part that a terminal does not name.
    Section(String),
    /// The title of what follows, without a colon.
    Heading(String),
    /// Items, without a full stop.
    List(Vec<String>),
    /// Items that must be seen.
    Notice(Notice),
    /// Rows of cells.
    Table(Table),
    /// A verdict.
    Headline(Headline),
    /// Blocks that a page shows on demand, and that other media leave out.
    Folded(String, Vec<Block>),
    /// A drawing or a table with drawings, for pages alone.
    Drawing(Markup),
    /// Blocks that a terminal indents.
    Indented(Vec<Block>),
    /// An empty line on a terminal; other media have their own distances.
    Gap,
}

/// A box of sentences.
pub struct Notice {
    /// The class of the page's box.
    pub class: &'static str,
    /// As a page writes it.
    pub title: &'static str,
    /// A sentence each.
    pub items: Vec<String>,
}

/// A table.
#[derive(Clone)]
pub struct Table {
    /// The first row is the head.
    pub rows: Vec<Vec<String>>,
    /// How many of the first columns are names; the others are figures.
    pub names: usize,
    /// Classes of the page's table; `cards` makes each row a card on a narrow screen.
    pub class: &'static str,
    /// Whether the page limits its height.
    pub is_long: bool,
}

impl Table {
    /// A table whose first columns are names.
    pub fn new(rows: Vec<Vec<String>>, names: usize) -> Self {
        Self {
            rows,
            names,
            class: "",
            is_long: false,
        }
    }

    /// The same as cards on a narrow screen.
    #[must_use]
    pub fn cards(self, class: &'static str) -> Self {
        Self { class, ..self }
    }

    /// The same with a limited height in a page.
    #[must_use]
    pub fn long(self) -> Self {
        Self {
            is_long: true,
            ..self
        }
    }

    /// Whether it has rows below its head.
    pub fn is_empty(&self) -> bool {
        self.rows.len() < 2
    }
}

/// A verdict, and what stands below it.
pub struct Headline {
    /// What it is about, where a report has several.
    pub scope: Option<String>,
    /// A word: `better`, `failed`.
    pub badge: &'static str,
    /// The sentence.
    pub text: String,
    /// Whether the sentence needs its reason to be understood.
    pub is_open: bool,
    /// A list right below the sentence.
    pub findings: Vec<String>,
    /// Why it is so.
    pub reason: String,
    /// What else belongs to it.
    pub remarks: Vec<Remark>,
}

impl Headline {
    /// Adds sentences below it.
    pub fn remark(&mut self, kind: RemarkKind, texts: impl IntoIterator<Item = String>) {
        let remarks = texts.into_iter().map(|text| Remark { kind, text });
        self.remarks.extend(remarks);
    }
}

/// A sentence below a verdict.
pub struct Remark {
    /// What kind of remark it is.
    pub kind: RemarkKind,
    /// The sentence.
    pub text: String,
}

/// Kinds of remarks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum RemarkKind {
    /// Defects of the kernel or of services.
    Defects,
    /// An accepted violation.
    Accepted,
    /// What limited the figures.
    Limit,
    /// How robust the verdict is; the page and Markdown have a table of it.
    Robustness,
    /// The cause of the difference.
    Cause,
}

impl Block {
    /// A titled table; nothing without rows.
    pub fn titled_table(title: impl Into<String>, table: Table) -> Vec<Self> {
        if table.is_empty() {
            return Vec::new();
        }
        vec![Self::Gap, Self::Heading(title.into()), Self::Table(table)]
    }

    /// A table; nothing without rows.
    pub fn table(table: Table) -> Vec<Self> {
        if table.is_empty() {
            return Vec::new();
        }
        vec![Self::Gap, Self::Table(table)]
    }

    /// A list; nothing without items.
    pub fn list(items: Vec<String>) -> Option<Self> {
        (!items.is_empty()).then_some(Self::List(items))
    }

    /// A box; nothing without sentences.
    pub fn notice(class: &'static str, title: &'static str, items: Vec<String>) -> Option<Self> {
        let notice = Notice {
            class,
            title,
            items,
        };
        (!notice.items.is_empty()).then_some(Self::Notice(notice))
    }
}
