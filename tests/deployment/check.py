"""Checks manifests against the schemas of their kinds, and what they start against the program.

    check.py PROGRAM FILE...

Kubernetes' own kinds are checked by kubernetes-validate, those of JobSet and Kubeflow Trainer by the models of
kubeflow-trainer-api: what a model does not know is lost on the way through it. Says what is wrong, one line each.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import kubernetes_validate
import yaml
from kubeflow_trainer_api import models

VERSION = "1.31"
MODELS = {
    "JobSet": models.JobsetV1alpha2JobSet,
    "TrainingRuntime": models.TrainerV1alpha1TrainingRuntime,
    "TrainJob": models.TrainerV1alpha1TrainJob,
}
# Keys of kubeflow.org/v1, of which there is no schema: https://www.kubeflow.org/docs/components/trainer/legacy-v1/.
TFJOB = {"successPolicy", "runPolicy", "tfReplicaSpecs", "enableDynamicWorker"}
REPLICAS = {"replicas", "restartPolicy", "template"}


def lost(given, kept, path=""):
    """Yields what is in `given` and not in `kept`."""
    if isinstance(given, dict):
        for key, value in given.items():
            if not isinstance(kept, dict) or key not in kept:
                yield f"{path}.{key} is no key of its kind"
            else:
                yield from lost(value, kept[key], f"{path}.{key}")
    elif isinstance(given, list):
        if not isinstance(kept, list) or len(kept) != len(given):
            yield f"{path} is not kept"
        else:
            for index, value in enumerate(given):
                yield from lost(value, kept[index], f"{path}[{index}]")


def check(manifest):
    """Yields what is wrong with a manifest."""
    kind, version, spec = manifest["kind"], manifest["apiVersion"], manifest.get("spec")
    metadata = {"name": "name"}
    if kind in MODELS:
        try:
            yield from lost(manifest, MODELS[kind].from_dict(manifest).to_dict(), kind)
        except ValueError as error:
            yield f"{kind}: {error}"
        jobs = spec if kind == "JobSet" else spec.get("template", {}).get("spec", {})
        for job in jobs.get("replicatedJobs", []):
            spec = job["template"]["spec"]
            yield from check({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})
    elif kind == "TFJob":
        yield from (f"TFJob: {key} is no key of its kind" for key in spec.keys() - TFJOB)
        for role, replica in spec["tfReplicaSpecs"].items():
            yield from (f"TFJob.{role}: {key} is no key of its kind" for key in replica.keys() - REPLICAS)
            if "tensorflow" not in [container["name"] for container in replica["template"]["spec"]["containers"]]:
                yield f"TFJob.{role}: no container is named tensorflow"
            pod = replica["template"]["spec"]
            # The operator sets the pod's own policy.
            yield from check({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod})
    else:
        try:
            kubernetes_validate.validate(manifest, VERSION, strict=True)
        except kubernetes_validate.ValidationError as error:
            yield f"{kind} of {version}: {error.message}"


def containers(part):
    """Yields every container below a part of a manifest."""
    if isinstance(part, dict):
        yield from part.get("containers") or []
        for value in part.values():
            yield from containers(value)
    elif isinstance(part, list):
        for value in part:
            yield from containers(value)


def starts(program, manifest):
    """Yields what the program does not take of the arguments that a manifest gives it."""
    for container in containers(manifest):
        arguments = [argument.replace("$(INDEX)", "0") for argument in container["args"]]
        # Arguments in front of it are read first: the help comes only where each of them is known.
        ended = subprocess.run([program, *arguments, "--help"], capture_output=True, text=True, timeout=60)
        if ended.returncode != 0:
            yield f"arguments of {container['name']}: {ended.stderr.strip()}"


def cluster(program, manifest):
    """Yields what is wrong with the cluster file of a manifest."""
    text = manifest.get("data", {}).get("cluster.toml")
    if text is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "cluster.toml")
        path.write_text(text)
        command = [program, "deploy", "render", "--cluster", path, "--out", Path(folder, "hosts")]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
        if ended.returncode != 0:
            yield f"cluster.toml: {ended.stderr.strip()}"


def main(program, files):
    problems = 0
    for file in files:
        manifests = [manifest for manifest in yaml.safe_load_all(Path(file).read_text()) if manifest]
        for manifest in manifests:
            for problem in [*check(manifest), *starts(program, manifest), *cluster(program, manifest)]:
                problems += 1
                print(f"{file}: {problem}")
        kinds = ", ".join(manifest["kind"] for manifest in manifests)
        print(f"{Path(file).name}: looked at {kinds}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
