//! Errors: hyper-parameters that are out of range.

/// A hyper-parameter that is out of range.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{name} must be {rule}, given {given}")]
pub struct Error {
    /// The hyper-parameter.
    pub name: &'static str,
    /// Its range.
    pub rule: &'static str,
    /// The value.
    pub given: f32,
}

/// Returns an error unless the rule `holds`.
pub(crate) fn require(
    holds: bool,
    name: &'static str,
    rule: &'static str,
    given: f32,
) -> Result<(), Error> {
    if holds {
        Ok(())
    } else {
        Err(Error { name, rule, given })
    }
}

/// Checks that `given` is finite and at least 0.
pub(crate) fn not_negative(name: &'static str, given: f32) -> Result<(), Error> {
    require(given >= 0.0 && given.is_finite(), name, ">= 0", given)
}

/// Checks that `given` is finite and above 0.
pub(crate) fn positive(name: &'static str, given: f32) -> Result<(), Error> {
    require(given > 0.0 && given.is_finite(), name, "> 0", given)
}

/// Checks that `given` is at least 0 and below 1.
pub(crate) fn fraction(name: &'static str, given: f32) -> Result<(), Error> {
    require((0.0..1.0).contains(&given), name, "in [0, 1)", given)
}
