//! The tokens of the clients of a service.

use std::path::Path;

use trainyard_diagnostic::Diagnostic;

use crate::token_file::{TokenFile, refused};

/// Most bytes of a client's name.
const NAME_BYTES_MAX: usize = 64;

/// The tokens that a service admits, by the name of the client.
#[derive(Debug)]
pub struct ClientTokens(TokenFile<String>);

impl ClientTokens {
    /// Reads a file of tokens: TOML, `CLIENT = "..."`, at least 64 hexadecimal digits each. The names are the operator's.
    ///
    /// # Errors
    /// The file cannot be read, other users may read it, it holds no token, or a token is too short, invalid or used
    /// twice.
    pub fn load(path: &Path) -> Result<Self, Diagnostic> {
        let named = |name: &str| match name.len() {
            1..=NAME_BYTES_MAX => Ok(name.escape_debug().to_string()),
            length => Err(format!(
                "the name of a client must have 1 to {NAME_BYTES_MAX} bytes, given {length}"
            )),
        };
        let tokens = TokenFile::read(path, named)?;
        if tokens.is_empty() {
            return Err(refused(path, "it holds no token of a client"));
        }
        Ok(Self(tokens))
    }

    /// Checks the header `authorization` of a request.
    ///
    /// # Errors
    /// The header holds no token of a client.
    pub(crate) fn check(&self, header: Option<&[u8]>) -> Result<(), &'static str> {
        let header = header.ok_or(
            "the request has no token: send the header `authorization: Bearer TOKEN` with a token of the server's file",
        )?;
        match self.0.owner(header) {
            Some(_) => Ok(()),
            None => Err(
                "the header `authorization` must be `Bearer TOKEN` with a token of the server's file, and is not",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn load(text: &str) -> Result<ClientTokens, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("clients.toml");
        std::fs::write(&path, text).expect("it is written");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("it is ours");
        ClientTokens::load(&path).map_err(|problem| problem.render())
    }

    #[test]
    fn each_client_is_admitted_by_its_own_token_and_by_no_other() {
        let site = "ab".repeat(32);
        let batch = "cd".repeat(32);
        let text = format!("site = \"{site}\"\nbatch = \"{batch}\"\n");
        let tokens = load(&text).expect("good tokens");
        for token in [&site, &batch] {
            let header = format!("Bearer {token}");
            assert_eq!(tokens.check(Some(header.as_bytes())), Ok(()));
            let cut = &header[..header.len() - 1];
            assert!(tokens.check(Some(cut.as_bytes())).is_err());
            assert!(tokens.check(Some(token.as_bytes())).is_err(), "no scheme");
        }
        let without = tokens.check(None).expect_err("no header");
        assert!(without.contains("no token"), "{without}");
    }

    #[test]
    fn a_file_without_clients_or_with_a_name_without_end_is_refused() {
        let told = load("").expect_err("no client");
        assert!(told.contains("no token of a client"), "{told}");
        let long = "a".repeat(NAME_BYTES_MAX + 1);
        let told = load(&format!("{long} = \"{}\"", "ab".repeat(32))).expect_err("a long name");
        assert!(told.contains("1 to 64 bytes, given 65"), "{told}");
    }
}
