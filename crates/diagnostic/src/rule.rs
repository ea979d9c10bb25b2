//! Rules of keys: the form of a value, and its default. A rule reads its key, and describes itself.

use std::ops::RangeInclusive;

use crate::key::{Bound, Key, Preset, Takes};
use crate::{Code, Section};

/// A rule of a key.
pub trait Rule {
    /// The value that it reads.
    type Value;

    /// Reads `key`. Every mistake is reported. Returns `None` if nothing can stand for the value, so that checks which
    /// need the section make no sense.
    fn read(&self, section: &Section<'_>, key: &'static str) -> Option<Self::Value>;

    /// Returns the declaration of a key with this rule.
    fn declare(&self, name: &'static str, meaning: &'static str) -> Key;
}

/// Returns a rule as it is. The type of its value follows from that of its key.
pub fn of<T, R: Rule<Value = T>>(rule: R) -> R {
    rule
}

/// The form of a value.
pub trait Form: Sized {
    /// The value.
    type Value: Clone + std::fmt::Debug;

    /// Whether checks of other keys depend on the value. Otherwise the default stands for an invalid value.
    const DECIDES: bool = false;

    /// Reads `key`, which the section has. Reports mistakes.
    fn get(&self, section: &Section<'_>, key: &'static str) -> Option<Self::Value>;

    /// Returns the values that the form takes.
    fn takes(&self) -> Takes;

    /// Returns a value in TOML.
    fn toml(&self, value: &Self::Value) -> String;

    /// The rule of a key with a default.
    fn or(self, default: Self::Value) -> Or<Self> {
        Or {
            form: self,
            default,
            words: None,
        }
    }

    /// The rule of a key with a default, whose section is checked even if the value is invalid; it is `None` then.
    fn or_invalid(self, default: Self::Value) -> OrInvalid<Self> {
        OrInvalid(self.or(default))
    }

    /// The rule of a key that may be absent. `words` say what holds then.
    fn optional(self, words: &'static str) -> Optional<Self> {
        Optional {
            form: self,
            preset: Preset::Words(words),
        }
    }

    /// The rule of a key that must be given, whose absence the caller reports. The value is `None` if the key is absent or
    /// invalid.
    fn required_by_caller(self) -> OptionalOrInvalid<Self> {
        OptionalOrInvalid(Optional {
            form: self,
            preset: Preset::Required,
        })
    }

    /// The rule of a key that may be absent, whose section is checked even if the value is invalid; it is `None` in both
    /// cases.
    fn optional_or_invalid(self, words: &'static str) -> OptionalOrInvalid<Self> {
        OptionalOrInvalid(self.optional(words))
    }

    /// The rule of a key that must be given, whose section is checked even if the value is missing or invalid; it is
    /// `None` then.
    fn required_or_invalid(self, example: &'static str) -> RequiredOrInvalid<Self> {
        RequiredOrInvalid(self.required(example))
    }

    /// The rule of a key that must be given. `example` is a value of TOML.
    fn required(self, example: &'static str) -> Required<Self> {
        Required {
            form: self,
            example,
        }
    }
}

/// The rule of a key with a default.
#[derive(Debug)]
pub struct Or<F: Form> {
    form: F,
    default: F::Value,
    words: Option<&'static str>,
}

impl<F: Form> Or<F> {
    /// Says the default in words, where it depends on other keys.
    #[must_use]
    pub fn said(self, words: &'static str) -> Self {
        Self {
            words: Some(words),
            ..self
        }
    }
}

impl<F: Form> Rule for Or<F> {
    type Value = F::Value;

    fn read(&self, section: &Section<'_>, key: &'static str) -> Option<F::Value> {
        if section.node(key).is_none() {
            return Some(self.default.clone());
        }
        let value = self.form.get(section, key);
        if F::DECIDES {
            value
        } else {
            Some(value.unwrap_or_else(|| self.default.clone()))
        }
    }

    fn declare(&self, name: &'static str, meaning: &'static str) -> Key {
        let preset = match self.words {
            Some(words) => Preset::Words(words),
            None => Preset::Value(self.form.toml(&self.default)),
        };
        Key {
            name,
            takes: self.form.takes(),
            preset,
            meaning,
        }
    }
}

