//! Reads TOML tables strictly. Every mistake is noted with its line, and reading continues.
//!
//! A reader calls a getter for each key that it knows and then `finish`, which reports all other keys. A getter that finds a mistake notes
//! it and returns `None`. The reader continues with a default, so that the user sees all mistakes at once.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::{Range, RangeInclusive};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use base::input::problem::{Problem, Problems, remedy_among};
use base::input::units::show_share;

/// A file being read, with the mistakes so far.
pub struct Page<'t> {
    file: &'t str,
    text: &'t str,
    problems: RefCell<Vec<Problem>>,
    /// Lines with syntax errors.
    broken: RefCell<BTreeSet<usize>>,
}

impl<'t> Page<'t> {
    /// Begins to read `text`; messages name it `file`.
    pub fn new(file: &'t str, text: &'t str) -> Self {
        Self {
            file,
            text,
            problems: RefCell::default(),
            broken: RefCell::default(),
        }
    }

    /// Parses the text; all syntax errors are noted like other mistakes.
    pub fn parse(&self) -> Spanned<DeTable<'t>> {
        let (table, errors) = DeTable::parse_recoverable(self.text);
        for error in &errors {
            let span = error.span().unwrap_or_default();
            let what = error.message().lines().collect::<Vec<_>>().join(", ");
            self.note(
                &span,
                what,
                "see docs/reference/plan.md for the form".into(),
            );
        }
        let lines = errors
            .iter()
            .map(|error| self.line(&error.span().unwrap_or_default()));
        self.broken.borrow_mut().extend(lines);
        table
    }

    /// Notes a mistake at a place in the text.
    pub fn note(&self, span: &Range<usize>, what: String, remedy: String) {
        let line = self.line(span);
        // Other mistakes in a line with a syntax error follow from that error.
        if !self.broken.borrow().contains(&line) {
            self.problems.borrow_mut().push(Problem {
                file: self.file.into(),
                line,
                what,
                remedy,
            });
        }
    }

    fn line(&self, span: &Range<usize>) -> usize {
        let before = &self.text.as_bytes()[..span.start.min(self.text.len())];
        1 + before.split(|byte| *byte == b'\n').skip(1).count()
    }

    /// Ends reading; returns the value, or all mistakes in the order of their lines.
    pub fn close<T>(self, value: Option<T>) -> Result<T, Problems> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|problem| problem.line);
        match value {
            Some(value) if problems.is_empty() => Ok(value),
            _ => {
                assert!(
                    !problems.is_empty(),
                    "a value is missing only where a mistake was noted"
                );
                Err(Problems(problems))
            }
        }
    }
}

/// A table being read.
pub struct Fields<'t> {
    page: &'t Page<'t>,
    table: &'t DeTable<'t>,
    span: Range<usize>,
    title: String,
    /// Keys that the reader knows.
    known: RefCell<BTreeSet<String>>,
}

impl<'t> Fields<'t> {
    /// The file's top table.
    pub fn top(page: &'t Page<'t>, table: &'t Spanned<DeTable<'t>>) -> Self {
        Self::new(page, table.get_ref(), 0..0, "the file".into())
    }

    fn new(page: &'t Page<'t>, table: &'t DeTable<'t>, span: Range<usize>, title: String) -> Self {
        Self {
            page,
            table,
            span,
            title,
            known: RefCell::default(),
        }
    }

