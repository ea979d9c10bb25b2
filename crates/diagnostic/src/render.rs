//! Text and JSON form of a message.

use std::fmt::Write as _;

use serde_json::json;

use crate::{Diagnostic, Place, Severity};

/// Longest part of a source line that is shown, in characters.
const LINE_CHARACTERS_MAX: usize = 100;

impl Diagnostic {
    /// Returns the message as text of several lines, with a line break at the end.
    pub fn render(&self) -> String {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let mut out = format!(
            "{severity}[{}]: {}\n",
            self.code.name,
            one_line(&self.message)
        );
        let mut gutter = 0;
        match &self.place {
            Some(Place::Source {
                file,
                line,
                column,
                text,
                length,
                label,
            }) => {
                gutter = line.to_string().len();
                let pad = " ".repeat(gutter);
                let _ = writeln!(
                    out,
                    "{pad}--> {}:{line}:{column}",
                    one_line(&file.display().to_string())
                );
                let (shown, offset) = cut(text, *column);
                let carets = "^".repeat(
                    (*length)
                        .min(shown.chars().count().saturating_sub(offset))
                        .max(1),
                );
                let _ = writeln!(out, "{pad} |\n{line} | {shown}");
                let _ = writeln!(
                    out,
                    "{}",
                    format!("{pad} | {}{carets} {label}", " ".repeat(offset)).trim_end()
                );
            }
            Some(Place::Named(name)) => {
                let _ = writeln!(out, "  from: {}", one_line(name));
            }
            None => {}
        }
        let pad = " ".repeat(gutter);
        for note in &self.notes {
            let _ = writeln!(
                out,
                "{pad} = {}",
                escape(note).replace('\n', &format!("\n{pad}   "))
            );
        }
        if let Some(help) = &self.help {
            let _ = writeln!(out, "{pad} = help: {}", one_line(help));
        }
        out
    }

    /// Returns the message as one line for a log. It contains the place in a source file, but not the source line.
    pub fn log_line(&self) -> String {
        let mut out = format!("{}: {}", self.code.name, one_line(&self.message));
        match &self.place {
            Some(Place::Source { file, line, .. }) => {
                let _ = write!(out, " ({}:{line})", one_line(&file.display().to_string()));
            }
            Some(Place::Named(name)) => {
                let _ = write!(out, " (from {})", one_line(name));
            }
            None => {}
        }
        for note in &self.notes {
            let _ = write!(out, "; {}", one_line(note));
        }
        if let Some(help) = &self.help {
            let _ = write!(out, ". Help: {}", one_line(help));
        }
        out
    }

    /// Returns the message as one JSON object.
    pub fn to_json(&self) -> serde_json::Value {
        json!({
            "severity": self.severity, "code": self.code.name, "message": self.message, "place": self.place,
            "notes": self.notes, "help": self.help,
        })
    }

    /// Returns the exit code of a program that ends with this message.
    pub fn exit_code(&self) -> u8 {
        self.code.exit
    }
}

/// Returns all messages as text, separated by blank lines.
pub fn render_all(diagnostics: &[Diagnostic]) -> String {
    diagnostics
        .iter()
        .map(Diagnostic::render)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Escapes characters that control a terminal, so that no file or peer can write to a user's screen. Line breaks are
/// kept.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => out.push('\n'),
            other if steers(other) => out.extend(other.escape_default()),
            other => out.push(other),
        }
    }
    out
}

/// As [`escape`], with line breaks escaped too, so that a value cannot look like a message of its own.
pub fn one_line(text: &str) -> String {
    escape(text).replace('\n', "\\n")
}

