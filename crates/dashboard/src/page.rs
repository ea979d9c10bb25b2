//! The page of a run, and the JSON beneath it. `docs/operations.md` describes every field of `/api/v1`.

use std::borrow::Cow;
use std::path::PathBuf;

use serde_json::{Map, Value, json};
use trainyard_cluster_spec::{Role, Task};
use trainyard_daemon::{Content, Context};
use trainyard_trainer::JobState;

use crate::evaluations::evaluations;
use crate::history_file::{self, short};
use crate::run_history::{Observed, Published, Publishing, Rates, RunHistory, Saved, Server};
use trainyard_coordinator::LocalCoordinator;
use trainyard_coordinator::View;

/// Media type of the API's answers.
const JSON: &str = "application/json";

/// The source of everything that the page shows.
pub struct RunPage {
    coordinator: LocalCoordinator,
    observation: RunHistory,
    facts: Value,
    model_dir: PathBuf,
    max_steps: Option<u64>,
    /// Addresses of the parameter servers.
    addresses: Vec<(Task, String)>,
    evaluators: usize,
    standbys: Vec<(Task, String)>,
}

impl RunPage {
    /// Returns the page of the job of a context.
    pub fn new(context: &Context, coordinator: LocalCoordinator, observation: RunHistory) -> Self {
        let job = &context.job;
        let cluster = &context.cluster;
        let kind = |value: Value| value["kind"].as_str().map(str::to_owned);
        let facts = json!({
            "model": serde_json::to_value(&job.model).ok().and_then(kind),
            "strategy": serde_json::to_value(&job.strategy).ok().and_then(kind),
            "model_dir": job.model_dir.display().to_string(),
            "max_steps": job.train.max_steps,
            "epochs": job.input.train.epochs,
            "batch_size": job.input.train.batch_size,
            "release": trainyard_daemon::VERSION,
            "leads": context.task.to_string(),
            "started_unix_secs": context.started_unix_secs(),
        });
        let evaluated = job.input.eval.is_some();
        // An evaluator without an address of its own may have an admin port.
        let evaluators = cluster
            .admin
            .keys()
            .filter(|task| task.role == Role::Evaluator)
            .count();
        Self {
            coordinator,
            observation,
            facts,
            model_dir: job.model_dir.clone(),
            max_steps: job.train.max_steps,
            addresses: cluster
                .of_role(Role::Ps)
                .map(|(task, address)| (task, address.to_owned()))
                .collect(),
            evaluators: if evaluated {
                evaluators.max(cluster.evaluators)
            } else {
                0
            },
            standbys: cluster
                .standbys
                .iter()
                .map(|(task, address)| (*task, address.clone()))
                .collect(),
        }
    }

    /// Returns the content of a path, if there is any.
    pub fn answer(&self, path: &str) -> Option<Content> {
        let file = |media_type, text: &'static str| {
            Some(Content {
                media_type,
                body: Cow::Borrowed(text.as_bytes()),
            })
        };
        let json = |value: &Value| {
            Some(Content {
                media_type: JSON,
                body: Cow::Owned(value.to_string().into_bytes()),
            })
        };
        match path {
            "/" => file("text/html; charset=utf-8", include_str!("page/index.html")),
            "/page.css" => file("text/css; charset=utf-8", include_str!("page/page.css")),
            "/page.js" => file(
                "text/javascript; charset=utf-8",
                include_str!("page/page.js"),
            ),
            "/api/v1/run" => json(&self.run()),
            "/api/v1/history" => json(&history_file::to_json(&self.observation.curves())),
            "/api/v1/evaluations" => json(&self.evaluations()),
            _ => None,
        }
    }

    fn run(&self) -> Value {
        let seen = self.observation.observed();
        let (state, waiting_for, epoch, views, active) =
            self.coordinator.with(|membership, now| {
                (
                    membership.state(),
                    membership.waiting_for().to_vec(),
                    membership.epoch(),
                    membership.view(now),
                    membership.active(),
                )
            });
        let (state, waiting_for) = headline(state, waiting_for, &seen.servers, active);
        let Rates {
            steps_per_second, ..
        } = seen.latest;
        let left = self
            .max_steps
            .map(|most| most.saturating_sub(seen.global_step) as f64);
        let eta = left
            .filter(|_| steps_per_second > 0.0)
            .map(|left| left / steps_per_second);
        let mut run = json!({
            "job": self.facts,
            "state": state,
            "waiting_for": waiting_for,
            "epoch": epoch,
            "unix_secs": self.observation.clock.unix_secs(),
            "global_step": seen.global_step,
            "seconds_left": eta.map(f64::ceil),
            "tasks": self.tasks(&seen, views),
            "checkpoints": checkpoints(&seen),
            "checkpoint_failures": seen.failures,
            "published": published(&seen.publishing),
        });
        if let (Value::Object(run), Value::Object(rates)) = (&mut run, rates(&seen.latest)) {
            run.extend(rates);
        }
        run
    }

    fn tasks(&self, seen: &Observed, views: Vec<View>) -> Vec<Value> {
        let trains = views.into_iter().map(|view| {
            let mut out = json!({
                "task": view.task.to_string(),
                "role": view.task.role,
                "state": view.state,
                "reason": view.reason,
                "address": view.address,
                "process_id": view.process_id,
                "silent_seconds": short(view.silence.as_secs_f64()),
                "steps": view.steps,
                "examples": view.examples,
                "last_loss": view.loss,
            });
            let known = seen.rates.get(&view.task).copied().unwrap_or(Rates::NONE);
            if let (Value::Object(out), Value::Object(rates)) = (&mut out, rates(&known)) {
                out.extend(rates);
            }
            out
        });
        let server = |server: &Server| {
            let address = self
                .addresses
                .iter()
                .find(|(task, _)| task.to_string() == server.name);
            json!({
                "task": server.name,
                "role": Role::Ps,
                "state": server.state,
                "reason": server.reason,
                "address": address.map(|(_, address)| address),
                "updates": server.version,
                "value_bytes": server.value_bytes,
            })
        };
        let servers = seen.servers.iter().map(server);
        let standbys = self.standbys.iter().map(|(task, address)| {
            json!({"task": task.to_string(), "role": Role::Chief, "state": "unknown", "address": address,
                   "reason": "standby chief; the leading chief does not poll it"})
        });
        let evaluators = (0..self.evaluators).map(|index| {
            let task = Task {
                role: Role::Evaluator,
                index,
            };
            json!({"task": task.to_string(), "role": Role::Evaluator, "state": "unknown",
                   "reason": "does not train; the chief knows only its results"})
        });
        trains
            .chain(servers)
            .chain(standbys)
            .chain(evaluators)
            .collect()
    }

    fn evaluations(&self) -> Value {
        let mut out = Map::new();
        for (name, folder) in [("eval", "eval"), ("eval_train", "eval_train")] {
            match evaluations(&self.model_dir.join(folder)) {
                Ok(results) => drop(out.insert(name.to_owned(), results.into())),
                Err(error) => {
                    drop(out.insert(
                        "error".to_owned(),
                        format!("{folder}/metrics.jsonl: {error}").into(),
                    ));
                }
            }
        }
        Value::Object(out)
    }
}

