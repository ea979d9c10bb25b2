//! A real Prometheus scrapes a running cluster, answers what the dashboard asks, and takes the alert rules.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::Value;
use trainyard_tests::{Need, Program, free_ports, get};

use crate::observability::running::Running;
use crate::observability::{LIMIT, POLL_INTERVAL, repository};

/// A dashboard.
fn dashboard(name: &str) -> Value {
    let path = repository().join("deploy/grafana").join(name);
    let text = std::fs::read(path).expect("a dashboard");
    serde_json::from_slice(&text).expect("JSON")
}

/// Every query of a dashboard, with its panel, as Grafana would ask it of a job named `trainyard`.
fn queries(name: &str) -> Vec<(String, String)> {
    let dashboard = dashboard(name);
    let mut out = Vec::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        let title = panel["title"].as_str().expect("a title");
        for target in panel["targets"].as_array().expect("targets") {
            let query = target["expr"].as_str().expect("a query");
            let query = query
                .replace("$job", "trainyard")
                .replace("$__rate_interval", "10s");
            assert!(!query.contains('$'), "{title}: {query}");
            out.push((title.to_owned(), query));
        }
    }
    out
}

/// A query as part of an address.
fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

/// A Prometheus that scrapes some tasks each second.
pub(crate) struct Prometheus {
    _program: Program,
    address: String,
}

impl Prometheus {
    fn start(program: &Path, folder: &Path, tasks: &[(String, String)]) -> Self {
        let rules = repository().join("deploy/prometheus/alerts.yml");
        Self::start_with(program, folder, tasks, &rules)
    }

    /// Starts one with other rules.
    pub(crate) fn start_with(
        program: &Path,
        folder: &Path,
        tasks: &[(String, String)],
        rules: &Path,
    ) -> Self {
        let targets = tasks.iter().map(|(task, address)| {
            format!("      - targets: [\"{address}\"]\n        labels: {{ task: \"{task}\" }}\n")
        });
        let config = format!(
            "global: {{ scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }}\nrule_files: [\"{}\"]\nscrape_configs:\n  - job_name: trainyard\n    static_configs:\n{}",
            rules.display(),
            targets.collect::<String>()
        );
        let path = folder.join("prometheus.yml");
        std::fs::write(&path, config).expect("written");
        let address = format!("127.0.0.1:{}", free_ports(1)[0]);
        let arguments = [
            format!("--config.file={}", path.display()),
            format!("--storage.tsdb.path={}", folder.join("tsdb").display()),
            format!("--web.listen-address={address}"),
            "--log.level=warn".to_owned(),
        ];
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let program = Program::start(&program.to_string_lossy(), &arguments, &[]);
        Self {
            _program: program,
            address,
        }
    }

    fn get(&self, path: &str) -> Option<Value> {
        let (head, body) = get(&self.address, path, LIMIT)?;
        let value: Value = serde_json::from_str(&body).ok()?;
        assert!(value["status"] == "success", "{path}: {head}\n{body}");
        Some(value["data"].clone())
    }

    /// Finite values that a query gives now.
    fn query(&self, query: &str) -> Vec<f64> {
        let answer = self
            .get(&format!("/api/v1/query?query={}", escaped(query)))
            .unwrap_or_default();
        let samples = answer["result"].as_array().cloned().unwrap_or_default();
        let value = |sample: &Value| {
            sample["value"][1]
                .as_str()
                .and_then(|text| text.parse::<f64>().ok())
        };
        samples
            .iter()
            .filter_map(value)
            .filter(|value| value.is_finite())
            .collect()
    }

