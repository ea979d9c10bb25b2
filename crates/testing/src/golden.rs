//! Golden records: inputs and results of TensorFlow, as `tests/testdata/golden/README.md` describes them.
#![expect(
    clippy::disallowed_methods,
    reason = "a test is told its records by the environment"
)]

use std::io::ErrorKind;
use std::path::PathBuf;

use serde_json::Value;

/// Environment variable with another folder of records.
const VARIABLE: &str = "TRAINYARD_GOLDEN";
/// The repository's own records. A missing one is a failure.
const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/testdata/golden");

/// Owner of a folder of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// Requires all files, all keys and the known number of cases.
    Repository,
    /// Uses the files that exist.
    User,
}

/// A folder of golden records.
///
/// In the repository's own folder, every file and key must exist, and every count must match the test. In a folder that
/// `TRAINYARD_GOLDEN` names, a test compares the records that exist, and asserts no counts.
#[derive(Debug)]
pub struct Golden {
    folder: PathBuf,
    owner: Owner,
}

impl Golden {
    /// Returns the folder in `TRAINYARD_GOLDEN`, or the repository's own.
    pub fn find() -> Self {
        match std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty()) {
            Some(folder) => Self {
                folder: folder.into(),
                owner: Owner::User,
            },
            None => Self::repository(),
        }
    }

    /// Returns the repository's own folder, whatever the environment, for tests that need a certain file.
    pub fn repository() -> Self {
        Self {
            folder: REPOSITORY.into(),
            owner: Owner::Repository,
        }
    }

    /// Returns the path of a file or folder of the records, which may not exist.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Returns the content of a file, or `None` if a user's folder lacks it.
    ///
    /// # Panics
    /// If the repository's folder lacks the file, or if it cannot be read.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let path = self.path(name);
        match std::fs::read(&path) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == ErrorKind::NotFound && self.owner == Owner::User => {
                println!("nothing to compare: {} is not there", path.display());
                None
            }
            Err(error) => panic!("{} cannot be read: {error}", path.display()),
        }
    }

    /// Returns a JSON file, or `None` if a user's folder lacks it.
    ///
    /// # Panics
    /// As [`Golden::bytes`], or if the file is not JSON.
    pub fn json(&self, name: &str) -> Option<Value> {
        let parsed = serde_json::from_slice(&self.bytes(name)?);
        Some(parsed.unwrap_or_else(|error| panic!("{}: {error}", self.path(name).display())))
    }

    /// Returns the list of cases at a top-level key of a file. It is empty if a user's folder lacks the file or key.
    ///
    /// # Panics
    /// As [`Golden::json`], or if the repository's file lacks the key.
    pub fn cases(&self, name: &str, key: &str) -> Vec<Value> {
        match self
            .json(name)
            .as_mut()
            .and_then(|file| file.get_mut(key))
            .map(Value::take)
        {
            Some(Value::Array(cases)) => cases,
            None if self.owner == Owner::User => Vec::new(),
            _ => panic!("{} has no list of {key}", self.path(name).display()),
        }
    }

    /// Prints the number of cases of each class in a test, and asserts the numbers of the repository's own records.
    /// `counts`: class of cases, number found, number recorded.
    ///
    /// # Panics
    /// If a number of the repository's records differs.
    pub fn assert_counts(&self, what: &str, counts: &[(&str, usize, usize)]) {
        let shown: Vec<String> = counts
            .iter()
            .map(|(class, found, _)| format!("{found} {class}"))
            .collect();
        println!("{what}: {}", shown.join(", "));
        if self.owner == Owner::Repository {
            for (class, found, recorded) in counts {
                assert_eq!(found, recorded, "{what}: number of cases that are {class}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the message of a panic.
    fn failure(run: impl FnOnce() + std::panic::UnwindSafe) -> String {
        let failure = std::panic::catch_unwind(run).expect_err("it fails");
        failure
            .downcast_ref::<String>()
            .cloned()
            .expect("a message")
    }

    /// Returns a folder with one file that has one list of two cases.
    fn folder(owner: Owner) -> (tempfile::TempDir, Golden) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(
            folder.path().join("a.json"),
            r#"{"cases": [1, 2], "note": "x"}"#,
        )
        .expect("a file");
        let golden = Golden {
            folder: folder.path().to_owned(),
            owner,
        };
        (folder, golden)
    }

    #[test]
    fn what_the_repository_lacks_is_a_failure() {
        let (_folder, golden) = folder(Owner::Repository);
        assert_eq!(golden.cases("a.json", "cases"), [1, 2]);
        assert!(failure(|| drop(golden.bytes("b.json"))).contains("b.json cannot be read"));
        assert!(failure(|| drop(golden.json("b.json"))).contains("b.json cannot be read"));
        assert!(
            failure(|| drop(golden.cases("a.json", "heads")))
                .ends_with("a.json has no list of heads")
        );
        assert!(
            failure(|| drop(golden.cases("a.json", "note")))
                .ends_with("a.json has no list of note")
        );
        let message = failure(|| golden.assert_counts("a", &[("equal", 2, 2), ("apart", 1, 0)]));
        assert!(
            message.contains("a: number of cases that are apart"),
            "{message}"
        );
    }

    #[test]
    fn what_a_users_folder_lacks_is_not_compared() {
        let (_folder, golden) = folder(Owner::User);
        assert_eq!(golden.cases("a.json", "cases"), [1, 2]);
        assert_eq!(
            (golden.bytes("b.json"), golden.json("b.json")),
            (None, None)
        );
        assert!(
            golden.cases("b.json", "cases").is_empty()
                && golden.cases("a.json", "heads").is_empty()
        );
        assert!(
            failure(|| drop(golden.cases("a.json", "note")))
                .ends_with("a.json has no list of note")
        );
        golden.assert_counts("a", &[("equal", 2, 3)]);
    }

    #[test]
    fn the_repository_has_its_records() {
        assert!(Golden::repository().path("README.md").is_file());
        assert_eq!(Golden::repository().cases("toy.json", "cases").len(), 2);
    }
}
