//! "Did you mean": the nearest of the known names.

/// Returns the known name that `given` most likely means: a name that differs only in case, a name of which one begins
/// with the other, or a name at most two edits away.
pub fn suggest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.to_lowercase();
    let distance = |name: &str| {
        let name = name.to_lowercase();
        if name == given {
            return 0;
        }
        let prefix = given.len() >= 3
            && (name.starts_with(&given) || given.starts_with(&name) && name.len() >= 3);
        if prefix { 1 } else { edits(&given, &name) + 1 }
    };
    known
        .into_iter()
        .map(|name| (distance(name), name))
        .filter(|(distance, name)| *distance <= 3.min(name.len()))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Returns the edit distance with transpositions of neighbours (optimal string alignment).
fn edits(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    if a.len().abs_diff(b.len()) > 2 {
        return usize::MAX - 1;
    }
    let mut rows = vec![vec![0_usize; b.len() + 1]; a.len() + 1];
    rows.iter_mut().enumerate().for_each(|(i, row)| row[0] = i);
    rows[0]
        .iter_mut()
        .enumerate()
        .for_each(|(j, cell)| *cell = j);
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let replace = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replace.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let known = ["learning_rate", "beta1", "beta2", "kind", "epsilon"];
        assert_eq!(suggest("learnig_rate", known), Some("learning_rate"));
        assert_eq!(suggest("Kind", known), Some("kind"));
        assert_eq!(suggest("eps", known), Some("epsilon"));
        assert_eq!(suggest("kidn", known), Some("kind"));
        assert_eq!(suggest("momentum", known), None);
        assert_eq!(suggest("x", known), None);
    }
}
