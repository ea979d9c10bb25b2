//! Paths of the credentials of the tasks of a cluster.

use std::path::PathBuf;

use serde::Serialize;

use crate::Task;

/// `[security]` of a cluster file: paths on each task's host. `{role}` and `{index}` in them are replaced by the
/// task's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CredentialFiles {
    /// Folder of the certificate and key of a task, and the authority's certificate.
    pub tls_dir: Option<String>,
    /// File of the tokens of the roles.
    pub token_file: Option<String>,
    /// Tasks may listen at addresses that other hosts can reach, without any protection.
    pub insecure_no_auth: bool,
}

impl CredentialFiles {
    /// Returns the folder of the certificate of a task.
    pub fn tls_dir_of(&self, task: Task) -> Option<PathBuf> {
        self.tls_dir.as_deref().map(|path| of(path, task))
    }

    /// Returns the file of tokens that a task reads.
    pub fn token_file_of(&self, task: Task) -> Option<PathBuf> {
        self.token_file.as_deref().map(|path| of(path, task))
    }

    /// Returns the section as text of a cluster file; empty if it has only defaults.
    pub(crate) fn to_toml(&self) -> String {
        let mut out = String::new();
        for (key, value) in [("tls_dir", &self.tls_dir), ("token_file", &self.token_file)] {
            if let Some(value) = value {
                out.push_str(&format!("{key} = {}\n", toml_text(value)));
            }
        }
        if self.insecure_no_auth {
            out.push_str("insecure_no_auth = true\n");
        }
        if out.is_empty() {
            out
        } else {
            format!("[security]\n{out}")
        }
    }
}

fn of(path: &str, task: Task) -> PathBuf {
    path.replace("{role}", task.role.as_str())
        .replace("{index}", &task.index.to_string())
        .into()
}

fn toml_text(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
