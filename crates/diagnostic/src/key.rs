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
    /// A path or URL.
    Path,
    /// One path, URL or pattern, or a list of them.
    Paths,
    /// A name out of these.
    Choice(Vec<&'static str>),
    /// A name out of these, or a list of such names.
    Choices(Vec<&'static str>),
    /// A table with these keys.
    Table(Vec<Key>),
    /// A table of such values, whose keys the user chooses.
    TableOf(Box<Takes>),
    /// A table of any values, whose keys the user chooses.
    AnyTable,
    /// Tables with these keys.
    Tables(Vec<Key>),
    /// A table whose keys depend on its kind.
    TableByKind(Kinds),
    /// Tables whose keys depend on their kinds.
    TablesByKind(Kinds),
    /// A value of any of these.
    AnyOf(Vec<Takes>),
}

/// Kinds of a table. The key `kind` names one of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Kinds {
    /// Word for a kind in messages, such as `optimizer`.
    pub what: &'static str,
    /// Kind of a table that names none; absent = it must name one.
    pub default: Option<&'static str>,
    /// Keys that a table has whatever its kind.
    pub shared: Vec<Key>,
    /// The kinds, in the order of the documentation.
    pub kinds: Vec<Kind>,
}

/// A kind of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Kind {
    /// Name in the file.
    pub name: &'static str,
    /// Meaning, in Markdown.
    pub meaning: &'static str,
    /// Keys that the table has for this kind.
    pub keys: Vec<Key>,
}

impl Kinds {
    /// Returns the names of the kinds.
    pub fn names(&self) -> Vec<&'static str> {
        self.kinds.iter().map(|kind| kind.name).collect()
    }

    /// Returns these kinds, and then those of another declaration.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.kinds.extend(other.kinds);
        self
    }

    /// Returns the kinds with one that holds where a table names none.
    #[must_use]
    pub fn or(self, default: &'static str) -> Self {
        Self {
            default: Some(default),
            ..self
        }
    }

    /// Returns the kinds with keys that a table has whatever its kind.
    #[must_use]
    pub fn with(self, shared: Vec<Key>) -> Self {
        Self { shared, ..self }
    }

    /// Returns the key `kind`.
    pub fn key(&self) -> Key {
        Key {
            name: "kind",
            takes: Takes::Choice(self.names()),
            preset: match self.default {
                Some(name) => Preset::Value(format!("\"{name}\"")),
                None => Preset::Required,
            },
            meaning: self.what,
        }
    }
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
    /// At most 0.
    NotPositive,
    /// At least 1.
    AtLeastOne,
    /// At least 0 and below 1.
    Fraction,
    /// Above 0 and below 1.
    ProperFraction,
}

impl Bound {
    /// Returns the bound as the end of "must be".
    pub fn rule(self) -> &'static str {
        match self {
            Self::None => "a finite number",
            Self::Positive => "> 0",
            Self::NotNegative => ">= 0",
            Self::NotPositive => "<= 0",
            Self::AtLeastOne => ">= 1",
            Self::Fraction => ">= 0 and < 1",
            Self::ProperFraction => "> 0 and < 1",
        }
    }

    /// Returns whether a number is within the bound.
    pub fn holds(self, number: f64) -> bool {
        match self {
            Self::None => true,
            Self::Positive => number > 0.0,
            Self::NotNegative => number >= 0.0,
            Self::NotPositive => number <= 0.0,
            Self::AtLeastOne => number >= 1.0,
            Self::Fraction => (0.0..1.0).contains(&number),
            Self::ProperFraction => number > 0.0 && number < 1.0,
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
    /// A value that these words describe: it depends on other keys, or there is none.
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
