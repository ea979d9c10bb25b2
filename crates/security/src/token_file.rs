//! Files of tokens: TOML, a name and a secret a line.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use subtle::{Choice, ConstantTimeEq as _};
use trainyard_diagnostic::{Code, Diagnostic};

use crate::private_file::check_private;

/// Least number of hexadecimal digits of a token: 256 bits.
const DIGITS_MIN: usize = 64;
const DIGITS_MAX: usize = 1024;

/// The tokens of a file, by the name of their owner.
pub(crate) struct TokenFile<Name>(BTreeMap<Name, String>);

impl<Name: fmt::Debug> fmt::Debug for TokenFile<Name> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "tokens of {:?}",
            self.0.keys().collect::<Vec<_>>()
        )
    }
}

/// Returns the error that a file of tokens cannot be used.
pub(crate) fn refused(path: &Path, what: impl fmt::Display) -> Diagnostic {
    let message = format!("token file {}: {what}", path.display());
    Diagnostic::error(Code::E7001, message).help("make it with `trainyard pki --tokens`, mode 0600")
}

impl<Name: Ord + fmt::Display> TokenFile<Name> {
    /// Reads a file: TOML, `NAME = "..."`, at least 64 hexadecimal digits each. `named` parses a name.
    ///
    /// # Errors
    /// The file cannot be read, other users may read it, or a name or token is invalid or used twice.
    pub(crate) fn read(
        path: &Path,
        named: impl Fn(&str) -> Result<Name, String>,
    ) -> Result<Self, Diagnostic> {
        check_private(path)?;
        let text = std::fs::read_to_string(path).map_err(|error| refused(path, error.kind()))?;
        // The parser's message would show the line, which holds a secret.
        let table: toml::Table = text
            .parse()
            .map_err(|_| refused(path, "it is not valid TOML"))?;
        let mut tokens = BTreeMap::new();
        for (name, value) in &table {
            let name = named(name).map_err(|what| refused(path, what))?;
            let token = value.as_str().unwrap_or_default();
            let digits = token.bytes().all(|byte| byte.is_ascii_hexdigit());
            if !digits || !(DIGITS_MIN..=DIGITS_MAX).contains(&token.len()) {
                let length = token.len();
                let what = format!(
                    "the token of {name} must be {DIGITS_MIN} to {DIGITS_MAX} hexadecimal digits, given {length} characters"
                );
                return Err(refused(path, what));
            }
            if let Some((other, _)) = tokens.iter().find(|(_, known)| *known == token) {
                let what = format!("{name} and {other} have the same token");
                return Err(refused(path, what));
            }
            tokens.insert(name, token.to_owned());
        }
        Ok(Self(tokens))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn holds(&self, name: &Name) -> bool {
        self.0.contains_key(name)
    }

    /// Returns the value of the header `authorization` for calls of a name.
    pub(crate) fn header(&self, name: &Name) -> Option<String> {
        self.0.get(name).map(|token| format!("Bearer {token}"))
    }

    /// Returns the name whose token a header `authorization` holds. Every token is compared, each in constant time.
    pub(crate) fn owner(&self, header: &[u8]) -> Option<&Name> {
        let given = header.strip_prefix(b"Bearer ")?;
        let mut found = None;
        for (name, token) in &self.0 {
            let same: Choice = token.as_bytes().ct_eq(given);
            if bool::from(same) {
                found = Some(name);
            }
        }
        found
    }
}
