//! Names in a message, of which there may be thousands.

/// Most names that are shown, and most characters of one.
const NAMES_MAX: usize = 40;
const CHARACTERS_MAX: usize = 100;

/// Returns names for a message: the first ones, each cut, and how many more there are.
pub fn listed(names: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let mut names = names.into_iter();
    let shown: Vec<String> = names
        .by_ref()
        .take(NAMES_MAX)
        .map(|name| cut(name.as_ref()))
        .collect();
    let more = names.count();
    let text = shown.join(", ");
    if more == 0 {
        text
    } else {
        format!("{text} and {more} more")
    }
}

fn cut(name: &str) -> String {
    match name.char_indices().nth(CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_and_long_names_are_cut_and_few_are_shown_whole() {
        assert_eq!(listed(["a", "b"]), "a, b");
        assert_eq!(listed([""; 0]), "");
        let many = listed((0..1000).map(|number| number.to_string()));
        assert!(
            many.starts_with("0, 1, ") && many.ends_with("39 and 960 more"),
            "{many}"
        );
        let long = listed(["é".repeat(1000)]);
        assert_eq!(long.chars().count(), CHARACTERS_MAX + 1);
    }
}
