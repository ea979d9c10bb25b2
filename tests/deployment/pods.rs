//! The pods of manifests: what Kubernetes and the operators of JobSet, Kubeflow Trainer and TFJob make of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use trainyard_tests::Need;

/// The namespace of the pods.
const NAMESPACE: &str = "default";
/// Port of the tasks, by which they are named in `TF_CONFIG`.
const PORT: u16 = 2222;

/// Manifests, as they are written in files.
#[derive(Debug, Clone)]
pub(crate) struct Manifests(Vec<Value>);

/// A pod.
#[derive(Debug, Clone)]
pub(crate) struct Pod {
    /// The task's role in small letters, or the name of the container of a pod that is no task.
    pub(crate) role: String,
    pub(crate) index: usize,
    /// The name by which other pods reach it.
    pub(crate) host: String,
    /// `PodSpec` of Kubernetes.
    spec: Value,
    /// Names of volumes of its own that outlive it.
    claims: Vec<String>,
    /// Variables that an operator adds.
    added: Vec<(String, String)>,
}

/// A mount of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) path: String,
    pub(crate) is_read_only: bool,
    pub(crate) volume: Volume,
}

/// What is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Volume {
    /// The files of a `ConfigMap`.
    Files(String),
    /// A secret.
    Secret(String),
    /// A volume that all pods share, by its claim.
    Shared(String),
    /// A folder of the pod.
    Folder,
    /// A file system in memory of so many bytes; without a limit, of half the machine.
    Memory { bytes_max: Option<u64> },
}

/// A container of a pod, with what matters to the processes in it.
#[derive(Debug, Clone)]
pub(crate) struct Container {
    pub(crate) command: Option<Vec<String>>,
    pub(crate) args: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) mounts: Vec<Mount>,
    pub(crate) is_root_read_only: bool,
    pub(crate) user: Option<u64>,
    pub(crate) group: Option<u64>,
    /// Memory limit in bytes.
    pub(crate) memory_bytes_max: Option<u64>,
}