    /// The table's name, for messages: `[machine]`.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Whether the table has the key.
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Whether the table has the key, which is marked as known.
    pub fn takes(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// Notes a mistake about a key's value, or about the table when the key is absent.
    pub fn wrong(&self, key: &str, what: impl Into<String>, remedy: impl Into<String>) {
        let span = self.table.get(key).map_or(self.span.clone(), Spanned::span);
        self.page.note(&span, what.into(), remedy.into());
    }

    /// Notes that a key is not allowed here, and marks it as known, so that `finish` does not report it again.
    pub fn refuse(&self, key: &str, what: impl Into<String>, remedy: impl Into<String>) {
        let _ = self.value(key);
        self.wrong(key, what, remedy);
    }

    /// Line of a key's value, or of the table when the key is absent; counted from 1.
    pub fn line_of(&self, key: &str) -> usize {
        let span = self.table.get(key).map_or(self.span.clone(), Spanned::span);
        self.page.line(&span)
    }

    /// Notes that a key is missing.
    pub fn missing(&self, key: &str, example: &str) {
        let what = format!("missing key in {}: {key}", self.title);
        self.page
            .note(&self.span, what, format!("add {key} = {example}"));
    }

    /// Reads a text.
    pub fn text(&self, key: &str) -> Option<&'t str> {
        match self.value(key)? {
            DeValue::String(text) => Some(text.as_ref()),
            other => self.mistyped(key, other, "a text in quotes"),
        }
    }

    /// Reads a text of a special form. An error of `read` is a mistake, up to the first comma, and its remedy.
    pub fn read<T>(&self, key: &str, read: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        match read(self.text(key)?) {
            Ok(value) => Some(value),
            Err(why) => {
                let (what, remedy) = why.split_once(", ").unwrap_or((&why, ""));
                self.wrong(key, format!("{key}: {what}"), remedy);
                None
            }
        }
    }

