//! Fingerprints of the division of an input, as checkpoints have them: settings, and then `files=[...]`.

use std::collections::BTreeSet;

/// Returns whether two divisions share no file. Each was read from its start, whatever was read of the other.
pub(super) fn are_other_files(was: &str, is: &str) -> bool {
    match (files(was), files(is)) {
        (Some(was), Some(is)) => was.is_disjoint(&is),
        _ => false,
    }
}

/// Returns the names of the files, quoted. A name that holds a quote is in one of the pieces between quotes as well.
fn files(division: &str) -> Option<BTreeSet<&str>> {
    let (_, list) = division.split_once("files=[")?;
    let (list, _) = list.rsplit_once(']')?;
    Some(
        list.split("\", \"")
            .map(|name| name.trim_matches('"'))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisions_of_other_files_are_told_from_other_divisions_of_the_same() {
        let of = |batch: u32, files: &[&str]| {
            format!("Dynamic lanes=1 seed=0 batch={batch} shuffle=0 files={files:?} {batch:016x}")
        };
        let one = of(8, &["a.csv", "b ]\".csv"]);
        assert!(are_other_files(&one, &of(8, &["c.csv"])));
        assert!(!are_other_files(&one, &of(9, &["a.csv", "b ]\".csv"])));
        assert!(!are_other_files(&one, &of(8, &["c.csv", "a.csv"])));
        assert!(!are_other_files(&one, &of(8, &["b ]\".csv"])));
        // A division of another release says no files.
        assert!(!are_other_files("3", &one));
    }
}