impl Manifests {
    /// Reads files.
    pub(crate) fn read(files: &[&Path]) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("deployment/manifests.py");
        let mut command = Command::new(Need::KubernetesSchemas.program());
        let output = command.arg(script).args(files).output();
        let output = output.expect("Python starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{files:?}: {said}");
        Self(serde_json::from_slice(&output.stdout).expect("a list of manifests"))
    }

    /// Renders a chart.
    pub(crate) fn render(folder: &Path, chart: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(Need::Helm.program());
        command.args(["template", "census"]).args(arguments);
        let output = command.arg(chart).output().expect("Helm starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}: {said}", chart.display());
        let rendered = folder.join("rendered.yaml");
        std::fs::write(&rendered, output.stdout).expect("the manifests are written");
        Self::read(&[&rendered])
    }

    /// Returns these manifests without the mounts at a path.
    pub(crate) fn without_mounts(&self, path: &str) -> Self {
        fn remove(part: &mut Value, path: &str) {
            match part {
                Value::Object(object) => object.values_mut().for_each(|part| remove(part, path)),
                Value::Array(list) => {
                    list.retain(|part| part["mountPath"] != path);
                    list.iter_mut().for_each(|part| remove(part, path));
                }
                _ => {}
            }
        }
        let mut changed = self.clone();
        changed.0.iter_mut().for_each(|part| remove(part, path));
        changed
    }

    /// Returns the files of a `ConfigMap`.
    pub(crate) fn files(&self, name: &str) -> BTreeMap<String, String> {
        let maps = self.of_kind("ConfigMap");
        let map = maps
            .into_iter()
            .find(|map| map["metadata"]["name"] == name)
            .unwrap_or_else(|| panic!("there is no ConfigMap {name}"));
        let data = map["data"].as_object().expect("files");
        data.iter()
            .map(|(name, text)| (name.clone(), text_of(text)))
            .collect()
    }

    fn of_kind(&self, kind: &str) -> Vec<&Value> {
        self.0.iter().filter(|one| one["kind"] == kind).collect()
    }

    /// Returns the pods that are made of the manifests.
    pub(crate) fn pods(&self) -> Vec<Pod> {
        let mut pods = Vec::new();
        for set in self.of_kind("JobSet") {
            pods.extend(of_jobs(&text_of(&set["metadata"]["name"]), &set["spec"]));
        }
        for job in self.of_kind("TrainJob") {
            let runtimes = self.of_kind("TrainingRuntime");
            let runtime = &job["spec"]["runtimeRef"]["name"];
            let runtime = runtimes
                .into_iter()
                .find(|one| one["metadata"]["name"] == *runtime)
                .expect("the runtime that it names");
            let name = text_of(&job["metadata"]["name"]);
            pods.extend(of_jobs(&name, &runtime["spec"]["template"]["spec"]));
        }
        for job in self.of_kind("TFJob") {
            pods.extend(of_tf_job(job));
        }
        for set in self.of_kind("StatefulSet") {
            let (name, spec) = (text_of(&set["metadata"]["name"]), &set["spec"]);
            let service = text_of(&spec["serviceName"]);
            let claims = spec["volumeClaimTemplates"].as_array();
            let claims = claims.into_iter().flatten();
            let claims: Vec<String> = claims
                .map(|claim| text_of(&claim["metadata"]["name"]))
                .collect();
            for index in 0..number(&spec["replicas"]) {
                let mut pod = Pod::of(&spec["template"]["spec"], index);
                pod.host = format!("{name}-{index}.{service}.{NAMESPACE}.svc");
                pod.claims.clone_from(&claims);
                pods.push(pod);
            }
        }
        for job in self.of_kind("Job") {
            let name = text_of(&job["metadata"]["name"]);
            let spec = &job["spec"]["template"]["spec"];
            let service = text_of(&spec["subdomain"]);
            for index in 0..number(&job["spec"]["completions"]) {
                let mut pod = Pod::of(spec, index);
                pod.host = format!("{name}-{index}.{service}.{NAMESPACE}.svc");
                pods.push(pod);
            }
        }
        for deployment in self.of_kind("Deployment") {
            let name = text_of(&deployment["metadata"]["name"]);
            let spec = &deployment["spec"];
            for index in 0..number(&spec["replicas"]) {
                let mut pod = Pod::of(&spec["template"]["spec"], index);
                // Whoever asks it uses the name of the service.
                pod.host = format!("{name}.{NAMESPACE}.svc");
                pods.push(pod);
            }
        }
        pods
    }
}

/// Returns the pods of a `JobSet`.
fn of_jobs(name: &str, spec: &Value) -> Vec<Pod> {
    let mut pods = Vec::new();
    for job in spec["replicatedJobs"].as_array().expect("jobs") {
        let role = text_of(&job["name"]);
        let job = &job["template"]["spec"];
        for index in 0..number(&job["completions"]) {
            let mut pod = Pod::of(&job["template"]["spec"], index);
            pod.host = format!("{name}-{role}-0-{index}.{name}.{NAMESPACE}.svc");
            pods.push(pod);
        }
    }
    pods
}

/// Returns the pods of a `TFJob`. The operator writes every replica type in lower case, and the evaluator into the cluster.
fn of_tf_job(job: &Value) -> Vec<Pod> {
    let name = text_of(&job["metadata"]["name"]);
    let replicas = job["spec"]["tfReplicaSpecs"].as_object().expect("replicas");
    let host = |role: &str, index: usize| format!("{name}-{role}-{index}.{NAMESPACE}.svc");
    let mut cluster = BTreeMap::new();
    for (role, replica) in replicas {
        let role = role.to_lowercase();
        let hosts = (0..number(&replica["replicas"])).map(|index| host(&role, index));
        let addresses: Vec<String> = hosts.map(|host| format!("{host}:{PORT}")).collect();
        cluster.insert(role, addresses);
    }
    let mut pods = Vec::new();
    for (role, replica) in replicas {
        let role = role.to_lowercase();
        for index in 0..number(&replica["replicas"]) {
            let mut pod = Pod::of(&replica["template"]["spec"], index);
            let task = json!({"type": role, "index": index});
            let config = json!({"cluster": cluster, "task": task, "environment": "cloud"});
            pod.host = host(&role, index);
            pod.role.clone_from(&role);
            pod.added = vec![("TF_CONFIG".to_owned(), config.to_string())];
            pods.push(pod);
        }
    }
    pods
}

