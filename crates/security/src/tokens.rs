//! Tokens: one secret per role, for tasks of one host or behind a mesh that encrypts.

use std::path::Path;

use trainyard_cluster_spec::Role;
use trainyard_diagnostic::Diagnostic;

use crate::Identity;
use crate::token_file::{TokenFile, refused};

/// The tokens that a task knows: its own, which it sends, and those of the roles that may call it.
#[derive(Debug)]
pub struct Tokens(TokenFile<Role>);

impl Tokens {
    /// Reads a file of tokens: TOML, `ROLE = "..."`, at least 64 hexadecimal digits each. A task needs the tokens of
    /// its own role and of the roles that call it. A worker's file needs only the worker's token.
    ///
    /// # Errors
    /// The file cannot be read, other users may read it, or a token is too short, invalid, missing or used twice.
    pub fn load(path: &Path, role: Role) -> Result<Self, Diagnostic> {
        let named = |name: &str| {
            Role::named(name).ok_or_else(|| format!("there is no role `{}`", name.escape_debug()))
        };
        let tokens = TokenFile::read(path, named)?;
        if !tokens.holds(&role) {
            let what = format!("it holds no token of this task's role, {role}");
            return Err(refused(path, what));
        }
        Ok(Self(tokens))
    }

    /// Returns the value of the header `authorization` for calls of a role.
    pub(crate) fn header(&self, role: Role) -> Option<String> {
        self.0.header(&role)
    }

    /// Returns the role whose token a header `authorization` holds.
    pub(crate) fn who(&self, header: &[u8]) -> Option<Identity> {
        let role = *self.0.owner(header)?;
        Some(Identity { role, index: None })
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
