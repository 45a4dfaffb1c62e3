//! Reading a TOML table strictly: every mistake is noted with its line, none ends the reading.
//!
//! A reader asks a table for each key it knows and then calls `finish`, which reports the keys that
//! nobody asked for. A getter that finds a mistake notes it and returns `None`, so that the caller goes
//! on with a default and the user hears of all mistakes at once.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use base::input::problem::{Problem, Problems, remedy_among};
use base::input::units::show_share;

/// A file under reading and the mistakes found so far.
pub struct Page<'t> {
    file: &'t str,
    text: &'t str,
    problems: RefCell<Vec<Problem>>,
    broken: RefCell<BTreeSet<usize>>,
}

impl<'t> Page<'t> {
    /// Starts on `text`, known to the user as `file`.
    pub fn new(file: &'t str, text: &'t str) -> Self {
        Self {
            file,
            text,
            problems: RefCell::default(),
            broken: RefCell::default(),
        }
    }

    /// Parses the text; syntax errors are noted like any other mistake, as many as there are.
    pub fn parse(&self) -> Spanned<DeTable<'t>> {
        let (table, errors) = DeTable::parse_recoverable(self.text);
        for error in &errors {
            let span = error.span().unwrap_or_default();
            let what = error.message().lines().collect::<Vec<_>>().join(", ");
            self.note(&span, what, "see docs/plan.md for the form".into());
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
        // What a line with broken syntax seems to say is nobody's mistake.
        if !self.broken.borrow().contains(&line) {
            let problem = self.problem(line, what, remedy);
            self.problems.borrow_mut().push(problem);
        }
    }

    fn problem(&self, line: usize, what: String, remedy: String) -> Problem {
        Problem {
            file: self.file.into(),
            line,
            what,
            remedy,
        }
    }

    fn line(&self, span: &Range<usize>) -> usize {
        let before = &self.text.as_bytes()[..span.start.min(self.text.len())];
        1 + before.split(|byte| *byte == b'\n').skip(1).count()
    }

