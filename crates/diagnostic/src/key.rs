//! Declared keys: what each key of a section takes, means and is by default.

/// A key of a section. The documentation and the schema of a file come from its keys.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// Name in the file.
    pub name: &'static str,
    /// Values that it takes.
    pub takes: Takes,
    /// Its value where the file lacks it.
    pub preset: Preset,
    /// Meaning, in Markdown.
    pub meaning: &'static str,
}

/// Values that a key takes.
#[derive(Debug, Clone, PartialEq)]
pub enum Takes {
    /// `true` or `false`.
    Flag,
    /// A whole number, from `least` to `most`.
    Integer {
        /// Least value.
        least: u64,
        /// Largest value; `u64::MAX` = no bound.
        most: u64,
    },
    /// A finite number.
    Number(Bound),
    /// A list of whole numbers, each from `least` to `most`.
    Integers {
        /// Least value.
        least: u64,
        /// Largest value.
        most: u64,
    },
    /// A list of numbers.
    Numbers,
    /// A text.
    Text,
    /// One text, or a list of texts.
    Texts,
    /// A name out of these.
    Choice(Vec<&'static str>),
    /// A name out of these, or a list of such names.
    Choices(Vec<&'static str>),
    /// A table with these keys.
    Table(Vec<Key>),
    /// A table of texts, whose keys the user chooses.
    TextTable,
    /// A table whose keys depend on its kind.
    AnyTable,
    /// Tables with these keys.
    Tables(Vec<Key>),
    /// Tables whose keys depend on their kinds.
    AnyTables,
}

/// A bound of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Any number.
    None,
    /// Above 0.
    Positive,
    /// At least 0.
    NotNegative,
}

impl Bound {
    /// Returns the bound as the end of "must be".
    pub fn rule(self) -> &'static str {
        match self {
            Self::None => "a finite number",
            Self::Positive => "> 0",
            Self::NotNegative => ">= 0",
        }
    }

    /// Returns whether a number is within the bound.
    pub fn holds(self, number: f64) -> bool {
        match self {
            Self::None => true,
            Self::Positive => number > 0.0,
            Self::NotNegative => number >= 0.0,
        }
    }
}

/// The value of a key that a file lacks.
#[derive(Debug, Clone, PartialEq)]
pub enum Preset {
    /// The file must have the key.
    Required,
    /// This value of TOML.
    Value(String),
    /// What these words say: it depends on other keys, or there is none.
    Words(&'static str),
}

impl Preset {
    /// Returns the words for the documentation, in Markdown.
    pub fn shown(&self) -> String {
        match self {
            Self::Required => "required".to_owned(),
            Self::Words(words) => (*words).to_owned(),
            Self::Value(value) => match value
                .strip_prefix('"')
                .and_then(|text| text.strip_suffix('"'))
            {
                Some(text) => format!("`{}`", text.replace('|', "\\|")),
                None => value.clone(),
            },
        }
    }
}
