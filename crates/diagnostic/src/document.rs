//! A TOML file as a tree in which every key and value has its place in the file.

use std::path::Path;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::{Code, Diagnostic, Place};

/// Most syntax errors of a file that are shown. Later errors are rarely mistakes of their own.
const SYNTAX_ERRORS_MAX: usize = 10;

/// A value and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Place of the value.
    pub place: Place,
}

/// A TOML value. Dates are read as text.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A string.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A number.
    Float(f64),
    /// `true` or `false`.
    Flag(bool),
    /// An array.
    List(Vec<Node>),
    /// A table.
    Table(Table),
}

impl Value {
    /// Returns the name of the type, for messages.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Text(_) => "a string",
            Self::Integer(_) => "a whole number",
            Self::Float(_) => "a number",
            Self::Flag(_) => "true or false",
            Self::List(_) => "an array",
            Self::Table(_) => "a table",
        }
    }
}

/// A table: keys in file order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// Key, its place, its value.
    pub entries: Vec<(String, Place, Node)>,
}

impl Table {
    /// Returns the value of `key`.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries
            .iter()
            .find(|(name, _, _)| name == key)
            .map(|(_, _, node)| node)
    }
}

/// A parsed file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    /// Top level.
    pub root: Table,
}

impl Document {
    /// Parses the text of `file`.
    ///
    /// # Errors
    /// Every syntax error, with its line.
    pub fn parse(file: &Path, text: &str) -> Result<Self, Vec<Diagnostic>> {
        let (table, errors) = DeTable::parse_recoverable(text);
        let source = Source::new(file, text);
        if errors.is_empty() {
            return Ok(Self {
                root: source.table(table.get_ref()),
            });
        }
        // After an unclosed bracket, the rest is parsed as its contents, so only the first error is about the mistake.
        let echoes = errors
            .iter()
            .any(|error| error.message().contains("unclosed"));
        let shown = if echoes { 1 } else { SYNTAX_ERRORS_MAX };
        let problems = errors.iter().take(shown).map(|error| {
            let place = source.place(error.span().unwrap_or(0..0), "");
            let message = format!("not valid TOML: {}", error.message().replace('\n', ", "));
            let problem = Diagnostic::error(Code::E1003, message).at(place);
            match error.message() {
                _ if echoes => problem
                    .help("close the bracket, brace or quote that was opened before this place"),
                message if message.contains("duplicate") => problem.help("keep one of the two"),
                message if message.contains("quoted") => {
                    problem.help("put the text in double quotes")
                }
                _ => problem,
            }
        });
        Err(problems.collect())
    }

    /// Returns the values as TOML, without comments.
    ///
    /// # Errors
    /// TOML cannot express a value.
    pub fn to_toml(&self) -> Result<String, String> {
        toml::to_string(&self.root).map_err(|error| error.to_string())
    }

    /// Sets one value from `key.path=value`, the form of `--set`. The value is parsed as TOML, or taken as plain text
    /// if it is not TOML. Elements of arrays are named by index: `feature.0.buckets=10`.
    ///
    /// # Errors
    /// There is no `=`, a part of the path is not a table, or an index lies outside the array.
    pub fn set(&mut self, assignment: &str) -> Result<(), Diagnostic> {
        let place = Place::Named(format!("flag --set {assignment}"));
        let Some((path, given)) = assignment.split_once('=') else {
            let message = format!("--set must be section.key=value, given `{assignment}`");
            return Err(Diagnostic::error(Code::E1000, message)
                .help("for example --set train.max_steps=1000"));
        };
        let value = read_value(given.trim(), &place);
        let keys: Vec<&str> = path.trim().split('.').collect();
        place_value(&mut self.root, &keys, value, &place).map_err(|message| {
            let help = "a path is section.key, or section.index.key in an array: feature.0.buckets";
            Diagnostic::error(Code::E1000, message).at(place).help(help)
        })
    }
}

impl Serialize for Table {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(
            self.entries
                .iter()
                .map(|(name, _, node)| (name, &node.value)),
        )
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Integer(number) => serializer.serialize_i64(*number),
            Self::Float(number) => serializer.serialize_f64(*number),
            Self::Flag(flag) => serializer.serialize_bool(*flag),
            Self::List(items) => serializer.collect_seq(items.iter().map(|item| &item.value)),
            Self::Table(table) => table.serialize(serializer),
        }
    }
}

fn place_value(
    table: &mut Table,
    keys: &[&str],
    value: Value,
    place: &Place,
) -> Result<(), String> {
    let (first, rest) = keys.split_first().ok_or("--set names no key")?;
    let position = table
        .entries
        .iter()
        .position(|(name, _, _)| name == first)
        .unwrap_or_else(|| {
            let node = Node {
                value: Value::Table(Table::default()),
                place: place.clone(),
            };
            table
                .entries
                .push(((*first).to_owned(), place.clone(), node));
            table.entries.len() - 1
        });
    let mut node = &mut table.entries[position].2;
    let mut rest = rest;
    loop {
        let Some((key, more)) = rest.split_first() else {
            *node = Node {
                value,
                place: place.clone(),
            };
            return Ok(());
        };
        match &mut node.value {
            Value::Table(inner) => return place_value(inner, rest, value, place),
            Value::List(items) => {
                let count = items.len();
                let item = key
                    .parse::<usize>()
                    .ok()
                    .and_then(|index| items.get_mut(index));
                node = item.ok_or(format!(
                    "`{first}` has elements 0 to {}, given `{key}`",
                    count.saturating_sub(1)
                ))?;
                rest = more;
            }
            other => {
                return Err(format!(
                    "`{first}` is {}, it has no key `{key}`",
                    other.type_name()
                ));
            }
        }
    }
}