    /// Ends the reading: the value, or all mistakes in the order of their lines.
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

/// A table under reading.
pub struct Fields<'t> {
    page: &'t Page<'t>,
    table: &'t DeTable<'t>,
    span: Range<usize>,
    title: String,
    asked: RefCell<BTreeSet<String>>,
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
            asked: RefCell::default(),
        }
    }

    /// The table's name, for messages: `[machine]`.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Whether the key is written at all.
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Whether a key that may be left out is written. Written or not, it is one of those that are known.
    pub fn takes(&self, key: &str) -> bool {
        self.ask(key).is_some()
    }

    /// Notes a mistake about a key's value, or about the table when the key is absent.
    pub fn wrong(&self, key: &str, what: impl Into<String>, remedy: impl Into<String>) {
        let span = self.table.get(key).map_or(self.span.clone(), Spanned::span);
        self.page.note(&span, what.into(), remedy.into());
    }

    /// Notes that a key has no place here; it is not called unknown as well.
    pub fn refuse(&self, key: &str, what: impl Into<String>, remedy: impl Into<String>) {
        let _ = self.ask(key);
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

    /// A text.
    pub fn text(&self, key: &str) -> Option<&'t str> {
        match self.ask(key)? {
            DeValue::String(text) => Some(text.as_ref()),
            other => self.mistyped(key, other, "a text in quotes"),
        }
    }

    /// A text that has a form of its own; `read` says what is wrong with it.
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

    /// One word of several.
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

    /// One variant of an enum, by its name.
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

    /// A whole number within limits.
    pub fn count(&self, key: &str, limits: RangeInclusive<u64>) -> Option<u64> {
        let value = match self.ask(key)? {
            DeValue::Integer(integer) => i128::from_str_radix(integer.as_str(), integer.radix()),
            other => return self.mistyped(key, other, "a whole number"),
        };
        let fits = value.ok().and_then(|value| u64::try_from(value).ok());
        let value = fits.filter(|value| limits.contains(value));
        if value.is_none() {
            let what = format!("{key} out of range: {}", self.written(key));
            let remedy = format!("write {} to {}", limits.start(), limits.end());
            self.wrong(key, what, remedy);
        }
        value
    }

    /// A list of whole numbers within limits, one at least.
    pub fn counts(&self, key: &str, limits: RangeInclusive<u64>) -> Option<Vec<u64>> {
        let DeValue::Array(items) = self.ask(key)? else {
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

    /// A number within limits.
    pub fn number(&self, key: &str, limits: RangeInclusive<f64>) -> Option<f64> {
        let value: Option<f64> = match self.ask(key)? {
            DeValue::Float(float) => float.as_str().parse().ok(),
            DeValue::Integer(integer) => integer.as_str().parse().ok(),
            other => return self.mistyped(key, other, "a number"),
        };
        let value = value.filter(|value| limits.contains(value));
        if value.is_none() {
            let what = format!("{key} out of range: {}", self.written(key));
            let remedy = format!("write {} to {}", limits.start(), limits.end());
            self.wrong(key, what, remedy);
        }
        value
    }

    /// A share: `"1%"` or `0.01`, above `low` and up to `high` (fractions).
    pub fn share(&self, key: &str, low: f64, high: f64) -> Option<f64> {
        let range = format!("above {} to {}", show_share(low, 3), show_share(high, 3));
        self.share_within(key, |value| low < value && value <= high, &range)
    }

    /// A share of a whole, which may be nothing or all of it.
    pub fn part(&self, key: &str) -> Option<f64> {
        self.share_within(key, |value| (0.0..=1.0).contains(&value), "0 % to 100 %")
    }

    fn share_within(&self, key: &str, is_in: impl Fn(f64) -> bool, range: &str) -> Option<f64> {
        let value = match self.ask(key)? {
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

    /// True or false.
    pub fn flag(&self, key: &str) -> Option<bool> {
        match self.ask(key)? {
            DeValue::Boolean(value) => Some(*value),
            other => self.mistyped(key, other, "true or false"),
        }
    }

    /// A list of texts.
    pub fn texts(&self, key: &str) -> Option<Vec<&'t str>> {
        let DeValue::Array(items) = self.ask(key)? else {
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

    /// Lines: one text, or a list of texts.
    pub fn lines(&self, key: &str) -> Option<String> {
        match self.ask(key)? {
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

    /// A sub-table.
    pub fn table(&self, key: &str) -> Option<Fields<'t>> {
        let DeValue::Table(table) = self.ask(key)? else {
            return self.mistyped(key, self.table[key].get_ref(), "a table");
        };
        Some(self.sub(key, table))
    }

    /// All sub-tables of a table of tables, by name, in the file's order: `[arm.NAME]`.
    pub fn named_tables(&self) -> Vec<(&'t str, Fields<'t>)> {
        let mut named = Vec::new();
        for key in self.table.keys() {
            let name = key.get_ref().as_ref();
            let prefix = self.title.trim_matches(['[', ']']);
            if let Some(mut table) = self.table(name) {
                table.title = format!("[{prefix}.{name:?}]");
                // The header, not the parent's first line, is where the user looks.
                table.span = key.span();
                named.push((name, table));
            }
        }
        named
    }

    /// The tables of a list of tables: `[[workload]]`.
    pub fn tables(&self, key: &str) -> Vec<Fields<'t>> {
        let Some(value) = self.ask(key) else {
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

    /// All keys with scalar values, as text: a table of free names such as sysctls.
    pub fn scalars(&self) -> Vec<(&'t str, String)> {
        let mut scalars = Vec::new();
        for (key, value) in self.table {
            let name = key.get_ref().as_ref();
            self.asked.borrow_mut().insert(name.into());
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

    /// Reports every key of a table that says all by being there.
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

    /// Reports the keys that nobody asked for.
    pub fn finish(&self) {
        let asked = self.asked.borrow();
        let known: Vec<_> = asked.iter().map(String::as_str).collect();
        for key in self.table.keys() {
            let name = key.get_ref().as_ref();
            if !asked.contains(name) {
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

    fn ask(&self, key: &str) -> Option<&'t DeValue<'t>> {
        self.asked.borrow_mut().insert(key.into());
        self.table.get(key).map(Spanned::get_ref)
    }

    /// A key's value as it is written.
    pub(crate) fn written(&self, key: &str) -> &'t str {
        self.table
            .get(key)
            .map_or("", |value| &self.page.text[value.span()])
    }

    fn mistyped<T>(&self, key: &str, found: &DeValue<'_>, wanted: &str) -> Option<T> {
        let what = format!(
            "wrong type for {key} in {}: {}",
            self.title,
            found.type_str()
        );
        self.wrong(key, what, format!("write {wanted}"));
        None
    }
}

/// The name that TOML took apart at its dots: `net.core.somaxconn`.
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
