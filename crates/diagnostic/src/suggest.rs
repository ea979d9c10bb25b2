//! "Did you mean": the nearest of the known names.

use strsim::osa_distance;

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
        if prefix {
            1
        } else {
            osa_distance(&given, &name) + 1
        }
    };
    known
        .into_iter()
        .map(|name| (distance(name), name))
        .filter(|(distance, name)| *distance <= 3.min(name.len()))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
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
