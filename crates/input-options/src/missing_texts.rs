//! The texts of files and requests that mean a missing value.

use std::collections::BTreeMap;

use serde::Serialize;

/// Texts that mean a missing value, besides the empty one. They serialize to the keys of a job file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct MissingTexts {
    /// Those of every column that has none of its own.
    #[serde(rename = "missing")]
    pub everywhere: Vec<String>,
    /// Those of a column, which it has instead of the others. A column with an empty list has no such text.
    #[serde(rename = "missing_of", skip_serializing_if = "BTreeMap::is_empty")]
    pub of_columns: BTreeMap<String, Vec<String>>,
}

impl MissingTexts {
    /// Returns the texts of a column.
    pub fn of(&self, column: &str) -> &[String] {
        self.of_columns.get(column).unwrap_or(&self.everywhere)
    }

    /// Returns the key of the job file that has the texts of a column.
    pub fn key_of(&self, column: &str) -> &'static str {
        if self.of_columns.contains_key(column) {
            "input.missing_of"
        } else {
            "input.missing"
        }
    }
}

impl From<Vec<String>> for MissingTexts {
    fn from(everywhere: Vec<String>) -> Self {
        Self {
            everywhere,
            of_columns: BTreeMap::new(),
        }
    }
}
