//! Links between documents, and the headings that they name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::tidy::{assert_none, files, read, root};

/// The lines of a document outside of blocks of code.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !in_code && !fence
    })
}

/// The anchor that a page of a repository gives a heading: lower case, hyphens for spaces, no punctuation.
fn anchor(heading: &str) -> String {
    let letters = heading.trim().chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        letter if letter.is_alphanumeric() => Some(letter),
        _ => None,
    });
    letters.flat_map(char::to_lowercase).collect()
}

/// The anchors of a document.
fn anchors(path: &Path) -> BTreeSet<String> {
    let text = read(path);
    let headings = prose(&text).filter(|(_, line)| line.starts_with('#'));
    headings
        .map(|(_, line)| anchor(line.trim_start_matches('#')))
        .collect()
}

/// The targets of the links of a line.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target)
}

fn documents() -> Vec<PathBuf> {
    let mut documents = files(&root().join("docs"), ".md");
    documents.push(root().join("README.md"));
    documents
}

trial!(links_of_documents_lead_to_files_and_headings_that_exist);
fn links_of_documents_lead_to_files_and_headings_that_exist() {
    let mut offenders = Vec::new();
    let mut seen = 0;
    for document in documents() {
        let text = read(&document);
        for (number, line) in prose(&text) {
            for target in targets(line).filter(|target| !target.contains("://")) {
                seen += 1;
                let (file, heading) = target.split_once('#').unwrap_or((target, ""));
                let path = match file {
                    "" => document.clone(),
                    file => document.with_file_name(file),
                };
                let leads =
                    path.exists() && (heading.is_empty() || anchors(&path).contains(heading));
                if !leads {
                    offenders.push(format!("{}:{}: {target}", document.display(), number + 1));
                }
            }
        }
    }
    assert!(seen > 100, "only {seen} links were found");
    assert_none("links that lead nowhere", &offenders);
}
