//! Forms of values: flags, numbers, texts, names, and values with a reader of their own.

use std::ops::RangeInclusive;

use crate::key::{Bound, Takes};
use crate::rule::Form;
use crate::{Code, Section};

/// `true` or `false`.
#[derive(Debug)]
pub struct Flag;

/// Returns the form of `true` and `false`.
pub fn flag() -> Flag {
    Flag
}

impl Form for Flag {
    type Value = bool;

    fn get(&self, section: &Section<'_>, key: &'static str) -> Option<bool> {
        section.flag(key)
    }

    fn takes(&self) -> Takes {
        Takes::Flag
    }

    fn toml(&self, value: &bool) -> String {
        value.to_string()
    }
}

/// A type of whole numbers.
pub trait Whole: Copy + std::fmt::Debug + std::fmt::Display {
    /// Returns a number that is within the range of its key, and so of the type.
    fn of(number: u64) -> Self;
}

impl Whole for u64 {
    fn of(number: u64) -> Self {
        number
    }
}

impl Whole for u32 {
    fn of(number: u64) -> Self {
        number as Self
    }
}

impl Whole for usize {
    fn of(number: u64) -> Self {
        number as Self
    }
}

/// A whole number.
#[derive(Debug)]
pub struct Integer<T> {
    range: RangeInclusive<u64>,
    of: std::marker::PhantomData<T>,
}

/// Returns the form of whole numbers of a range.
pub fn integer<T: Whole>(range: RangeInclusive<u64>) -> Integer<T> {
    Integer {
        range,
        of: std::marker::PhantomData,
    }
}

impl<T: Whole> Form for Integer<T> {
    type Value = T;

    fn get(&self, section: &Section<'_>, key: &'static str) -> Option<T> {
        section.integer(key, self.range.clone()).map(T::of)
    }

    fn takes(&self) -> Takes {
        Takes::Integer {
            least: *self.range.start(),
            most: *self.range.end(),
        }
    }

    fn toml(&self, value: &T) -> String {
        value.to_string()
    }
}

/// A list of whole numbers.
#[derive(Debug)]
pub struct Integers(RangeInclusive<u64>);

/// Returns the form of lists of whole numbers of a range.
pub fn integers(range: RangeInclusive<u64>) -> Integers {
    Integers(range)
}

impl Form for Integers {
    type Value = Vec<usize>;

    fn get(&self, section: &Section<'_>, key: &'static str) -> Option<Vec<usize>> {
        let numbers = section.integers(key, self.0.clone())?;
        Some(numbers.into_iter().map(usize::of).collect())
    }

    fn takes(&self) -> Takes {
        Takes::Integers {
            least: *self.0.start(),
            most: *self.0.end(),
        }
    }

    fn toml(&self, value: &Vec<usize>) -> String {
        format!("{value:?}")
    }
}

/// A finite number.
#[derive(Debug)]
pub struct Number(Bound);

/// Returns the form of finite numbers within a bound.
pub fn number(bound: Bound) -> Number {
    Number(bound)
}

impl Form for Number {
    type Value = f64;

    fn get(&self, section: &Section<'_>, key: &'static str) -> Option<f64> {
        let number = section.number(key)?;
        is_within(self.0, section, key, number, &number.to_string()).then_some(number)
    }

    fn takes(&self) -> Takes {
        Takes::Number(self.0)
    }

    fn toml(&self, value: &f64) -> String {
        value.to_string()
    }
}

/// A number in single precision, the precision of models.
#[derive(Debug)]
pub struct Single(Bound);

/// Returns the form of numbers in single precision within a bound.
pub fn single(bound: Bound) -> Single {
    Single(bound)
}

impl Form for Single {
    type Value = f32;

    fn get(&self, section: &Section<'_>, key: &'static str) -> Option<f32> {
        let number = section.single(key)?;
        let given = format!("{number:?}");
        is_within(self.0, section, key, f64::from(number), &given).then_some(number)
    }

    fn takes(&self) -> Takes {
        Takes::Number(self.0)
    }

    fn toml(&self, value: &f32) -> String {
        value.to_string()
    }
}

/// A number that is computed with in single precision, and kept in the precision in which it was written.
#[derive(Debug)]
pub struct Written(Bound);

/// Returns the form of numbers that are kept as they were written. Their bound must hold in single precision, in which
/// 1e-50 is 0.
pub fn written(bound: Bound) -> Written {
    Written(bound)
}

impl Form for Written {
    type Value = f64;

    fn get(&self, section: &Section<'_>, key: &'static str) -> Option<f64> {
        let single = section.single(key)?;
        let number = section.number(key)?;
        let given = format!("{number:?}");
        is_within(self.0, section, key, f64::from(single), &given).then_some(number)
    }

    fn takes(&self) -> Takes {
        Takes::Number(self.0)
    }

    fn toml(&self, value: &f64) -> String {
        // As people write it: 1e-8, not 0.00000001.
        if *value != 0.0 && value.abs() < 1e-4 {
            format!("{value:e}")
        } else {
            value.to_string()
        }
    }
}

