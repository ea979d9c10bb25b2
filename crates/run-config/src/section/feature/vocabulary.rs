//! Values of a vocabulary, listed in the job or in a file beside it.

use std::path::Path;

use trainyard_diagnostic::{Code, Section};

pub(super) fn read(path: &Path, section: &Section<'_>) -> Option<Vec<String>> {
    let (values, file) = (section.texts("values"), section.text("file"));
    let (key, values) = match (values, file) {
        (Some(_), Some(_)) => {
            section.fail(Code::E1006, "file", "values and file cannot be both set");
            return None;
        }
        (Some(values), None) => ("values", values),
        (None, Some(file)) => ("file", read_file(path, section, &file)?),
        (None, None) => {
            section.missing("values", "[\"red\", \"green\"]");
            return None;
        }
    };
    if values.is_empty() {
        section.fail(Code::E1002, key, "a vocabulary must hold at least one value, given none");
        return None;
    }
    let mut sorted: Vec<&String> = values.iter().collect();
    sorted.sort();
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        section.fail(
            Code::E1002,
            key,
            format!("a vocabulary must not repeat a value, `{}` is given twice", pair[0]),
        );
        return None;
    }
    Some(values)
}

/// A value a line, spaces kept, a carriage return before the line end dropped (TensorFlow's rules).
fn read_file(path: &Path, section: &Section<'_>, file: &str) -> Option<Vec<String>> {
    let full = path.parent().unwrap_or(Path::new("")).join(file);
    match std::fs::read_to_string(&full) {
        Ok(text) => {
            let values: Vec<String> = text.lines().map(str::to_owned).collect();
            if let Some(line) = values.iter().position(String::is_empty) {
                let message = format!(
                    "{}:{} is empty, a vocabulary file holds one value a line",
                    full.display(),
                    line + 1
                );
                section.fail(Code::E1002, "file", message);
                return None;
            }
            Some(values)
        }
        Err(error) => {
            let message = format!("vocabulary file {} cannot be read: {}", full.display(), error.kind());
            section.fail(Code::E1201, "file", message);
            None
        }
    }
}
