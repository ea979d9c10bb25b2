//! Samples of a task's admin port, in the text format of Prometheus.

use std::collections::BTreeMap;
use std::time::Duration;

use trainyard_command::http;
use trainyard_diagnostic::{Code, Diagnostic};

/// Timeout of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Values by name. Samples that differ only in their labels are added up. Buckets of histograms are left out.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Samples(BTreeMap<String, f64>);

impl Samples {
    /// Reads a `/metrics` page as our tasks write it: `name value` or `name{labels} value` in a line, without times.
    /// Other lines are comments.
    pub(super) fn parse(page: &str) -> Self {
        let mut samples = BTreeMap::new();
        for line in page.lines() {
            // Labels may hold spaces, so the value follows the last one.
            let Some((series, value)) = line.rsplit_once(' ') else {
                continue;
            };
            let name = series.split('{').next().unwrap_or(series);
            if let Ok(value) = value.parse::<f64>()
                && !name.starts_with('#')
                && !name.ends_with("_bucket")
            {
                *samples.entry(name.to_owned()).or_insert(0.0) += value;
            }
        }
        Self(samples)
    }

    /// Fetches the metrics of an admin port.
    ///
    /// # Errors
    /// The task does not respond.
    pub(super) async fn fetch(address: &str) -> Result<Self, Diagnostic> {
        let page = http::get(address, "/metrics", REQUEST_TIMEOUT)
            .await
            .map_err(|error| {
                let message = format!("metrics of http://{address}/metrics: {error}");
                Diagnostic::error(Code::E2003, message)
            })?;
        Ok(Self::parse(&String::from_utf8_lossy(&page)))
    }

    /// Returns a value, or 0 if the task has not recorded it.
    pub(super) fn get(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or(0.0)
    }

    /// Returns the parts of a training step by name (`input`, `pull`, ...), with the total seconds of each part.
    pub(super) fn step_phases(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().filter_map(|(name, value)| {
            let phase = name
                .strip_prefix("trainyard_step_")?
                .strip_suffix("_seconds_sum")?;
            Some((phase, *value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# HELP trainyard_steps_total Steps applied.\n# TYPE trainyard_steps_total counter\n\
        trainyard_steps_total 42\n\n# TYPE trainyard_step_pull_seconds histogram\n\
        trainyard_step_pull_seconds_bucket{le=\"0.001\"} 40\ntrainyard_step_pull_seconds_bucket{le=\"+Inf\"} 42\n\
        trainyard_step_pull_seconds_sum 0.5\ntrainyard_step_pull_seconds_count 42\n\
        trainyard_dynamic_rows{variable=\"a {b} c\"} 3\ntrainyard_dynamic_rows{variable=\"d\"} 4\n\
        trainyard_loss NaN\n";

    #[test]
    fn samples_are_read_by_name_and_summed_over_labels() {
        let samples = Samples::parse(PAGE);
        assert_eq!(samples.get("trainyard_steps_total"), 42.0);
        assert_eq!(samples.get("trainyard_dynamic_rows"), 7.0);
        assert_eq!(
            samples.get("trainyard_step_pull_seconds_bucket"),
            0.0,
            "buckets are left out"
        );
        assert!(samples.get("trainyard_loss").is_nan());
        assert_eq!(samples.get("never_recorded"), 0.0);
    }

    #[test]
    fn phases_of_a_step_are_found_by_their_names() {
        let samples = Samples::parse(PAGE);
        assert_eq!(samples.step_phases().collect::<Vec<_>>(), [("pull", 0.5)]);
    }
}
