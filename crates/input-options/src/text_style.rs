//! The style of the fields of CSV and TSV files: delimiter, encoding, and numbers.

use serde::Serialize;

/// Style of the fields of CSV and TSV files. The default is that of RFC 4180, in UTF-8, with decimal points. It serializes to the keys of a
/// job file that differ from the default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TextStyle {
    /// ASCII byte between the fields of CSV files; absent = the comma. TSV has its tab.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delimiter: Option<u8>,
    /// TextEncoding of the texts.
    #[serde(skip_serializing_if = "is_default")]
    pub encoding: TextEncoding,
    /// The numbers.
    #[serde(flatten)]
    pub numbers: NumberStyle,
}

/// How fields write numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct NumberStyle {
    /// Character between the whole part and the fraction.
    #[serde(skip_serializing_if = "is_default")]
    pub decimal: Decimal,
    /// Character between groups of three digits; absent = none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thousands: Option<char>,
    /// Signs that may stand before or after a number, and are dropped: `%`, `€`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<String>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl NumberStyle {
    /// Returns whether numbers have a decimal point, and nothing else.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

/// Character between the whole part of a number and its fraction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub enum Decimal {
    /// `.`
    #[default]
    #[serde(rename = ".")]
    Point,
    /// `,`
    #[serde(rename = ",")]
    Comma,
}

impl Decimal {
    /// Both, as a job file writes them.
    pub const NAMES: [(&'static str, Self); 2] = [(".", Self::Point), (",", Self::Comma)];

    /// Returns the character.
    pub fn byte(self) -> u8 {
        match self {
            Self::Point => b'.',
            Self::Comma => b',',
        }
    }
}

/// TextEncoding of a text file. All have the characters of ASCII as their bytes below 128.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TextEncoding {
    /// UTF-8. Bytes that are not UTF-8 stay as they are.
    #[default]
    #[serde(rename = "utf-8")]
    Utf8,
    /// Windows-1252, which holds ISO 8859-1.
    Latin1,
    /// Windows-1250, of Central Europe.
    #[serde(rename = "windows-1250")]
    Windows1250,
    /// Windows-1251, Cyrillic.
    #[serde(rename = "windows-1251")]
    Windows1251,
    /// GB 18030, which holds GBK and GB 2312.
    Gb18030,
    /// Big5.
    Big5,
    /// Shift JIS.
    ShiftJis,
    /// EUC-KR.
    EucKr,
}

impl TextEncoding {
    /// Every encoding with its name in a job file.
    pub const NAMES: [(&'static str, Self); 8] = [
        ("utf-8", Self::Utf8),
        ("latin1", Self::Latin1),
        ("windows-1250", Self::Windows1250),
        ("windows-1251", Self::Windows1251),
        ("gb18030", Self::Gb18030),
        ("big5", Self::Big5),
        ("shift-jis", Self::ShiftJis),
        ("euc-kr", Self::EucKr),
    ];

    /// Returns the name in a job file.
    pub fn name(self) -> &'static str {
        let known = Self::NAMES.iter().find(|(_, encoding)| *encoding == self);
        known.map_or("utf-8", |(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoding_is_serialized_by_its_name_in_a_job_file() {
        for (name, encoding) in TextEncoding::NAMES {
            assert_eq!(serde_json::json!(encoding), name);
            assert_eq!(encoding.name(), name);
        }
        for (name, decimal) in Decimal::NAMES {
            assert_eq!(serde_json::json!(decimal), name);
            assert_eq!(name.as_bytes(), [decimal.byte()]);
        }
    }
}
