//! The page of metrics against the source, the alerts and the dashboards.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::{assert_none, files, read, root};

/// The cells of a row of the page that are compared with the source.
#[derive(Debug)]
struct Row {
    name: String,
    kind: String,
    daemons: BTreeSet<String>,
    meaning: String,
    alerts: BTreeSet<String>,
    panels: BTreeSet<String>,
}

/// A metric as the source records it.
#[derive(Debug, Default)]
struct Recorded {
    kinds: BTreeSet<String>,
    daemons: BTreeSet<String>,
    described: bool,
}

fn page() -> String {
    read(&root().join("docs").join("metrics.md"))
}

fn list(cell: &str) -> BTreeSet<String> {
    cell.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Every row of the page that begins with a metric.
fn rows() -> Vec<Row> {
    let page = page();
    let lines = page.lines().filter(|line| line.starts_with("| `"));
    lines
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [name, kind, _unit, _labels, daemons, meaning, alerts, panels] = cells[..] else {
                panic!("a row must have 8 cells, given {}: {line}", cells.len());
            };
            Row {
                name: name.trim_matches('`').to_owned(),
                kind: kind.to_owned(),
                daemons: list(daemons),
                meaning: meaning.to_owned(),
                alerts: list(alerts),
                panels: list(panels),
            }
        })
        .collect()
}

/// The daemons that hold a crate: each serves the metrics of all its crates.
fn daemons(folder: &str) -> &'static [&'static str] {
    match folder {
        "chief" => &["chief"],
        "ps" => &["ps"],
        "evaluator" => &["evaluator"],
        "worker" => &["worker"],
        "trainer" => &["chief", "worker"],
        "serving" => &["serving"],
        "runtime" => &["chief", "worker", "ps", "evaluator"],
        "daemon" => &["chief", "worker", "ps", "evaluator", "serving"],
        other => panic!("say which daemons hold the crate {other}, which has metrics"),
    }
}

/// Every metric that the crates record or describe.
fn recorded() -> BTreeMap<String, Recorded> {
    let folder = root().join("crates");
    let mut found: BTreeMap<String, Recorded> = BTreeMap::new();
    for path in files(&folder, ".rs") {
        let relative = path
            .strip_prefix(&folder)
            .expect("a file below crates")
            .to_string_lossy()
            .into_owned();
        let Some((name, _)) = relative.split_once("/src/") else {
            continue;
        };
        let text = read(&path);
        let code = text.split("#[cfg(test)]").next().unwrap_or(&text);
        for kind in ["counter", "gauge", "histogram"] {
            for (at, call) in code.match_indices(&format!("{kind}!(")) {
                let argument = code[at + call.len()..].trim_start();
                let metric = argument
                    .strip_prefix('"')
                    .and_then(|rest| rest.split_once('"'));
                let (metric, _) =
                    metric.unwrap_or_else(|| panic!("{relative}: {kind}! needs a literal name"));
                let entry = found.entry(metric.to_owned()).or_default();
                entry.kinds.insert(kind.to_owned());
                if code[..at].ends_with("describe_") {
                    entry.described = true;
                } else {
                    entry
                        .daemons
                        .extend(daemons(name).iter().map(|daemon| (*daemon).to_owned()));
                }
            }
        }
    }
    found
}

/// The names of metrics in a text, without the endings of a histogram's series.
fn named(text: &str, known: &BTreeMap<String, Recorded>) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_lowercase() && letter != '_');
    let words = words.filter(|word| word.starts_with("trainyard_") || word.starts_with("process_"));
    words
        .map(|word| {
            let series = ["_bucket", "_sum", "_count"]
                .into_iter()
                .find_map(|ending| word.strip_suffix(ending));
            series
                .filter(|name| known.contains_key(*name))
                .unwrap_or(word)
                .to_owned()
        })
        .collect()
}

/// The metrics that each alert asks for.
fn alerts(known: &BTreeMap<String, Recorded>) -> BTreeMap<String, BTreeSet<String>> {
    let rules = read(&root().join("deploy/prometheus/alerts.yml"));
    let rules: BTreeMap<_, _> = rules
        .split("- alert:")
        .skip(1)
        .filter_map(|rule| rule.split_once('\n'))
        .map(|(name, rule)| {
            let question = rule.split("annotations:").next().unwrap_or(rule);
            (name.trim().to_owned(), named(question, known))
        })
        .collect();
    assert!(rules.len() >= 13, "only {} alerts were read", rules.len());
    rules
}

