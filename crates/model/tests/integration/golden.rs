//! TensorFlow's records of columns, heads, metrics and premade estimators, case by case.
//!
//! Each case is turned into a job file first, so that the test covers the path of a user.
#![expect(
    clippy::unwrap_used,
    reason = "a recorded case that is not as its README says fails the test"
)]

mod batch;
pub(crate) mod canned;
mod columns;
mod feature_columns;
mod heads;
mod metrics;
mod toy;

use trainyard_testing::Golden;

/// Fails with all cases that failed. `counts` is that of [`Golden::assert_counts`].
fn report(golden: &Golden, what: &str, failures: &[String], counts: &[(&str, usize, usize)]) {
    assert!(
        failures.is_empty(),
        "{what}, {} cases failed:\n{}",
        failures.len(),
        failures.join("\n")
    );
    golden.assert_counts(what, counts);
}
