//! Where the tasks of a cluster have what proves who they are.

use std::path::PathBuf;

use serde::Serialize;

use crate::Task;

/// `[security]` of a cluster file: paths on each task's host, in which `{role}` and `{index}` stand for the task's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CredentialFiles {
    /// Folder of a task's certificate, its key and the authority's certificate.
    pub tls_dir: Option<String>,
    /// File of the roles' tokens.
    pub token_file: Option<String>,
    /// Whether tasks may listen at addresses that other hosts reach although nothing protects them.
    pub insecure_no_auth: bool,
}

impl CredentialFiles {
    /// Returns the folder of a task's certificate.
    pub fn tls_dir_of(&self, task: Task) -> Option<PathBuf> {
        self.tls_dir.as_deref().map(|path| of(path, task))
    }

    /// Returns the file of tokens that a task reads.
    pub fn token_file_of(&self, task: Task) -> Option<PathBuf> {
        self.token_file.as_deref().map(|path| of(path, task))
    }

    /// Returns the section, as a cluster file has it; nothing where it says nothing.
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
