//! Samples of a task's admin port, in the text format of Prometheus.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use trainyard_diagnostic::{Code, Diagnostic};

/// Timeout of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest response, in bytes.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// Values by name. Samples that differ only in their labels are added up. Buckets of histograms are left out.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Samples(BTreeMap<String, f64>);

impl Samples {
    /// Reads the text of a `/metrics` page (Prometheus text exposition format 0.0.4).
    ///
    /// # Errors
    /// Returns the first line that is not `name{labels} value`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut samples = BTreeMap::new();
        for line in text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            let wrong = || line.to_owned();
            // Labels may hold any character but an unescaped quote, so the value follows the last bracket.
            let (name, rest) = match (line.find('{'), line.rfind('}')) {
                (Some(open), Some(close)) if open < close => (&line[..open], &line[close + 1..]),
                _ => line.split_once(char::is_whitespace).ok_or_else(wrong)?,
            };
            if name.is_empty() || name.contains(char::is_whitespace) {
                return Err(wrong());
            }
            // A time stamp may follow the value.
            let value = rest
                .split_whitespace()
                .next()
                .and_then(|value| value.parse::<f64>().ok());
            let value = value.ok_or_else(wrong)?;
            if !name.ends_with("_bucket") {
                *samples.entry(name.to_owned()).or_insert(0.0) += value;
            }
        }
        Ok(Self(samples))
    }

    /// Fetches the metrics of an admin port.
    ///
    /// # Errors
    /// The address refuses the connection, or the response cannot be parsed.
    pub(super) async fn fetch(address: &str) -> Result<Self, Diagnostic> {
        let unread = |what: String| {
            Diagnostic::error(
                Code::E2003,
                format!("metrics of http://{address}/metrics: {what}"),
            )
        };
        let ask = async {
            let mut stream = TcpStream::connect(address).await?;
            // HTTP/1.0 has no chunked responses: the end of the connection ends the response.
            stream
                .write_all(format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())
                .await?;
            let mut answer = String::new();
            stream
                .take(ANSWER_BYTES_MAX)
                .read_to_string(&mut answer)
                .await?;
            Ok::<String, std::io::Error>(answer)
        };
        let answer = tokio::time::timeout(REQUEST_TIMEOUT, ask)
            .await
            .map_err(|_| unread(format!("no answer within {} s", REQUEST_TIMEOUT.as_secs())))?
            .map_err(|error| unread(error.to_string()))?;
        let (head, body) = answer
            .split_once("\r\n\r\n")
            .filter(|(head, _)| head.split_whitespace().nth(1) == Some("200"))
            .ok_or_else(|| {
                unread(format!(
                    "not an answer: {:?}",
                    answer.lines().next().unwrap_or("")
                ))
            })?;
        tracing::trace!(address, head, "metrics");
        Self::parse(body).map_err(|line| unread(format!("not `name value`: {line:?}")))
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
        trainyard_dynamic_rows{variable=\"a {b} c\"} 3 1700000000000\ntrainyard_dynamic_rows{variable=\"d\"} 4\n\
        trainyard_loss NaN\n";

    #[test]
    fn samples_are_read_by_name_and_summed_over_labels() {
        let samples = Samples::parse(PAGE).expect("a page");
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
        let samples = Samples::parse(PAGE).expect("a page");
        assert_eq!(samples.step_phases().collect::<Vec<_>>(), [("pull", 0.5)]);
    }

    #[test]
    fn a_line_without_a_number_is_told() {
        for line in [
            "<html>",
            "steps_total",
            "steps_total many",
            "{le=\"1\"} 2",
            "two words 1",
        ] {
            assert_eq!(Samples::parse(line), Err(line.to_owned()), "{line}");
        }
    }

    #[tokio::test]
    async fn an_answer_that_is_no_page_of_metrics_is_an_error() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let serve = async {
            for answer in [
                "HTTP/1.0 404 Not Found\r\n\r\n",
                "HTTP/1.0 200 OK\r\n\r\nsteps_total 3\n",
            ] {
                let (mut stream, _) = listener.accept().await.expect("a caller");
                let mut request = [0; 512];
                let _ = stream.read(&mut request).await;
                stream
                    .write_all(answer.as_bytes())
                    .await
                    .expect("the caller reads");
            }
        };
        let ask = async {
            let refused = Samples::fetch(&address).await.expect_err("404 is no page");
            assert!(refused.message.contains("404"), "{}", refused.message);
            let samples = Samples::fetch(&address).await.expect("a page");
            assert_eq!(samples.get("steps_total"), 3.0);
        };
        tokio::join!(serve, ask);
    }
}
