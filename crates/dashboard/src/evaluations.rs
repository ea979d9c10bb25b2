//! The evaluator's results, read from the model directory: the chief has no connection to the evaluator.

use std::path::Path;

use serde_json::Value;
use trainyard_model_dir::{Error, read_tail};

/// Bytes that are read from the end of the file.
const TAIL_BYTES: u64 = 256 << 10;
/// Largest number of results that are returned: the latest ones.
const RESULTS_MAX: usize = 256;

/// Returns the latest results of `folder/metrics.jsonl`, oldest first; empty if there is no such file.
///
/// # Errors
/// The file cannot be read.
pub fn evaluations(folder: &Path) -> Result<Vec<Value>, Error> {
    let tail = read_tail(&folder.join("metrics.jsonl"), TAIL_BYTES)?;
    Ok(tail.map_or(Vec::new(), |(bytes, begin)| latest(&bytes, begin)))
}

/// Returns the latest results of a text that begins at byte `begin` of the file.
fn latest(bytes: &[u8], begin: u64) -> Vec<Value> {
    let text = String::from_utf8_lossy(bytes);
    // The first line may have begun earlier, and the last line may be incomplete.
    let lines = text.lines().skip(usize::from(begin > 0));
    let mut results: Vec<Value> = lines
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    results
        .retain(|result: &Value| result["global_step"].is_u64() && result["metrics"].is_object());
    results.drain(..results.len().saturating_sub(RESULTS_MAX));
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_results_are_read_however_long_the_file_and_whatever_else_is_in_it() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(evaluations(folder.path()).expect("none yet").is_empty());
        let mut text = "not JSON\n{\"global_step\": \"nine\"}\n".to_owned();
        for step in 0..5000 {
            text.push_str(&format!(
                "{{\"global_step\": {step}, \"metrics\": {{\"loss\": 0.5, \"a name of some length\": 1}}}}\n"
            ));
        }
        text.push_str("{\"global_step\": 5000, \"met");
        std::fs::write(folder.path().join("metrics.jsonl"), text).expect("written");
        let results = evaluations(folder.path()).expect("read");
        assert_eq!(results.len(), RESULTS_MAX);
        assert_eq!(
            results.last().map(|result| result["global_step"].clone()),
            Some(4999.into())
        );
    }
}
