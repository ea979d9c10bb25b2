//! Tokens: one secret per role, for tasks of one host or behind a mesh that encrypts.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use subtle::{Choice, ConstantTimeEq as _};
use trainyard_cluster_spec::Role;
use trainyard_diagnostic::{Code, Diagnostic};

use crate::Identity;
use crate::private_file::check_private;

/// Least number of hexadecimal digits of a token: 256 bits.
const DIGITS_MIN: usize = 64;
const DIGITS_MAX: usize = 1024;
/// The tokens that a task knows: its own, which it sends, and those of the roles that may call it.
pub struct Tokens(BTreeMap<Role, String>);

impl fmt::Debug for Tokens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "Tokens of {:?}",
            self.0.keys().collect::<Vec<_>>()
        )
    }
}

impl Tokens {
    /// Reads a file of tokens: TOML, `ROLE = "..."`, at least 64 hexadecimal digits each. A task needs the tokens of
    /// its own role and of the roles that call it. A worker's file needs only the worker's token.
    ///
    /// # Errors
    /// The file cannot be read, other users may read it, or a token is too short, invalid, missing or used twice.
    pub fn load(path: &Path, role: Role) -> Result<Self, Diagnostic> {
        let refuse = |what: String| {
            Diagnostic::error(
                Code::E7001,
                format!("token file {}: {what}", path.display()),
            )
            .help("make it with `trainyard pki --tokens`, mode 0600")
        };
        check_private(path)?;
        let text =
            std::fs::read_to_string(path).map_err(|error| refuse(error.kind().to_string()))?;
        // The parser's message would show the line, which holds a secret.
        let table: toml::Table = text
            .parse()
            .map_err(|_| refuse("it is not valid TOML".to_owned()))?;
        let mut tokens = BTreeMap::new();
        for (name, value) in &table {
            let role = Role::named(name)
                .ok_or_else(|| refuse(format!("there is no role `{}`", name.escape_debug())))?;
            let token = value.as_str().unwrap_or_default();
            let digits = token.bytes().all(|byte| byte.is_ascii_hexdigit());
            if !digits || !(DIGITS_MIN..=DIGITS_MAX).contains(&token.len()) {
                let length = token.len();
                return Err(refuse(format!(
                    "the token of {role} must be {DIGITS_MIN} to {DIGITS_MAX} hexadecimal digits, given {length} characters"
                )));
            }
            if let Some((other, _)) = tokens.iter().find(|(_, known)| *known == token) {
                return Err(refuse(format!("{role} and {other} have the same token")));
            }
            tokens.insert(role, token.to_owned());
        }
        if !tokens.contains_key(&role) {
            return Err(refuse(format!(
                "it holds no token of this task's role, {role}"
            )));
        }
        Ok(Self(tokens))
    }

    /// Returns the value of the header `authorization` for calls of a role.
    pub(crate) fn header(&self, role: Role) -> Option<String> {
        self.0.get(&role).map(|token| format!("Bearer {token}"))
    }

    /// Returns the role whose token a header `authorization` holds. Every token is compared, each in constant time.
    pub(crate) fn who(&self, header: &[u8]) -> Option<Identity> {
        let given = header.strip_prefix(b"Bearer ")?;
        let mut found = None;
        for (role, token) in &self.0 {
            let same: Choice = token.as_bytes().ct_eq(given);
            if bool::from(same) {
                found = Some(Identity {
                    role: *role,
                    index: None,
                });
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn load(text: &str, mode: u32) -> Result<Tokens, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tokens.toml");
        std::fs::write(&path, text).expect("it is written");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("it is ours");
        Tokens::load(&path, Role::Worker).map_err(|problem| problem.render())
    }

    #[test]
    fn a_token_tells_its_role_and_is_never_shown() {
        let worker = "ab".repeat(32);
        let chief = "cd".repeat(32);
        let tokens = load(
            &format!("worker = \"{worker}\"\nchief = \"{chief}\"\n"),
            0o600,
        )
        .expect("good tokens");
        let header = tokens.header(Role::Worker).expect("its own");
        assert_eq!(
            tokens.who(header.as_bytes()),
            Some(Identity {
                role: Role::Worker,
                index: None
            })
        );
        assert_eq!(tokens.who(&header.as_bytes()[..40]), None);
        assert_eq!(tokens.who(b"Basic ab"), None);
        assert!(!format!("{tokens:?}").contains("abab"));
    }

    #[test]
    fn a_file_that_is_not_good_is_refused_without_showing_a_secret() {
        let short = "secret12";
        let long = "ab".repeat(32);
        for (text, mode, told) in [
            (
                format!("worker = \"{long}\""),
                0o644,
                "may be read by others",
            ),
            (format!("worker = \"{short}\""), 0o600, "given 8 characters"),
            (
                format!("chief = \"{long}\""),
                0o600,
                "no token of this task's role, worker",
            ),
            (
                format!("worker = \"{long}\"\nps = \"{long}\""),
                0o600,
                "the same token",
            ),
            (format!("worker = {short}"), 0o600, "not valid TOML"),
            ("boss = \"\"".to_owned(), 0o600, "no role `boss`"),
        ] {
            let message = load(&text, mode).expect_err(told);
            assert!(message.contains(told), "{message}");
            assert!(
                !message.contains(short) && !message.contains(&long),
                "{message}"
            );
        }
    }
}