/// Returns the state of the job in a word, and the names that the job waits for. An open job does not train while a
/// server is silent or no task trains.
fn headline(
    state: JobState,
    waiting_for: Vec<String>,
    servers: &[Server],
    active: usize,
) -> (&'static str, Vec<String>) {
    match state {
        JobState::Waiting => ("waiting", waiting_for),
        JobState::Training => match missing(servers, active) {
            missing if missing.is_empty() => ("training", missing),
            missing => ("waiting", missing),
        },
        JobState::Done => ("done", waiting_for),
        JobState::Failed => ("failed", waiting_for),
    }
}

/// Returns the names that an open job waits for.
pub fn missing(servers: &[Server], active: usize) -> Vec<String> {
    let silent = servers.iter().filter(|server| server.state == "silent");
    let mut missing: Vec<String> = silent.map(|server| server.name.clone()).collect();
    if active == 0 {
        missing.push("a worker".to_owned());
    }
    missing
}

fn checkpoints(seen: &Observed) -> Vec<Value> {
    let one = |saved: &Saved| {
        json!({
            "step": saved.step, "unix_secs": saved.unix_secs, "bytes": saved.bytes,
            "seconds": saved.seconds.and_then(short),
        })
    };
    seen.saved.iter().map(one).collect()
}

/// Returns the published cuts; nothing if there is none.
fn published(publishing: &Publishing) -> Option<Value> {
    let one =
        |cut: &Published| json!({"step": cut.step, "unix_secs": cut.unix_secs, "bytes": cut.bytes});
    let latest = publishing.latest.as_ref().map(one)?;
    let base = publishing.base.as_ref().map(one);
    Some(json!({"cuts": publishing.cuts, "latest": latest, "base": base}))
}

fn rates(rates: &Rates) -> Value {
    json!({
        "steps_per_second": short(rates.steps_per_second),
        "examples_per_second": short(rates.examples_per_second),
        "loss": short(rates.loss),
        "staleness_steps": short(rates.staleness_steps),
        "input_ms": short(rates.input_ms),
        "exchange_ms": short(rates.exchange_ms),
        "compute_ms": short(rates.compute_ms),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_job_waits_for_servers_that_are_silent_and_for_somebody_who_trains() {
        let server = |name: &str, state| {
            let name = name.to_owned();
            let reason = None;
            Server {
                name,
                state,
                reason,
                version: 0,
                value_bytes: 0,
            }
        };
        let [all, one] = [["ready", "ready"], ["ready", "silent"]]
            .map(|states| [server("ps:0", states[0]), server("ps:1", states[1])]);
        let open =
            |servers: &[Server], active| headline(JobState::Training, Vec::new(), servers, active);
        assert_eq!(open(&all, 2), ("training", Vec::new()));
        assert_eq!(open(&one, 2), ("waiting", vec!["ps:1".to_owned()]));
        assert_eq!(
            open(&one, 0),
            ("waiting", vec!["ps:1".to_owned(), "a worker".to_owned()])
        );
        let before = vec!["worker:0".to_owned()];
        assert_eq!(
            headline(JobState::Waiting, before.clone(), &one, 0),
            ("waiting", before)
        );
        assert_eq!(
            headline(JobState::Done, Vec::new(), &one, 0),
            ("done", Vec::new())
        );
    }

    #[test]
    fn the_page_loads_nothing_from_elsewhere_and_puts_no_text_in_as_markup() {
        let all = [
            include_str!("page/index.html"),
            include_str!("page/page.css"),
            include_str!("page/page.js"),
        ];
        for text in all {
            let elsewhere = text.replace("http://www.w3.org/2000/svg", "");
            for word in [
                "http://",
                "https://",
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
            ] {
                assert!(!elsewhere.contains(word), "{word}");
            }
        }
        // The content security policy forbids inline styles and scripts.
        assert!(
            !all[0].contains("style=")
                && !all[0].contains("<script>")
                && !all[0].contains("onclick")
        );
    }
}