/// Returns whether a number is within the bound of its key. Reports a number that is not.
fn is_within(
    bound: Bound,
    section: &Section<'_>,
    key: &'static str,
    number: f64,
    given: &str,
) -> bool {
    let holds = bound.holds(number);
    if !holds {
        let message = format!("{key} must be {}, given {given}", bound.rule());
        section.fail(Code::E1002, key, message);
    }
    holds
}

/// A text.
#[derive(Debug)]
pub struct Text {
    may_be_empty: bool,
}

/// Returns the form of texts.
pub fn text() -> Text {
    Text { may_be_empty: true }
}

/// Returns the form of texts that are not empty.
pub fn nonempty_text() -> Text {
    Text {
        may_be_empty: false,
    }
}

impl Form for Text {
    type Value = String;

    fn get(&self, section: &Section<'_>, key: &'static str) -> Option<String> {
        text_of(section, key, self.may_be_empty)
    }

    fn takes(&self) -> Takes {
        Takes::Text
    }

    fn toml(&self, value: &String) -> String {
        format!("\"{value}\"")
    }
}

fn text_of(section: &Section<'_>, key: &'static str, may_be_empty: bool) -> Option<String> {
    if may_be_empty {
        section.text(key)
    } else {
        section.required_text(key, "\"\"")
    }
}

/// A list of texts.
#[derive(Debug)]
pub struct Texts;

/// Returns the form of lists of texts. A lone text is a list of one.
pub fn texts() -> Texts {
    Texts
}

impl Form for Texts {
    type Value = Vec<String>;

    fn get(&self, section: &Section<'_>, key: &'static str) -> Option<Vec<String>> {
        section.texts(key)
    }

    fn takes(&self) -> Takes {
        Takes::Texts
    }

    fn toml(&self, value: &Vec<String>) -> String {
        format!("{value:?}")
    }
}

/// A path or URL.
#[derive(Debug)]
pub struct Path {
    may_be_empty: bool,
}

/// Returns the form of paths and URLs. A part that only a shell replaces, as `~`, is refused.
pub fn path() -> Path {
    Path { may_be_empty: true }
}

/// Returns the form of paths and URLs that are not empty, as [`path`].
pub fn nonempty_path() -> Path {
    Path {
        may_be_empty: false,
    }
}

impl Form for Path {
    type Value = String;

    fn get(&self, section: &Section<'_>, key: &'static str) -> Option<String> {
        let text = text_of(section, key, self.may_be_empty);
        section.refuse_shell_part(key, text.as_ref());
        text
    }

    fn takes(&self) -> Takes {
        Takes::Path
    }

    fn toml(&self, value: &String) -> String {
        format!("\"{value}\"")
    }
}

/// A list of paths, URLs and patterns.
#[derive(Debug)]
pub struct Paths;

/// Returns the form of lists of paths, as [`path`]. A lone path is a list of one.
pub fn paths() -> Paths {
    Paths
}

impl Form for Paths {
    type Value = Vec<String>;

    fn get(&self, section: &Section<'_>, key: &'static str) -> Option<Vec<String>> {
        let texts = section.texts(key);
        section.refuse_shell_part(key, texts.iter().flatten());
        texts
    }

    fn takes(&self) -> Takes {
        Takes::Paths
    }

    fn toml(&self, value: &Vec<String>) -> String {
        format!("{value:?}")
    }
}

/// A name out of several.
#[derive(Debug)]
pub struct Choice<T: 'static> {
    what: &'static str,
    names: &'static [(&'static str, T)],
}

/// Returns the form of names that stand for values. Messages call the value `what`.
pub fn choice<T>(what: &'static str, names: &'static [(&'static str, T)]) -> Choice<T> {
    Choice { what, names }
}

impl<T: Copy + PartialEq + std::fmt::Debug> Form for Choice<T> {
    type Value = T;

    const DECIDES: bool = true;

    fn get(&self, section: &Section<'_>, key: &'static str) -> Option<T> {
        section.choice(key, self.what, self.names)
    }

    fn takes(&self) -> Takes {
        Takes::Choice(self.names.iter().map(|(name, _)| *name).collect())
    }

    fn toml(&self, value: &T) -> String {
        let found = self.names.iter().find(|(_, known)| known == value);
        format!("\"{}\"", found.map_or("", |(name, _)| name))
    }
}

/// A value with a reader of its own, such as a table.
#[derive(Debug)]
pub struct Custom<T> {
    read: fn(&Section<'_>, &'static str) -> Option<T>,
    takes: fn() -> Takes,
    toml: &'static str,
}

/// Returns the form of a value that `read` reads. `toml` is its default in TOML, if it has one.
pub fn custom<T>(
    read: fn(&Section<'_>, &'static str) -> Option<T>,
    takes: fn() -> Takes,
    toml: &'static str,
) -> Custom<T> {
    Custom { read, takes, toml }
}

impl<T: Clone + std::fmt::Debug> Form for Custom<T> {
    type Value = T;

    const DECIDES: bool = true;

    fn get(&self, section: &Section<'_>, key: &'static str) -> Option<T> {
        (self.read)(section, key)
    }

    fn takes(&self) -> Takes {
        (self.takes)()
    }

    fn toml(&self, _value: &T) -> String {
        self.toml.to_owned()
    }
}
