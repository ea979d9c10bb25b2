//! Typed reading of a table. It collects every mistake, and finds every unknown key.

use std::cell::RefCell;
use std::ops::RangeInclusive;

use crate::shell_path::{help_of, shell_part};
use crate::{Code, Diagnostic, Node, Place, Table, Value, suggest};

/// Returns the name here for a name of another program, or `None` if it is not known.
pub type Hint = fn(&str) -> Option<String>;

/// Mistakes found so far.
#[derive(Debug, Default)]
pub struct Problems {
    found: RefCell<Vec<Diagnostic>>,
    warnings: RefCell<Vec<Diagnostic>>,
    hint: Option<Hint>,
}

impl Problems {
    /// Starts without mistakes. `hint` is called for unknown keys and values, before the search for similar names.
    pub fn with_hint(hint: Hint) -> Self {
        Self {
            found: RefCell::default(),
            warnings: RefCell::default(),
            hint: Some(hint),
        }
    }

    /// Returns help for a user who wrote `given`: the name that `hint` returns, or the most similar known name.
    fn help(&self, given: &str, known: &[&str]) -> Option<String> {
        if let Some(told) = self.hint.and_then(|hint| hint(given)) {
            return Some(told);
        }
        suggest(given, known.iter().copied()).map(|near| format!("did you mean `{near}`?"))
    }

    /// Adds a mistake.
    pub fn push(&self, problem: Diagnostic) {
        self.found.borrow_mut().push(problem);
    }

    /// Adds a warning, which is no mistake.
    pub fn warn(&self, warning: Diagnostic) {
        self.warnings.borrow_mut().push(warning);
    }

    /// Removes and returns the warnings, in the order in which they were added.
    pub fn take_warnings(&self) -> Vec<Diagnostic> {
        self.warnings.take()
    }

    /// Returns whether there are no mistakes.
    pub fn is_empty(&self) -> bool {
        self.found.borrow().is_empty()
    }

    /// Returns the number of mistakes.
    pub fn len(&self) -> usize {
        self.found.borrow().len()
    }

    /// Returns all mistakes in the order of the file.
    pub fn into_vec(self) -> Vec<Diagnostic> {
        let mut found = self.found.into_inner();
        found.sort_by_key(|problem| match &problem.place {
            Some(Place::Source { line, column, .. }) => (*line, *column),
            _ => (usize::MAX, 0),
        });
        found
    }
}

/// A table that is being read. Keys that were never requested are unknown, and [`Section::finish`] reports them.
#[derive(Debug)]
pub struct Section<'a> {
    title: String,
    table: &'a Table,
    place: Option<Place>,
    problems: &'a Problems,
    asked: RefCell<Vec<&'static str>>,
    elsewhere: RefCell<Vec<OfKind>>,
}

/// A key that a table would have if it were of another kind.
#[derive(Debug, Clone, Copy)]
struct OfKind {
    key: &'static str,
    kind: &'static str,
}

impl<'a> Section<'a> {
    /// Starts to read a table. Messages contain `title`, for example `[input.train]`.
    pub fn new(
        title: impl Into<String>,
        table: &'a Table,
        place: Option<Place>,
        problems: &'a Problems,
    ) -> Self {
        Self {
            title: title.into(),
            table,
            place,
            problems,
            asked: RefCell::default(),
            elsewhere: RefCell::default(),
        }
    }