    /// Reads one word of several.
    pub fn choice<T: Clone>(&self, key: &str, words: &[(&str, T)]) -> Option<T> {
        let text = self.text(key)?;
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Some(value.clone());
        }
        let known: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        self.wrong(
            key,
            format!("unknown {key}: {text:?}"),
            remedy_among(text, &known),
        );
        None
    }

    /// Reads a variant of an enum by its name.
    pub fn variant<T>(&self, key: &str) -> Option<T>
    where
        T: strum::VariantArray + Into<&'static str> + Copy,
    {
        let variants = T::VARIANTS.iter();
        let words: Vec<_> = variants
            .map(|variant| ((*variant).into(), *variant))
            .collect();
        self.choice(key, &words)
    }

    /// Reads a whole number within limits.
    pub fn count(&self, key: &str, limits: RangeInclusive<u64>) -> Option<u64> {
        let value = match self.value(key)? {
            DeValue::Integer(integer) => i128::from_str_radix(integer.as_str(), integer.radix()),
            other => return self.mistyped(key, other, "a whole number"),
        };
        let value = value.ok().and_then(|value| u64::try_from(value).ok());
        self.within(key, value, &limits)
    }

    fn within<T: PartialOrd + Display>(
        &self,
        key: &str,
        value: Option<T>,
        limits: &RangeInclusive<T>,
    ) -> Option<T> {
        let value = value.filter(|value| limits.contains(value));
        if value.is_none() {
            let what = format!("{key} out of range: {}", self.written(key));
            let remedy = format!("write {} to {}", limits.start(), limits.end());
            self.wrong(key, what, remedy);
        }
        value
    }

    /// Reads a list of whole numbers within limits, at least one.
    pub fn counts(&self, key: &str, limits: RangeInclusive<u64>) -> Option<Vec<u64>> {
        let DeValue::Array(items) = self.value(key)? else {
            return self.mistyped(key, self.table[key].get_ref(), "a list of whole numbers");
        };
        let number = |item: &DeValue<'_>| match item {
            DeValue::Integer(integer) => u64::from_str_radix(integer.as_str(), integer.radix())
                .ok()
                .filter(|number| limits.contains(number)),
            _ => None,
        };
        let numbers: Option<Vec<_>> = items.iter().map(|item| number(item.get_ref())).collect();
        let numbers = numbers.filter(|numbers| !numbers.is_empty());
        if numbers.is_none() {
            let what = format!("{key} out of range: {}", self.written(key));
            let (low, high) = (limits.start(), limits.end());
            let remedy = format!("write whole numbers from {low} to {high} in brackets");
            self.wrong(key, what, remedy);
        }
        numbers
    }

    /// Reads a number within limits.
    pub fn number(&self, key: &str, limits: RangeInclusive<f64>) -> Option<f64> {
        let value: Option<f64> = match self.value(key)? {
            DeValue::Float(float) => float.as_str().parse().ok(),
            DeValue::Integer(integer) => integer.as_str().parse().ok(),
            other => return self.mistyped(key, other, "a number"),
        };
        self.within(key, value, &limits)
    }

    /// Reads a share, `"1%"` or `0.01`, above `low` and up to `high`, which are fractions.
    pub fn share(&self, key: &str, low: f64, high: f64) -> Option<f64> {
        let range = format!("above {} to {}", show_share(low, 3), show_share(high, 3));
        self.share_within(key, |value| low < value && value <= high, &range)
    }

    /// Reads a share from 0 to 1.
    pub fn part(&self, key: &str) -> Option<f64> {
        self.share_within(key, |value| (0.0..=1.0).contains(&value), "0 % to 100 %")
    }

    fn share_within(&self, key: &str, is_in: impl Fn(f64) -> bool, range: &str) -> Option<f64> {
        let value = match self.value(key)? {
            DeValue::String(_) => self.read(key, base::input::units::share)?,
            DeValue::Float(float) => float.as_str().parse().ok()?,
            DeValue::Integer(integer) => integer.as_str().parse().ok()?,
            other => return self.mistyped(key, other, "a share like \"1%\""),
        };
        if is_in(value) {
            return Some(value);
        }
        let what = format!("{key} out of range: {}", self.written(key));
        self.wrong(key, what, format!("write {range}"));
        None
    }

    /// Reads true or false.
    pub fn flag(&self, key: &str) -> Option<bool> {
        match self.value(key)? {
            DeValue::Boolean(value) => Some(*value),
            other => self.mistyped(key, other, "true or false"),
        }
    }

    /// Reads a list of texts.
    pub fn texts(&self, key: &str) -> Option<Vec<&'t str>> {
        let DeValue::Array(items) = self.value(key)? else {
            return self.mistyped(key, self.table[key].get_ref(), "a list of texts");
        };
        let texts: Option<Vec<_>> = items.iter().map(|item| item.get_ref().as_str()).collect();
        if texts.is_none() {
            self.wrong(
                key,
                format!("not a list of texts: {key}"),
                "put each item in quotes",
            );
        }
        texts
    }

    /// Reads lines: one text, or a list of texts.
    pub fn lines(&self, key: &str) -> Option<String> {
        match self.value(key)? {
            DeValue::String(text) => Some(text.to_string()),
            DeValue::Array(_) => Some(self.texts(key)?.join("\n")),
            other => self.mistyped(key, other, "a text, or a list of texts"),
        }
    }

    /// Whether a key's value is a table.
    pub fn is_table(&self, key: &str) -> bool {
        let value = self.table.get(key).map(Spanned::get_ref);
        matches!(value, Some(DeValue::Table(_)))
    }

    /// Whether a key's value is a list.
    pub fn is_list(&self, key: &str) -> bool {
        let value = self.table.get(key).map(Spanned::get_ref);
        matches!(value, Some(DeValue::Array(_)))
    }

    /// All keys, in the file's order.
    pub fn keys(&self) -> Vec<&'t str> {
        let keys = self.table.keys();
        keys.map(|key| key.get_ref().as_ref()).collect()
    }

    /// Reads a sub-table.
    pub fn table(&self, key: &str) -> Option<Fields<'t>> {
        let DeValue::Table(table) = self.value(key)? else {
            return self.mistyped(key, self.table[key].get_ref(), "a table");
        };
        Some(self.sub(key, table))
    }

    /// Reads all sub-tables by name, in the file's order: `[arm.NAME]`.
    pub fn named_tables(&self) -> Vec<(&'t str, Fields<'t>)> {
        let mut named = Vec::new();
        for key in self.table.keys() {
            let name = key.get_ref().as_ref();
            let prefix = self.title.trim_matches(['[', ']']);
            if let Some(mut table) = self.table(name) {
                table.title = format!("[{prefix}.{name:?}]");
                // Mistakes are reported at the table's header, not at the parent's.
                table.span = key.span();
                named.push((name, table));
            }
        }
        named
    }

    /// Reads a list of tables: `[[workload]]`.
    pub fn tables(&self, key: &str) -> Vec<Fields<'t>> {
        let Some(value) = self.value(key) else {
            return Vec::new();
        };
        let DeValue::Array(items) = value else {
            self.mistyped::<()>(key, value, &format!("a list of tables, [[{key}]]"));
            return Vec::new();
        };
        let title = format!("[[{key}]]");
        let mut tables = Vec::new();
        for item in items {
            match item.get_ref() {
                DeValue::Table(table) => {
                    tables.push(Self::new(self.page, table, item.span(), title.clone()));
                }
                other => {
                    self.mistyped::<()>(key, other, &format!("a table, [[{key}]]"));
                }
            }
        }
        tables
    }

    /// Reads all scalar values as text, for tables of arbitrary keys such as sysctls.
    pub fn scalars(&self) -> Vec<(&'t str, String)> {
        let mut scalars = Vec::new();
        for (key, value) in self.table {
            let name = key.get_ref().as_ref();
            self.known.borrow_mut().insert(name.into());
            match value.get_ref() {
                DeValue::String(text) => scalars.push((name, text.to_string())),
                DeValue::Integer(integer) => scalars.push((name, integer.as_str().into())),
                DeValue::Table(table) => {
                    let dotted = dotted(name, table);
                    let what = format!("dotted name without quotes in {}: {dotted}", self.title);
                    let remedy = format!("quote the dotted name: \"{dotted}\" = ...");
                    self.page.note(&key.span(), what, remedy);
                }
                other => {
                    self.mistyped::<()>(name, other, "a number or a text");
                }
            }
        }
        scalars
    }

    /// Reports every key, for tables without keys.
    pub fn finish_without_keys(&self) {
        for key in self.table.keys() {
            let what = format!("unknown key in {}: {}", self.title, key.get_ref());
            self.page.note(
                &key.span(),
                what,
                "remove it: the table takes no keys".into(),
            );
        }
    }

    /// Reports the keys that are not known.
    pub fn finish(&self) {
        let known = self.known.borrow();
        let known: Vec<_> = known.iter().map(String::as_str).collect();
        for key in self.table.keys() {
            let name = key.get_ref().as_ref();
            if !known.contains(&name) {
                let what = format!("unknown key in {}: {name}", self.title);
                self.page
                    .note(&key.span(), what, remedy_among(name, &known));
            }
        }
    }

    fn sub(&self, key: &str, table: &'t DeTable<'t>) -> Fields<'t> {
        let span = self
            .table
            .get_key_value(key)
            .map_or(0..0, |(key, _)| key.span());
        let title = match self.title.strip_suffix(']') {
            Some(parent) => format!("{parent}.{key}]"),
            None => format!("[{key}]"),
        };
        Self::new(self.page, table, span, title)
    }

    /// A key's value; the key is marked as known.
    fn value(&self, key: &str) -> Option<&'t DeValue<'t>> {
        self.known.borrow_mut().insert(key.into());
        self.table.get(key).map(Spanned::get_ref)
    }

    /// A key's value as written in the file.
    pub(crate) fn written(&self, key: &str) -> &'t str {
        self.table
            .get(key)
            .map_or("", |value| &self.page.text[value.span()])
    }

    fn mistyped<T>(&self, key: &str, value: &DeValue<'_>, expected: &str) -> Option<T> {
        let (title, wrong_type) = (&self.title, value.type_str());
        let what = format!("wrong type for {key} in {title}: {wrong_type}");
        self.wrong(key, what, format!("write {expected}"));
        None
    }
}

/// The name that TOML split at its dots: `net.core.somaxconn`.
fn dotted(name: &str, table: &DeTable<'_>) -> String {
    match table.iter().next() {
        Some((key, value)) => {
            let name = format!("{name}.{}", key.get_ref());
            match value.get_ref() {
                DeValue::Table(inner) => dotted(&name, inner),
                _ => name,
            }
        }
        None => name.into(),
    }
}