    /// Waits until the values of a query are as wanted, and returns them.
    pub(crate) fn wait_for(&self, query: &str, holds: impl Fn(&[f64]) -> bool) -> Vec<f64> {
        let begun = Instant::now();
        loop {
            let values = self.query(query);
            if holds(&values) {
                return values;
            }
            assert!(begun.elapsed() < LIMIT, "{query}: {values:?}");
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Prometheus {
    /// Whether an alert fires; of a task, if one is named.
    fn is_firing(&self, alert: &str, task: Option<&str>) -> bool {
        let alerts = self.get("/api/v1/alerts").unwrap_or_default();
        let alerts = alerts["alerts"].as_array().cloned().unwrap_or_default();
        alerts.iter().any(|found| {
            let labels = &found["labels"];
            found["state"] == "firing"
                && labels["alertname"] == alert
                && task.is_none_or(|task| labels["task"] == task)
        })
    }

    /// Waits until an alert fires.
    pub(crate) fn wait_for_alert(&self, alert: &str, task: Option<&str>) {
        let begun = Instant::now();
        while !self.is_firing(alert, task) {
            assert!(begun.elapsed() < LIMIT, "{alert} of {task:?} does not fire");
            std::thread::sleep(POLL_INTERVAL);
        }
        println!("{alert} after {:?}", begun.elapsed());
    }

    /// Waits until an alert does not fire.
    pub(crate) fn wait_for_no_alert(&self, alert: &str) {
        let begun = Instant::now();
        while self.is_firing(alert, None) {
            assert!(begun.elapsed() < LIMIT, "{alert} goes on firing");
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Returns the rules, once each of them has been evaluated.
    fn evaluated_rules(&self) -> Vec<Value> {
        let begun = Instant::now();
        loop {
            let rules = self.get("/api/v1/rules").expect("rules");
            let rules = rules["groups"][0]["rules"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            if !rules.is_empty() && rules.iter().all(|rule| rule["health"] != "unknown") {
                return rules;
            }
            assert!(begun.elapsed() < LIMIT, "not evaluated: {rules:?}");
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

trial!(a_prometheus_scrapes_every_task_and_every_panel_of_the_dashboard_has_data, needs Prometheus);
fn a_prometheus_scrapes_every_task_and_every_panel_of_the_dashboard_has_data() {
    let program = Need::Prometheus.program();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let running = Running::start(folder.path(), "model");
    let tasks = running.cluster.admin.iter();
    let tasks: Vec<(String, String)> = tasks
        .map(|(task, address)| (task.to_string(), address.clone()))
        .collect();
    let prometheus = Prometheus::start(&program, folder.path(), &tasks);
    let tasks = tasks.len() as f64;
    prometheus.wait_for("sum(up{job=\"trainyard\"})", |up| up == [tasks]);
    // Counters that are there before their first event: `increase()` would miss it otherwise.
    for counter in [
        "trainyard_calls_refused_total",
        "trainyard_connections_refused_total",
    ] {
        prometheus.wait_for(&format!("count({counter} == 0)"), |found| found == [tasks]);
    }
    // The steps of all tasks are those of the job.
    let rate = "sum(rate(trainyard_steps_total[10s]))";
    let steps = prometheus.wait_for(rate, |rates| rates.iter().any(|rate| *rate > 0.0))[0];
    let shown = prometheus.wait_for("max(trainyard_global_steps_per_second)", |rates| {
        !rates.is_empty()
    })[0];
    println!("steps per second: {steps} scraped, {shown} shown by the chief");
    let queries = queries("trainyard.json");
    assert!(queries.len() > 20, "{} queries", queries.len());
    for (panel, query) in &queries {
        let values = prometheus.wait_for(query, |values| !values.is_empty());
        println!("{panel}: {query}: {values:?}");
    }
    // Rules that cannot be evaluated would never warn.
    let rules = prometheus.evaluated_rules();
    assert!(rules.len() >= 13, "{rules:?}");
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
        // Rates are over minutes, and this cluster is young: none may find it ill.
        assert!(rule["state"] != "firing", "{rule}");
    }
    running.stop();
}

trial!(every_panel_of_the_dashboard_for_serving_has_data, needs Prometheus);
fn every_panel_of_the_dashboard_for_serving_has_data() {
    let program = Need::Prometheus.program();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = crate::serving::trained(folder.path(), 20);
    let mut server = crate::serving::Server::start(&[&job]);
    server.wait_for_version("job", 20);
    let admin = server.program.admin_address(LIMIT);
    let task = ("serving".to_owned(), admin);
    let prometheus = Prometheus::start(&program, folder.path(), &[task]);
    let queries = queries("serving.json");
    assert!(queries.len() > 12, "{} queries", queries.len());
    let row = r#"{"instances": [{"x": 0.5, "z": -1, "word": "w1"}]}"#;
    for (panel, query) in &queries {
        let values = prometheus.wait_for(query, |values| {
            let (status, told) =
                crate::serving::client::post(&server.address, "/v1/models/job:predict", row);
            assert_eq!(status, 200, "{told}");
            !values.is_empty()
        });
        println!("{panel}: {query}: {values:?}");
    }
}

trial!(alerts_are_raised_by_what_they_are_for_and_by_nothing_else, needs Promtool);
fn alerts_are_raised_by_what_they_are_for_and_by_nothing_else() {
    let promtool = Need::Promtool.program();
    let folder = repository().join("deploy/prometheus");
    for arguments in [
        ["check", "config", "prometheus.yml"],
        ["check", "rules", "alerts.yml"],
        ["test", "rules", "alerts_test.yml"],
    ] {
        let output = Command::new(&promtool)
            .args(arguments)
            .current_dir(&folder)
            .output()
            .expect("it runs");
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{arguments:?}: {text}");
    }
}

trial!(every_alert_is_tried_and_has_a_section_that_says_what_to_do);
fn every_alert_is_tried_and_has_a_section_that_says_what_to_do() {
    let read = |path: &str| std::fs::read_to_string(repository().join(path)).expect("it is there");
    let rules = read("deploy/prometheus/alerts.yml");
    let tried = read("deploy/prometheus/alerts_test.yml");
    let pages = read("docs/operations.md");
    let names: Vec<&str> = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
        .collect();
    assert!(names.len() >= 13, "{names:?}");
    for name in names {
        assert!(
            tried.contains(&format!("alertname: {name}\n")),
            "{name} is not tried"
        );
        assert!(
            pages.contains(&format!("\n### {name}\n")),
            "{name} has no section in docs/operations.md"
        );
        let url = format!(
            "runbook_url: \"docs/operations.md#{}\"",
            name.to_lowercase()
        );
        assert!(rules.contains(&url), "{url}");
    }
}