/// The rule of a key with a default, whose section is checked even if the value is invalid.
#[derive(Debug)]
pub struct OrInvalid<F: Form>(Or<F>);

impl<F: Form> OrInvalid<F> {
    /// Says the default in words, where it depends on other keys.
    #[must_use]
    pub fn said(self, words: &'static str) -> Self {
        Self(self.0.said(words))
    }
}

impl<F: Form> Rule for OrInvalid<F> {
    type Value = Option<F::Value>;

    fn read(&self, section: &Section<'_>, key: &'static str) -> Option<Option<F::Value>> {
        Some(self.0.read(section, key))
    }

    fn declare(&self, name: &'static str, meaning: &'static str) -> Key {
        self.0.declare(name, meaning)
    }
}

/// The rule of a key that may be absent.
#[derive(Debug)]
pub struct Optional<F: Form> {
    form: F,
    preset: Preset,
}

impl<F: Form> Rule for Optional<F> {
    type Value = Option<F::Value>;

    fn read(&self, section: &Section<'_>, key: &'static str) -> Option<Option<F::Value>> {
        if section.node(key).is_none() {
            return Some(None);
        }
        let value = self.form.get(section, key);
        (value.is_some() || !F::DECIDES).then_some(value)
    }

    fn declare(&self, name: &'static str, meaning: &'static str) -> Key {
        Key {
            name,
            takes: self.form.takes(),
            preset: self.preset.clone(),
            meaning,
        }
    }
}

/// The rule of a key that may be absent, whose section is checked even if the value is invalid.
#[derive(Debug)]
pub struct OptionalOrInvalid<F: Form>(Optional<F>);

impl<F: Form> Rule for OptionalOrInvalid<F> {
    type Value = Option<F::Value>;

    fn read(&self, section: &Section<'_>, key: &'static str) -> Option<Option<F::Value>> {
        Some(self.0.read(section, key).flatten())
    }

    fn declare(&self, name: &'static str, meaning: &'static str) -> Key {
        self.0.declare(name, meaning)
    }
}

/// The rule of a key that must be given.
#[derive(Debug)]
pub struct Required<F: Form> {
    form: F,
    example: &'static str,
}

impl<F: Form> Rule for Required<F> {
    type Value = F::Value;

    fn read(&self, section: &Section<'_>, key: &'static str) -> Option<F::Value> {
        if section.node(key).is_none() {
            section.missing(key, self.example);
            return None;
        }
        self.form.get(section, key)
    }

    fn declare(&self, name: &'static str, meaning: &'static str) -> Key {
        Key {
            name,
            takes: self.form.takes(),
            preset: Preset::Required,
            meaning,
        }
    }
}

/// The rule of a key that must be given, whose section is checked even if the value is missing or invalid.
#[derive(Debug)]
pub struct RequiredOrInvalid<F: Form>(Required<F>);

impl<F: Form> Rule for RequiredOrInvalid<F> {
    type Value = Option<F::Value>;

    fn read(&self, section: &Section<'_>, key: &'static str) -> Option<Option<F::Value>> {
        Some(self.0.read(section, key))
    }

    fn declare(&self, name: &'static str, meaning: &'static str) -> Key {
        self.0.declare(name, meaning)
    }
}

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
        if !self.0.holds(number) {
            let message = format!("{key} must be {}, given {number}", self.0.rule());
            section.fail(Code::E1002, key, message);
            return None;
        }
        Some(number)
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
        if !self.0.holds(f64::from(number)) {
            let message = format!("{key} must be {}, given {number:?}", self.0.rule());
            section.fail(Code::E1002, key, message);
            return None;
        }
        Some(number)
    }

    fn takes(&self) -> Takes {
        Takes::Number(self.0)
    }

    fn toml(&self, value: &f32) -> String {
        value.to_string()
    }
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
        if self.may_be_empty {
            section.text(key)
        } else {
            section.required_text(key, "\"\"")
        }
    }

    fn takes(&self) -> Takes {
        Takes::Text
    }

    fn toml(&self, value: &String) -> String {
        format!("\"{value}\"")
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

/// One of several names.
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
