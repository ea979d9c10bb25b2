//! Tables of text in columns.

/// Widest column, in characters. A longer cell moves the rest of its line: names of columns may have any length, and a width
/// in a format ends at 65,535.
const WIDTH_MAX: usize = 100;

/// Returns the width of a column.
pub(crate) fn width<'a>(cells: impl IntoIterator<Item = &'a str>) -> usize {
    let lengths = cells.into_iter().map(|cell| cell.chars().count());
    lengths.max().unwrap_or(0).min(WIDTH_MAX)
}

/// Returns rows of as many cells as lines: names, types and notes, which are the first two columns and the last, are aligned
/// left, numbers right.
pub(crate) fn lines(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns)
        .map(|column| width(rows.iter().map(|row| row[column].as_str())))
        .collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(column, (cell, &width))| {
            if column < 2 || column + 1 == columns {
                format!("{cell:width$}")
            } else {
                format!("{cell:>width$}")
            }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_makes_one_long_line_and_breaks_no_table() {
        let long = "ä".repeat(1 << 16);
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        let shown = lines(&[row(["a", "int", "1", "x"]), row([&long, "text", "22", "y"])]);
        assert_eq!(
            shown[0].trim_end().chars().count(),
            WIDTH_MAX + 2 + 4 + 2 + 2 + 2 + 1
        );
        assert!(shown[0].ends_with("  int    1  x"), "{}", shown[0]);
        assert!(shown[1].starts_with(&long) && shown[1].ends_with("  text  22  y"));
    }
}