fn read_value(text: &str, place: &Place) -> Value {
    let line = format!("value = {text}");
    let parsed = DeTable::parse(&line).ok().and_then(|table| {
        let source = Source::new(Path::new(""), &line);
        source
            .table(table.get_ref())
            .get("value")
            .map(|node| node.value.clone())
    });
    let mut value = parsed.unwrap_or_else(|| Value::Text(text.to_owned()));
    relocate(&mut value, place);
    value
}

fn relocate(value: &mut Value, place: &Place) {
    let nodes: Vec<&mut Node> = match value {
        Value::List(items) => items.iter_mut().collect(),
        Value::Table(table) => table
            .entries
            .iter_mut()
            .map(|(_, key_place, node)| {
                *key_place = place.clone();
                node
            })
            .collect(),
        _ => Vec::new(),
    };
    for node in nodes {
        node.place = place.clone();
        relocate(&mut node.value, place);
    }
}

/// A line of a file.
struct Line {
    /// Offset of its first byte in the file.
    start: usize,
    text: Arc<str>,
    /// Whether each of its characters is one byte.
    is_ascii: bool,
}

impl Line {
    /// Returns the number of characters in a part of the line, given its bytes from the start of the line.
    fn characters(&self, part: std::ops::Range<usize>) -> usize {
        let end = part.end.min(self.text.len());
        let start = part.start.min(end);
        if self.is_ascii {
            end - start
        } else {
            self.text[start..end].chars().count()
        }
    }
}

struct Source<'a> {
    file: Arc<Path>,
    text: &'a str,
    lines: Vec<Line>,
}

impl<'a> Source<'a> {
    fn new(file: &Path, text: &'a str) -> Self {
        let mut start = 0;
        let lines = text.split('\n').map(|line| {
            let text = line.trim_end_matches('\r');
            let next = Line {
                start,
                text: text.into(),
                is_ascii: text.is_ascii(),
            };
            start += line.len() + 1;
            next
        });
        Self {
            lines: lines.collect(),
            file: file.into(),
            text,
        }
    }

    fn table(&self, table: &DeTable<'_>) -> Table {
        let entry = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
            let name: &std::borrow::Cow<'_, str> = key.get_ref();
            (
                key.span().start,
                name.to_string(),
                self.place(key.span(), ""),
                self.node(value),
            )
        };
        let mut entries: Vec<_> = table.iter().map(entry).collect();
        entries.sort_by_key(|(start, ..)| *start);
        Table {
            entries: entries
                .into_iter()
                .map(|(_, name, place, node)| (name, place, node))
                .collect(),
        }
    }

    fn node(&self, value: &Spanned<DeValue<'_>>) -> Node {
        let read = match value.get_ref() {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Integer(number) => {
                match i64::from_str_radix(&number.as_str().replace('_', ""), number.radix()) {
                    Ok(number) => Value::Integer(number),
                    Err(_) => Value::Text(number.as_str().to_owned()),
                }
            }
            DeValue::Float(number) => match number.as_str().replace('_', "").parse() {
                Ok(number) => Value::Float(number),
                Err(_) => Value::Text(number.as_str().to_owned()),
            },
            DeValue::Boolean(flag) => Value::Flag(*flag),
            DeValue::Datetime(date) => Value::Text(date.to_string()),
            DeValue::Array(items) => {
                Value::List(items.iter().map(|item| self.node(item)).collect())
            }
            DeValue::Table(table) => Value::Table(self.table(table)),
        };
        Node {
            value: read,
            place: self.place(value.span(), ""),
        }
    }

    fn place(&self, span: std::ops::Range<usize>, label: &str) -> Place {
        let start = floor(self.text, span.start);
        let end = floor(self.text, span.end.max(start));
        let number = self.lines.partition_point(|line| line.start <= start);
        let line = &self.lines[number - 1];
        Place::Source {
            file: Arc::clone(&self.file),
            line: number,
            column: line.characters(0..start - line.start) + 1,
            text: Arc::clone(&line.text),
            length: line.characters(start - line.start..end - line.start).max(1),
            label: label.to_owned(),
        }
    }
}

fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len()))
        .rev()
        .find(|&at| text.is_char_boundary(at))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_places_of_a_line_are_counted_in_characters_and_share_its_text() {
        let text = "one = 1\r\n\"nämen\" = [\"ä\", \"b\"]\n";
        let document = Document::parse(Path::new("a.toml"), text).expect("TOML");
        let Some(Value::List(items)) = document.root.get("nämen").map(|node| &node.value) else {
            panic!("{document:?}");
        };
        let places = items.iter().map(|item| match &item.place {
            Place::Source {
                line,
                column,
                text,
                length,
                ..
            } => (*line, *column, Arc::clone(text), *length),
            other => panic!("{other:?}"),
        });
        let places: Vec<_> = places.collect();
        let line = "\"nämen\" = [\"ä\", \"b\"]";
        assert_eq!(places, [(2, 12, line.into(), 3), (2, 17, line.into(), 3)]);
        assert!(Arc::ptr_eq(&places[0].2, &places[1].2));
        let first = document.root.get("one").map(|node| &node.place);
        assert!(
            matches!(first, Some(Place::Source { line: 1, column: 7, text, .. }) if &**text == "one = 1"),
            "{first:?}"
        );
    }
}
