//! The cluster file: `[cluster]` and `[admin]`, each with a list of addresses per role, and `[security]`.

use std::collections::BTreeMap;
use std::path::Path;

use trainyard_diagnostic::{Code, Diagnostic, Document, Place, Problems, Section};

use crate::spec::check_address;
use crate::{ClusterSpec, CredentialFiles, Role, Task};

impl ClusterSpec {
    /// Reads a cluster file.
    ///
    /// # Errors
    /// All mistakes in the file.
    pub fn load(path: &Path) -> Result<Self, Vec<Diagnostic>> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            let message = format!("cluster file {} cannot be read: {error}", path.display());
            vec![
                Diagnostic::error(Code::E1201, message)
                    .help("give the path of a cluster file, or local:ps=1,worker=1"),
            ]
        })?;
        Self::from_toml(path, &text)
    }

    /// Parses the text of a cluster file. `path` is for messages.
    ///
    /// # Errors
    /// All mistakes in the file.
    pub fn from_toml(path: &Path, text: &str) -> Result<Self, Vec<Diagnostic>> {
        let document = Document::parse(path, text)?;
        let problems = Problems::default();
        let place = Place::Named(path.display().to_string());
        let root = Section::new("", &document.root, Some(place), &problems);
        let mut tasks = BTreeMap::new();
        match root.section("cluster") {
            Some(section) => read(section, &mut tasks),
            None if root.node("cluster").is_none() => {
                root.missing_section("cluster", "[cluster]", "chief = [\"host:2222\"]");
            }
            None => {}
        }
        let mut admin = BTreeMap::new();
        if let Some(section) = root.section("admin") {
            read(section, &mut admin);
        }
        let mut credentials = CredentialFiles::default();
        if let Some(section) = root.section("security") {
            credentials.tls_dir = section.text("tls_dir");
            credentials.token_file = section.text("token_file");
            section.refuse_shell_part("tls_dir", &credentials.tls_dir);
            section.refuse_shell_part("token_file", &credentials.token_file);
            credentials.insecure_no_auth = section.flag("insecure_no_auth").unwrap_or(false);
            section.finish();
        }
        let evaluator = |task: &Task| task.role == Role::Evaluator;
        let evaluator_addresses: Vec<String> = tasks
            .iter()
            .filter(|(task, _)| evaluator(task))
            .map(|(_, address)| address.clone())
            .collect();
        let evaluators = evaluator_addresses.len();
        tasks.retain(|task, _| task.role != Role::Evaluator);
        if tasks.keys().all(|task| task.role != Role::Chief) && root.node("cluster").is_some() {
            root.fail(
                Code::E1007,
                "cluster",
                "the cluster must have a chief, given none".to_owned(),
            );
        }
        let waits = |task: &Task| task.role == Role::Chief && task.index > 0;
        let standbys: BTreeMap<Task, String> = tasks
            .iter()
            .filter(|(task, _)| waits(task))
            .map(|(task, text)| (*task, text.clone()))
            .collect();
        tasks.retain(|task, _| !waits(task));
        let socket = |address: &&String| address.starts_with("unix:");
        let chief = tasks.get(&Task {
            role: Role::Chief,
            index: 0,
        });
        if let Some(file) = chief
            .into_iter()
            .chain(standbys.values())
            .find(socket)
            .filter(|_| !standbys.is_empty())
        {
            let message =
                format!("chiefs that stand by for one another must be host:port, given `{file}`");
            root.fail(Code::E1007, "cluster", message);
        }
        root.finish();
        let found = problems.into_vec();
        if found.is_empty() {
            Ok(Self {
                tasks,
                admin,
                standbys,
                evaluators,
                evaluator_addresses,
                credentials,
            })
        } else {
            Err(found)
        }
    }
}

fn read(section: Section<'_>, tasks: &mut BTreeMap<Task, String>) {
    for role in Role::ALL {
        let name = role.as_str();
        for (index, address) in section
            .texts(name)
            .unwrap_or_default()
            .into_iter()
            .enumerate()
        {
            let task = Task { role, index };
            if let Err(rule) = check_address(&address) {
                section.fail(
                    Code::E1007,
                    name,
                    format!("address of {task} {rule}, given `{address}`"),
                );
            }
            let taken = tasks
                .iter()
                .find(|(_, other)| **other == address && !address.ends_with(":0"));
            if let Some((other, _)) = taken {
                section.fail(
                    Code::E1007,
                    name,
                    format!("address of {task} must be its own, {address} is {other}'s"),
                );
            }
            tasks.insert(task, address);
        }
    }
    section.finish();
}
