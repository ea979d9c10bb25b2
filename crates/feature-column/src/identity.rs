//! `categorical_column_with_identity`: the number is the id; -1 is missing.

/// Returns the id of a number, nothing where it is missing.
///
/// # Errors
/// Out of range and no default.
pub(crate) fn id(value: i64, buckets: u32, default: Option<u32>) -> Result<Option<u32>, String> {
    match u32::try_from(value) {
        Ok(id) if id < buckets => Ok(Some(id)),
        _ if value == -1 => Ok(None),
        _ => match default {
            Some(default) => Ok(Some(default)),
            None => Err(format!("id must be below {buckets}, given {value}")),
        },
    }
}