/// Returns whether a character controls the terminal or the direction of writing (Unicode UAX 9).
pub fn steers(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns the part of a line around `column` (from 1) that is shown, and the index of the column in it (from 0).
fn cut(text: &str, column: usize) -> (String, usize) {
    // Each replacement is a single character, so that columns stay correct.
    let shown = |character: char| match character {
        '\t' | '\n' => ' ',
        other if steers(other) => char::REPLACEMENT_CHARACTER,
        other => other,
    };
    let characters: Vec<char> = text.chars().map(shown).collect();
    let at = column.saturating_sub(1).min(characters.len());
    if characters.len() <= LINE_CHARACTERS_MAX {
        return (characters.into_iter().collect(), at);
    }
    let begin = at
        .saturating_sub(LINE_CHARACTERS_MAX / 2)
        .min(characters.len() - LINE_CHARACTERS_MAX);
    let shown: String = characters[begin..begin + LINE_CHARACTERS_MAX]
        .iter()
        .collect();
    if begin == 0 {
        (format!("{shown} …"), at)
    } else {
        (format!("… {shown}"), at - begin + 2)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::*;

    #[test]
    fn a_message_in_a_log_is_one_line_that_says_everything() {
        let problem = Diagnostic::error(Code::E3003, "cannot write\nit")
            .note("one")
            .note("two");
        let line = problem.help("free space").log_line();
        assert_eq!(line, "E3003: cannot write\\nit; one; two. Help: free space");
    }

    #[test]
    fn source_errors_show_the_line_and_a_caret() {
        let place = Place::Source {
            file: Path::new("train.toml").into(),
            line: 14,
            column: 1,
            text: "learnig_rate = 0.05".into(),
            length: 12,
            label: "not a key of [optimizer]".into(),
        };
        let diagnostic = Diagnostic::error(Code::E1001, "unknown key `learnig_rate`")
            .at(place)
            .help("did you mean `learning_rate`?");
        let expected = "error[E1001]: unknown key `learnig_rate`\n  --> train.toml:14:1\n   |\n14 | learnig_rate = 0.05\n   \
                        | ^^^^^^^^^^^^ not a key of [optimizer]\n   = help: did you mean `learning_rate`?\n";
        assert_eq!(diagnostic.render(), expected);
        assert_eq!(diagnostic.exit_code(), 78);
    }

    #[test]
    fn control_characters_never_reach_the_terminal() {
        let diagnostic = Diagnostic::error(Code::E4004, "value \u{1b}[31mred")
            .at(Place::Named("a\u{7}b".into()));
        let text = diagnostic.render();
        assert!(
            !text.contains('\u{1b}') && !text.contains('\u{7}'),
            "{text:?}"
        );
    }

    #[test]
    fn values_cannot_pose_as_messages() {
        let value = "a\nerror[E9999]: forged \u{202e}";
        let place = Place::Source {
            file: Path::new("b\nc.toml").into(),
            line: 2,
            column: 3,
            text: "\u{1b} = x".into(),
            length: 1,
            label: String::new(),
        };
        let text = Diagnostic::error(Code::E1001, format!("unknown key `{value}`"))
            .at(place)
            .help(value)
            .render();
        let expected = "error[E1001]: unknown key `a\\nerror[E9999]: forged \\u{202e}`\n --> b\\nc.toml:2:3\n  |\n\
                        2 | \u{fffd} = x\n  |   ^\n  = help: a\\nerror[E9999]: forged \\u{202e}\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn named_places_notes_and_json_hold_every_part() {
        let diagnostic =
            Diagnostic::warning(Code::E1004, "task index 3 is out of range for role `ps`")
                .at(Place::Named(
                    "environment variable TF_CONFIG, at task.index".into(),
                ))
                .note("the cluster has 2 ps")
                .help("use index 0 or 1");
        let expected = "warning[E1004]: task index 3 is out of range for role `ps`\n  from: environment variable \
                        TF_CONFIG, at task.index\n = the cluster has 2 ps\n = help: use index 0 or 1\n";
        assert_eq!(diagnostic.render(), expected);
        let expected = serde_json::json!({
            "severity": "warning", "code": "E1004", "message": "task index 3 is out of range for role `ps`",
            "place": {"named": "environment variable TF_CONFIG, at task.index"},
            "notes": ["the cluster has 2 ps"], "help": "use index 0 or 1",
        });
        assert_eq!(diagnostic.to_json(), expected);
        assert!(!diagnostic.to_json().to_string().contains('\n'), "one line");
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let text = format!("{}here{}", "x".repeat(300), "y".repeat(300));
        let file = Path::new("a.toml").into();
        let label = String::new();
        let place = Place::Source {
            file,
            line: 1,
            column: 301,
            text: text.into(),
            length: 4,
            label,
        };
        let rendered = Diagnostic::error(Code::E1002, "m").at(place).render();
        let lines: Vec<&str> = rendered.lines().collect();
        let caret = lines[4].find('^').unwrap();
        let shown: String = lines[3]
            .chars()
            .skip(lines[4][..caret].chars().count())
            .take(4)
            .collect();
        assert_eq!(shown, "here", "{rendered}");
    }
}
