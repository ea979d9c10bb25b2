//! Rules of keys: whether a file must have a key, and its default. A rule reads its key, and describes itself.

use crate::Section;
use crate::key::{Key, Preset, Takes};

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

    /// True if checks of other keys depend on the value. Otherwise the default stands for an invalid value.
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
    fn or_invalid(self, default: Self::Value) -> OrInvalid<Or<Self>> {
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

    /// The rule of a key that may be absent, and is left to its user then, who completes it by `default`. Its section is
    /// checked even if the value is invalid; it is `None` in both cases.
    fn optional_with(self, default: Self::Value) -> OptionalOrInvalid<Self> {
        let preset = Preset::Value(self.toml(&default));
        OptionalOrInvalid(Optional { form: self, preset })
    }

    /// The rule of a key that must be given, whose section is checked even if the value is missing or invalid; it is
    /// `None` then.
    fn required_or_invalid(self, example: &'static str) -> OrInvalid<Required<Self>> {
        OrInvalid(self.required(example))
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

/// A rule whose section is checked even if the value is invalid, or is missing and must be given. The value is `None` then.
#[derive(Debug)]
pub struct OrInvalid<R>(R);

impl<F: Form> OrInvalid<Or<F>> {
    /// Says the default in words, where it depends on other keys.
    #[must_use]
    pub fn said(self, words: &'static str) -> Self {
        Self(self.0.said(words))
    }
}

impl<R: Rule> Rule for OrInvalid<R> {
    type Value = Option<R::Value>;

    fn read(&self, section: &Section<'_>, key: &'static str) -> Option<Option<R::Value>> {
        Some(self.0.read(section, key))
    }

    fn declare(&self, name: &'static str, meaning: &'static str) -> Key {
        self.0.declare(name, meaning)
    }
}
