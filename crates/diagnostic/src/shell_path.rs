//! Paths with parts that a shell replaces and nothing else does: `~` and `$HOME` would be names of folders.

use std::ffi::OsStr;

use crate::{Code, Diagnostic};

/// Returns the part of a path that only a shell replaces: `~` or `~name` at its begin, `$NAME` or `${NAME}`.
pub(crate) fn shell_part(path: &str) -> Option<&str> {
    let first = path.split('/').next().unwrap_or(path);
    let is_user = |name: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        name.is_empty() || path.len() > first.len() && name.bytes().all(plain)
    };
    if first.strip_prefix('~').is_some_and(is_user) {
        return Some(first);
    }
    path.match_indices('$').find_map(|(begin, _)| {
        let rest = &path[begin + 1..];
        let name = |text: &str| {
            text.find(|one: char| !(one.is_ascii_uppercase() || one.is_ascii_digit() || one == '_'))
                .unwrap_or(text.len())
        };
        let end = match rest.strip_prefix('{') {
            Some(inside) => inside.find('}').map(|end| end + 2)?,
            None => name(rest),
        };
        let is_name = end > 0 && !rest.starts_with(|one: char| one.is_ascii_digit());
        is_name.then(|| &path[begin..=begin + end])
    })
}

/// Says what to do about a part that [`shell_part`] has found.
pub(crate) fn help_of(part: &str) -> String {
    let own = if part.starts_with('~') {
        format!("; ./{part} means a folder of that name")
    } else {
        String::new()
    };
    format!(
        "write the whole path: only a shell replaces `{part}`, and no shell has read this text{own}"
    )
}

/// Refuses arguments that a shell would have replaced if it had seen a path in them, as `--model-dir=~/m`.
///
/// # Errors
/// Names the first such argument.
pub fn refuse_shell_parts<Word: AsRef<OsStr>>(
    arguments: impl IntoIterator<Item = Word>,
) -> Result<(), Diagnostic> {
    for word in arguments {
        let word = word.as_ref().to_string_lossy();
        let value = match word.split_once('=') {
            Some((flag, value)) if flag.starts_with("--") => value,
            _ => &word,
        };
        // Other arguments may have a `$`, as units of numbers do.
        let part = shell_part(value)
            .filter(|part| value.starts_with(part))
            .filter(|part| part.starts_with('~') || value[part.len()..].starts_with('/'));
        if let Some(part) = part {
            let message = format!(
                "the argument `{word}` begins with `{part}`, which would be the name of a folder"
            );
            let help = "write the whole path, or leave it to the shell: `--model-dir ~/m`, without `=` and quotes, becomes a path of the home folder";
            let own = "./ before it means a folder of that name";
            return Err(Diagnostic::error(Code::E1000, message).note(own).help(help));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_a_shell_replaces_are_found_and_names_are_not() {
        for (path, part) in [
            ("~", Some("~")),
            ("~/m", Some("~")),
            ("~ann/m", Some("~ann")),
            ("$HOME/m", Some("$HOME")),
            ("/data/$USER", Some("$USER")),
            ("s3://b/${NAME}/x", Some("${NAME}")),
            ("runs/a~b", None),
            ("~backup", None),
            ("./~/m", None),
            ("a$b.csv", None),
            ("$5.csv", None),
            ("part$folder$", None),
            ("${open", None),
            ("", None),
        ] {
            assert_eq!(shell_part(path), part, "{path}");
        }
    }

    #[test]
    fn arguments_that_begin_with_such_a_part_are_refused() {
        for word in [
            "--model-dir=~/m",
            "~/x.csv",
            "$HOME/x.csv",
            "--output=${TMP}/x",
        ] {
            let problem = refuse_shell_parts([word]).expect_err(word);
            assert!(problem.message.contains(word), "{problem:?}");
        }
        for word in [
            "--units=$US",
            "$US",
            "--set",
            "input.units=[\"$US/\"]",
            "~x",
            "./~/m",
            "a=~/b",
        ] {
            refuse_shell_parts([word]).expect(word);
        }
    }
}