impl Pod {
    fn of(spec: &Value, index: usize) -> Self {
        let containers = spec["containers"].as_array().expect("containers");
        assert_eq!(containers.len(), 1, "a pod has one container");
        Self {
            role: text_of(&containers[0]["name"]),
            index,
            host: String::new(),
            spec: spec.clone(),
            claims: Vec::new(),
            added: Vec::new(),
        }
    }

    /// Returns the container of the pod.
    pub(crate) fn container(&self) -> Container {
        let container = &self.spec["containers"][0];
        let mut environment = self.added.clone();
        for variable in container["env"].as_array().into_iter().flatten() {
            let value = match variable["value"].as_str() {
                Some(value) => value.to_owned(),
                None => {
                    let field = text_of(&variable["valueFrom"]["fieldRef"]["fieldPath"]);
                    assert!(field.contains("index"), "{field} is not known here");
                    self.index.to_string()
                }
            };
            environment.push((text_of(&variable["name"]), value));
        }
        let expand = |text: &Value| {
            environment
                .iter()
                .fold(text_of(text), |text, (name, value)| {
                    text.replace(&format!("$({name})"), value)
                })
        };
        let list = |key: &str| {
            let list = container[key].as_array()?;
            Some(list.iter().map(expand).collect::<Vec<String>>())
        };
        let context = |key: &str| {
            let own = &container["securityContext"][key];
            own.as_u64().or(self.spec["securityContext"][key].as_u64())
        };
        let mounts = container["volumeMounts"].as_array().into_iter().flatten();
        Container {
            command: list("command"),
            args: list("args").unwrap_or_default(),
            mounts: mounts.map(|mount| self.mount(mount)).collect(),
            is_root_read_only: container["securityContext"]["readOnlyRootFilesystem"] == true,
            user: context("runAsUser"),
            group: context("runAsGroup"),
            memory_bytes_max: container["resources"]["limits"]["memory"]
                .as_str()
                .map(quantity),
            environment,
        }
    }

    fn mount(&self, mount: &Value) -> Mount {
        let name = text_of(&mount["name"]);
        let volumes = self.spec["volumes"].as_array().into_iter().flatten();
        let volume = volumes.clone().find(|volume| volume["name"] == *name);
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let kind = match volume {
            None if self.claims.contains(&name) => Volume::Folder,
            None => panic!("no volume is named {name}"),
            Some(volume) => {
                let directory = &volume["emptyDir"];
                let files = text(&volume["configMap"]["name"]).map(Volume::Files);
                let secret = text(&volume["secret"]["secretName"]).map(Volume::Secret);
                let shared = text(&volume["persistentVolumeClaim"]["claimName"]);
                let empty = directory.is_object().then(|| match &directory["medium"] {
                    Value::Null => Volume::Folder,
                    _ => Volume::Memory {
                        bytes_max: directory["sizeLimit"].as_str().map(quantity),
                    },
                });
                let kind = files.or(secret).or(shared.map(Volume::Shared)).or(empty);
                kind.unwrap_or_else(|| panic!("{volume} is not known here"))
            }
        };
        Mount {
            path: text_of(&mount["mountPath"]),
            is_read_only: mount["readOnly"] == true,
            volume: kind,
        }
    }
}

fn text_of(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("{value} is no text"))
        .to_owned()
}

fn number(value: &Value) -> usize {
    let number = value.as_u64().and_then(|number| number.try_into().ok());
    number.unwrap_or_else(|| panic!("{value} is no number"))
}

/// Returns the bytes of a quantity of Kubernetes, such as `4Gi`.
fn quantity(text: &str) -> u64 {
    let units = [("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
    let unit = units
        .into_iter()
        .find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, bytes)));
    let (number, bytes) = unit.unwrap_or((text, 1));
    let number: u64 = number.parse().expect("a number of bytes");
    number * bytes
}
