//! The paths that a source file names: those of its `use` statements, and those within its code.

use std::collections::BTreeSet;

/// Returns a file's code without comments, string literals and its inline module of tests.
pub(crate) fn code(text: &str) -> String {
    let text = text
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or(text);
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(raw) = rest.strip_prefix("r#\"") {
            raw.find("\"#").map_or(rest.len(), |end| end + 5)
        } else if first == '"' {
            length_of_string(rest)
        } else if rest.starts_with("'\"'") {
            3
        } else {
            0
        };
        if skipped > 0 {
            rest = &rest[skipped..];
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    out
}

/// Returns the bytes of a string literal, with its quotes.
fn length_of_string(text: &str) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Returns every path that the code names: those that it imports, and those within it.
pub(crate) fn paths(code: &str) -> BTreeSet<String> {
    let mut out = imports(code);
    let is_path = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    for word in code.split(|letter| !is_path(letter)) {
        let word = word.trim_matches(':');
        if word.contains("::") {
            out.insert(word.to_owned());
        }
    }
    out
}

/// Returns the paths of the `use` statements. Trees are spelled out: `a::{b, c::d}` are `a::b` and `a::c::d`.
pub(crate) fn imports(code: &str) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    let mut rest = code;
    while let Some(found) = rest.find("use ") {
        let (before, statement) = rest.split_at(found);
        let is_word = before.chars().next_back().is_none_or(char::is_whitespace);
        let end = statement.find(';').unwrap_or(statement.len());
        if is_word {
            spell_out("", &statement[4..end], &mut out);
        }
        rest = &statement[if is_word { end } else { 4 }..];
    }
    out
}

/// Adds the paths of a tree of `use`, each behind `prefix`.
fn spell_out(prefix: &str, tree: &str, out: &mut BTreeSet<String>) {
    let tree = tree.trim();
    let (head, branches) = match tree.split_once('{') {
        Some((head, branches)) => (head.trim(), branches.trim_end().strip_suffix('}')),
        None => (tree, None),
    };
    let name = head
        .split(" as ")
        .next()
        .unwrap_or(head)
        .trim()
        .trim_end_matches("::");
    let path = match (prefix, name) {
        (prefix, "" | "self") => prefix.to_owned(),
        ("", name) => name.to_owned(),
        (prefix, name) => format!("{prefix}::{name}"),
    };
    let Some(branches) = branches else {
        out.insert(path);
        return;
    };
    let mut depth = 0;
    let mut begin = 0;
    for (at, letter) in branches.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                spell_out(&path, &branches[begin..at], out);
                begin = at + 1;
            }
            _ => {}
        }
    }
    if !branches[begin..].trim().is_empty() {
        spell_out(&path, &branches[begin..], out);
    }
}

trial!(trees_of_use_are_spelled_out);
fn trees_of_use_are_spelled_out() {
    let text = "use a::{b, c::{self, d as e}};\n// use f::g;\nlet x = h::i(\"j::k\");\n";
    let found: Vec<String> = paths(&code(text)).into_iter().collect();
    assert_eq!(found, ["a::b", "a::c", "a::c::d", "h::i"]);
}