    /// Returns the mistakes, to which the caller can add its own.
    pub fn problems(&self) -> &'a Problems {
        self.problems
    }

    /// Returns the title.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Returns the node of `key`.
    pub fn node(&self, key: &'static str) -> Option<&'a Node> {
        self.asked.borrow_mut().push(key);
        self.table.get(key)
    }

    /// Returns the place of `key`'s value, or of the section if the key is absent.
    pub fn place(&self, key: &str) -> Option<Place> {
        self.table
            .get(key)
            .map(|node| node.place.clone())
            .or_else(|| self.place.clone())
    }

    /// Makes a diagnostic for a value of `key` that breaks a rule.
    pub fn reject(&self, code: Code, key: &str, message: impl Into<String>) -> Diagnostic {
        let problem = Diagnostic::error(code, message);
        match self.place(key) {
            Some(place) => problem.at(place),
            None => problem,
        }
    }

    /// Adds a mistake in `key`.
    pub fn fail(&self, code: Code, key: &str, message: impl Into<String>) {
        self.problems.push(self.reject(code, key, message));
    }

    fn wrong_type(&self, key: &str, node: &Node, wanted: &str) {
        let given = match &node.value {
            Value::Text(text) => format!("the string \"{text}\""),
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            Value::Flag(flag) => flag.to_string(),
            other => other.type_name().to_owned(),
        };
        let message = format!("{key} must be {wanted}, given {given}");
        self.problems
            .push(Diagnostic::error(Code::E1002, message).at(node.place.clone()));
    }

    /// Returns the text of `key`.
    pub fn text(&self, key: &'static str) -> Option<String> {
        let node = self.node(key)?;
        match &node.value {
            Value::Text(text) => Some(text.clone()),
            _ => {
                self.wrong_type(key, node, "a string");
                None
            }
        }
    }

    /// Reports the first path of `key` with a part that only a shell replaces.
    pub fn refuse_shell_part<'t>(
        &self,
        key: &'static str,
        paths: impl IntoIterator<Item = &'t String>,
    ) {
        let found = paths
            .into_iter()
            .find_map(|path| Some((path, shell_part(path)?)));
        if let Some((path, part)) = found {
            let message =
                format!("{key} has `{part}`, which would be the name of a folder, given {path:?}");
            let problem = self.reject(Code::E1002, key, message);
            self.problems.push(problem.help(help_of(part)));
        }
    }

    /// Returns the text of `key`, which must exist and not be empty.
    pub(crate) fn required_text(&self, key: &'static str, example: &str) -> Option<String> {
        if self.node(key).is_none() {
            self.missing(key, example);
            return None;
        }
        let text = self.text(key)?;
        if text.is_empty() {
            self.fail(Code::E1002, key, format!("{key} must not be empty"));
            return None;
        }
        Some(text)
    }

    /// Reports that `key` is missing.
    pub fn missing(&self, key: &'static str, example: &str) {
        self.asked.borrow_mut().push(key);
        let message = if self.title.is_empty() {
            format!("missing key `{key}`")
        } else {
            format!("missing key `{key}` in {}", self.title)
        };
        self.lack(message, format!("add it, for example {key} = {example}"));
    }

    /// Reports that the table `key` is missing. `heading` is its first line, for example `[cluster]`.
    pub fn missing_section(&self, key: &'static str, heading: &str, example: &str) {
        self.asked.borrow_mut().push(key);
        self.lack(
            format!("missing section {heading}"),
            format!("add it, for example {heading} with {example}"),
        );
    }

    fn lack(&self, message: String, help: String) {
        let problem = Diagnostic::error(Code::E1005, message).help(help);
        self.problems.push(match &self.place {
            Some(place) => problem.at(place.clone()),
            None => problem,
        });
    }

    /// Returns the flag of `key`.
    pub fn flag(&self, key: &'static str) -> Option<bool> {
        let node = self.node(key)?;
        match node.value {
            Value::Flag(flag) => Some(flag),
            _ => {
                self.wrong_type(key, node, "true or false");
                None
            }
        }
    }

    /// Returns the whole number of `key`, within `range`.
    pub fn integer(&self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let node = self.node(key)?;
        self.integer_of(key, node, range)
    }

    fn integer_of(&self, key: &str, node: &Node, range: RangeInclusive<u64>) -> Option<u64> {
        let Value::Integer(number) = node.value else {
            self.wrong_type(key, node, "a whole number");
            return None;
        };
        match u64::try_from(number) {
            Ok(value) if range.contains(&value) => Some(value),
            _ => {
                let rule = match (*range.start(), *range.end()) {
                    (least, u64::MAX) => format!(">= {least}"),
                    (least, most) => format!("{least} to {most}"),
                };
                let message = format!("{key} must be {rule}, given {number}");
                self.problems
                    .push(Diagnostic::error(Code::E1002, message).at(node.place.clone()));
                None
            }
        }
    }

    /// Returns the number of `key`, which must be finite.
    pub fn number(&self, key: &'static str) -> Option<f64> {
        let node = self.node(key)?;
        self.number_of(key, node)
    }

    fn number_of(&self, key: &str, node: &Node) -> Option<f64> {
        match node.value {
            Value::Integer(number) => Some(number as f64),
            Value::Float(number) if number.is_finite() => Some(number),
            _ => {
                self.wrong_type(key, node, "a finite number");
                None
            }
        }
    }

    /// Returns the number of `key` in single precision, the precision of models.
    pub fn single(&self, key: &'static str) -> Option<f32> {
        let number = self.number(key)?;
        let single = number as f32;
        if !single.is_finite() {
            let message = format!("{key} must fit into 32 bits (at most 3.4e38), given {number:?}");
            self.fail(Code::E1002, key, message);
            return None;
        }
        Some(single)
    }

    fn list(&self, key: &'static str, wanted: &str) -> Option<&'a [Node]> {
        let node = self.node(key)?;
        match &node.value {
            Value::List(items) => Some(items),
            _ => {
                self.wrong_type(key, node, wanted);
                None
            }
        }
    }

    /// Returns the texts of `key`. A lone string counts as an array of one.
    pub fn texts(&self, key: &'static str) -> Option<Vec<String>> {
        self.texts_of(key, self.node(key)?)
    }

    /// Returns the texts of each key of the table `key`, whose keys the user chooses, in the order of the file.
    pub fn texts_by_name(&self, key: &'static str) -> Option<Vec<(String, Vec<String>)>> {
        let table = self.section(key)?;
        let entries: Vec<_> = table.entries().collect();
        let read = entries
            .iter()
            .filter_map(|(name, node)| Some(((*name).to_owned(), table.texts_of(name, node)?)));
        let read: Vec<_> = read.collect();
        (read.len() == entries.len()).then_some(read)
    }

    fn texts_of(&self, key: &str, node: &Node) -> Option<Vec<String>> {
        const WANTED: &str = "an array of strings";
        let items = match &node.value {
            Value::Text(text) => return Some(vec![text.clone()]),
            Value::List(items) => items,
            _ => {
                self.wrong_type(key, node, WANTED);
                return None;
            }
        };
        let texts = items.iter().filter_map(|item| match &item.value {
            Value::Text(text) => Some(text.clone()),
            _ => {
                self.wrong_type(key, item, WANTED);
                None
            }
        });
        let texts: Vec<String> = texts.collect();
        (texts.len() == items.len()).then_some(texts)
    }

    /// Returns the numbers of `key`.
    pub fn numbers(&self, key: &'static str) -> Option<Vec<f64>> {
        let items = self.list(key, "an array of numbers")?;
        let numbers: Vec<f64> = items
            .iter()
            .filter_map(|item| self.number_of(key, item))
            .collect();
        (numbers.len() == items.len()).then_some(numbers)
    }

    /// Returns the whole numbers of `key`, each within `range`.
    pub fn integers(&self, key: &'static str, range: RangeInclusive<u64>) -> Option<Vec<u64>> {
        let items = self.list(key, "an array of whole numbers")?;
        let numbers: Vec<u64> = items
            .iter()
            .filter_map(|item| self.integer_of(key, item, range.clone()))
            .collect();
        (numbers.len() == items.len()).then_some(numbers)
    }

    /// Returns the value of the name in `key`.
    pub fn choice<T: Copy>(&self, key: &'static str, what: &str, known: &[(&str, T)]) -> Option<T> {
        let text = self.text(key)?;
        if let Some((_, value)) = known.iter().find(|(name, _)| *name == text) {
            return Some(*value);
        }
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        let problem = self.reject(Code::E1101, key, format!("unknown {what} `{text}`"));
        let problem = problem.note(format!("known: {}", names.join(", ")));
        self.problems.push(match self.problems.help(&text, &names) {
            Some(help) => problem.help(help),
            None => problem,
        });
        None
    }

    /// Returns the table of `key`.
    pub fn section(&self, key: &'static str) -> Option<Section<'a>> {
        let node = self.node(key)?;
        let parent = self.title.trim_matches(['[', ']']);
        let title = if parent.is_empty() {
            format!("[{key}]")
        } else {
            format!("[{parent}.{key}]")
        };
        match &node.value {
            Value::Table(table) => Some(Section::new(
                title,
                table,
                Some(node.place.clone()),
                self.problems,
            )),
            _ => {
                self.wrong_type(key, node, "a table");
                None
            }
        }
    }

    /// Returns the table of `key`, or an empty one, whose keys all have their defaults.
    pub fn section_or_empty(&self, key: &'static str) -> Section<'a> {
        static EMPTY: Table = Table {
            entries: Vec::new(),
        };
        self.section(key)
            .unwrap_or_else(|| Section::new(format!("[{key}]"), &EMPTY, None, self.problems))
    }

    /// Returns the tables of the array of tables `key`.
    pub fn sections(&self, key: &'static str) -> Vec<Section<'a>> {
        let mut out = Vec::new();
        for item in self.list(key, "an array of tables").unwrap_or_default() {
            match &item.value {
                Value::Table(table) => {
                    out.push(Section::new(
                        format!("[[{key}]]"),
                        table,
                        Some(item.place.clone()),
                        self.problems,
                    ));
                }
                _ => self.wrong_type(key, item, "a table"),
            }
        }
        out
    }

    /// Returns the keys of the table.
    pub fn keys(&self) -> impl Iterator<Item = &'a str> {
        self.table.entries.iter().map(|(name, _, _)| name.as_str())
    }

    /// Returns the keys and values of the table, for tables whose keys the user chooses.
    pub fn entries(&self) -> impl Iterator<Item = (&'a str, &'a Node)> {
        self.table
            .entries
            .iter()
            .map(|(name, _, node)| (name.as_str(), node))
    }

    /// Marks keys as known without reading them, for keys that are read elsewhere.
    pub fn know(&self, keys: &[&'static str]) {
        self.asked.borrow_mut().extend(keys);
    }

    /// Marks keys as those of another kind of table. The message about such a key names the kind.
    pub(crate) fn know_elsewhere(&self, kind: &'static str, keys: &[&'static str]) {
        let of_kind = keys.iter().map(|key| OfKind { key, kind });
        self.elsewhere.borrow_mut().extend(of_kind);
    }

    /// Returns the kinds of table that have a key, as the end of a sentence.
    fn kinds_with(&self, key: &str) -> Option<String> {
        let elsewhere = self.elsewhere.borrow();
        let having = elsewhere.iter().filter(|known| known.key == key);
        let kinds: Vec<String> = having.map(|known| format!("\"{}\"", known.kind)).collect();
        match &kinds[..] {
            [] => None,
            [one] => Some(format!("kind = {one}")),
            [before @ .., last] => Some(format!("kind = {} or {last}", before.join(", "))),
        }
    }

    /// Returns help for a user who wrote the unknown key `given`.
    fn help_with_key(&self, given: &str, known: &[&'static str]) -> String {
        if let Some(kinds) = self.kinds_with(given) {
            return format!("`{given}` is a key of {kinds}");
        }
        if let Some(help) = self.problems.help(given, known) {
            return help;
        }
        let elsewhere: Vec<&str> = self.elsewhere.borrow().iter().map(|of| of.key).collect();
        let near = suggest(given, elsewhere);
        match near.and_then(|near| Some((near, self.kinds_with(near)?))) {
            Some((near, kinds)) => format!("did you mean `{near}`, a key of {kinds}?"),
            None => format!("known: {}", known.join(", ")),
        }
    }

    /// Returns the keys that were requested, in order, each once.
    pub fn asked(&self) -> Vec<&'static str> {
        let mut keys = self.asked.borrow().clone();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Reports every key that was never requested.
    pub fn finish(self) {
        let known = self.asked();
        for (name, place, _) in &self.table.entries {
            if known.iter().any(|key| key == name) {
                continue;
            }
            let mut place = place.clone();
            if let Place::Source { label, .. } = &mut place {
                *label = if self.title.is_empty() {
                    "not a section or key of this file".to_owned()
                } else {
                    format!("not a key of {}", self.title)
                };
            }
            let problem = Diagnostic::error(Code::E1001, format!("unknown key `{name}`")).at(place);
            let problem = match self.kinds_with(name) {
                Some(_) => problem.note(format!("known: {}", known.join(", "))),
                None => problem,
            };
            self.problems
                .push(problem.help(self.help_with_key(name, &known)));
        }
    }
}