/// The metrics that each panel of the dashboards asks for.
fn panels(known: &BTreeMap<String, Recorded>) -> BTreeMap<String, BTreeSet<String>> {
    let mut found = BTreeMap::new();
    for (name, least) in [("trainyard.json", 15), ("serving.json", 10)] {
        let dashboard = read(&root().join("deploy/grafana").join(name));
        let dashboard: serde_json::Value =
            serde_json::from_str(&dashboard).expect("a dashboard in JSON");
        let panels = dashboard["panels"].as_array().expect("panels");
        let before = found.len();
        found.extend(panels.iter().filter_map(|panel| {
            let title = panel["title"].as_str()?.to_owned();
            Some((title, named(&panel["targets"].to_string(), known)))
        }));
        let more = found.len() - before;
        assert_eq!(more, panels.len(), "{name}: two panels have one title");
        assert!(more >= least, "only {more} panels of {name} were read");
    }
    found
}

/// The keys whose set holds a metric.
fn users(of: &BTreeMap<String, BTreeSet<String>>, metric: &str) -> BTreeSet<String> {
    of.iter()
        .filter(|(_, metrics)| metrics.contains(metric))
        .map(|(user, _)| user.clone())
        .collect()
}

trial!(the_page_of_metrics_lists_those_of_the_source_and_no_others);
fn the_page_of_metrics_lists_those_of_the_source_and_no_others() {
    let known = recorded();
    assert!(
        known.len() >= 50,
        "only {} metrics were found in the source",
        known.len()
    );
    let rows = rows();
    let listed: BTreeSet<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    let mut offenders = Vec::new();
    for name in known.keys().filter(|name| !listed.contains(name.as_str())) {
        offenders.push(format!("{name} is not in docs/metrics.md"));
    }
    for name in listed.iter().filter(|name| !known.contains_key(**name)) {
        offenders.push(format!(
            "{name} is in docs/metrics.md, and no crate records it"
        ));
    }
    if rows.len() != listed.len() {
        offenders.push(format!("{} rows name {} metrics", rows.len(), listed.len()));
    }
    assert_none("metrics", &offenders);
}

trial!(each_row_of_the_page_of_metrics_says_what_the_source_says);
fn each_row_of_the_page_of_metrics_says_what_the_source_says() {
    let known = recorded();
    let alerts = alerts(&known);
    let panels = panels(&known);
    let mut offenders = Vec::new();
    for row in rows() {
        let Some(metric) = known.get(&row.name) else {
            continue;
        };
        if metric.kinds != BTreeSet::from([row.kind.clone()]) {
            offenders.push(format!(
                "{}: type {}, but the source has {:?}",
                row.name, row.kind, metric.kinds
            ));
        }
        if metric.daemons != row.daemons {
            offenders.push(format!(
                "{}: {:?}, but it is of {:?}",
                row.name, row.daemons, metric.daemons
            ));
        }
        let alerting = users(&alerts, &row.name);
        let showing = users(&panels, &row.name);
        if alerting != row.alerts {
            offenders.push(format!(
                "{}: alerts {:?}, but {alerting:?} ask for it",
                row.name, row.alerts
            ));
        }
        if showing != row.panels {
            offenders.push(format!(
                "{}: panels {:?}, but {showing:?} show it",
                row.name, row.panels
            ));
        }
        if !row.meaning.ends_with('.') {
            offenders.push(format!("{}: its meaning is no sentence", row.name));
        }
    }
    assert_none("rows of docs/metrics.md", &offenders);
}

trial!(every_metric_has_a_description_for_prometheus);
fn every_metric_has_a_description_for_prometheus() {
    let mute = recorded()
        .into_iter()
        .filter(|(_, metric)| !metric.described)
        .map(|(name, _)| name);
    assert_none("metrics without describe_", &mute.collect::<Vec<_>>());
}

trial!(documents_alerts_and_dashboards_name_metrics_that_exist);
fn documents_alerts_and_dashboards_name_metrics_that_exist() {
    let known = recorded();
    let root = root();
    let packages: BTreeSet<String> = std::fs::read_dir(root.join("crates"))
        .expect("the crates")
        .filter_map(Result::ok)
        .map(|entry| {
            format!(
                "trainyard_{}",
                entry.file_name().to_string_lossy().replace('-', "_")
            )
        })
        .collect();
    // The changelog tells of metrics that had other names.
    let mut texts = files(&root.join("docs"), ".md");
    texts.retain(|path| !path.ends_with("CHANGELOG.md"));
    texts.extend(files(&root.join("deploy").join("prometheus"), ".yml"));
    texts.extend(files(&root.join("deploy").join("grafana"), ".json"));
    texts.push(root.join("README.md"));
    let mut offenders = Vec::new();
    for path in texts {
        let names = named(&read(&path), &known);
        let ours = names
            .into_iter()
            .filter(|name| name.starts_with("trainyard_"));
        let unknown = ours.filter(|name| !known.contains_key(name) && !packages.contains(name));
        offenders.extend(unknown.map(|name| format!("{}: {name}", path.display())));
    }
    assert_none("names of metrics that no crate records", &offenders);
}
