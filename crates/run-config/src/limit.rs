//! Limits of keys: what the name in one key of a section, such as its kind, means for another key.

/// What some names of a deciding key mean for another key of the section. The reader reports mistakes by the same
/// predicates; the schema comes from the limits.
#[derive(Debug)]
pub(crate) struct Limit {
    /// The key.
    pub(crate) key: &'static str,
    /// The key that decides, which takes a name.
    pub(crate) by: &'static str,
    /// What the names mean for the key.
    pub(crate) effect: Effect,
    /// Names that have the effect.
    pub(crate) names: Vec<&'static str>,
}

/// Effect of a name on another key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The section must have the key.
    Required,
    /// The section must not have the key, which would do nothing.
    Refused,
}

/// A key, and whether it has meaning for a value of the deciding key.
pub(crate) type OfSome<T> = (&'static str, fn(T) -> bool);

/// Returns the limits of keys that have meaning for some names only.
pub(crate) fn of_some<T: Copy>(
    by: &'static str,
    names: &[(&'static str, T)],
    keys: &[OfSome<T>],
) -> Vec<Limit> {
    let limit = |(key, has_meaning): &OfSome<T>| Limit {
        key,
        by,
        effect: Effect::Refused,
        names: names_where(names, |value| !has_meaning(value)),
    };
    keys.iter().map(limit).collect()
}

/// Returns the limits of keys that some names require.
pub(crate) fn required_by<T: Copy>(
    by: &'static str,
    names: &[(&'static str, T)],
    keys: &[OfSome<T>],
) -> Vec<Limit> {
    let limit = |(key, is_required): &OfSome<T>| Limit {
        key,
        by,
        effect: Effect::Required,
        names: names_where(names, is_required),
    };
    keys.iter().map(limit).collect()
}

fn names_where<T: Copy>(
    names: &[(&'static str, T)],
    holds: impl Fn(T) -> bool,
) -> Vec<&'static str> {
    let names = names.iter().filter(|(_, value)| holds(*value));
    names.map(|(name, _)| *name).collect()
}
