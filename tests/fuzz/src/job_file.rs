//! Job files.

use std::path::Path;

use trainyard_run_config::Job;

/// Parses a job file with changes from the command line.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    // The last lines may be changes from the command line.
    let (text, set) = text.split_once("\n--set ").unwrap_or((text, ""));
    let set: Vec<String> = set
        .lines()
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect();
    if let Err(problems) = Job::parse(Path::new("job.toml"), text, &set) {
        assert!(!problems.is_empty());
        problems.iter().for_each(|problem| drop(problem.render()));
    }
}
