//! The root folder of the container image, as a pod of the shipped manifests has it: read-only, as its user, with volumes for
//! `/tmp`, `/var/tmp` and `/dev/shm`.

use std::path::{Path, PathBuf};
use std::process::Command;

use trainyard_tests::{Program, program, write_job};

use crate::deployment::{LIMIT, deploy, said};
use crate::storage::server::Server;

/// The user of the image.
const USER: &str = "64100:64100";

/// File systems below the root of an image, unmounted with this value.
struct Mounts(Vec<PathBuf>);

impl Mounts {
    fn add(&mut self, arguments: &[&str], at: &Path) {
        let (fine, text) = said(Command::new("mount").args(arguments).arg(at));
        assert!(fine, "{}: {text}", at.display());
        self.0.push(at.to_owned());
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        for at in self.0.drain(..).rev() {
            drop(said(Command::new("umount").arg("--lazy").arg(at)));
        }
    }
}

trial!(the_image_trains_read_only_as_its_user_with_the_model_in_a_folder_and_in_a_bucket, needs Mounts S3);
fn the_image_trains_read_only_as_its_user_with_the_model_in_a_folder_and_in_a_bucket() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let root = folder.path().join("root");
    let script = deploy().join("container/root.sh");
    let mut command = Command::new("sh");
    let (fine, text) = said(command.arg(script).arg(program("trainyard")).arg(&root));
    assert!(fine, "{text}");
    assert!(
        root.join("etc/ssl/certs/ca-certificates.crt").exists(),
        "this machine has certificates: {text}"
    );
    let shared = root.join("srv/trainyard");
    let job = write_job(&shared, 800, "[train]\nmax_steps = 100\n");
    let job = std::fs::read_to_string(job).expect("the job");
    // Paths as the image has them.
    let job = job.replace(&*root.to_string_lossy(), "");
    std::fs::write(
        root.join("etc/trainyard/job.toml"),
        job.replace("\"train.csv\"", "\"/srv/trainyard/train.csv\"")
            .replace("\"eval.csv\"", "\"/srv/trainyard/eval.csv\""),
    )
    .expect("the job is written");
    // A container has these from its runtime.
    for made in ["dev/shm", "proc", "volumes"] {
        std::fs::create_dir_all(root.join(made)).expect("a folder");
    }
    std::fs::write(root.join("dev/null"), "").expect("a place for it");
    let mut mounts = Mounts(Vec::new());
    let bound = root.to_string_lossy().into_owned();
    mounts.add(&["--bind", &bound], &root);
    let (fine, text) = said(
        Command::new("mount")
            .args(["-o", "remount,ro,bind"])
            .arg(&root),
    );
    assert!(fine, "{text}");
    let owned = ["tmp", "var/tmp", "dev/shm", "volumes"];
    for volume in owned {
        let options = "size=256m,mode=1777";
        mounts.add(&["-t", "tmpfs", "-o", options, "tmpfs"], &root.join(volume));
    }
    mounts.add(&["--bind", "/dev/null"], &root.join("dev/null"));
    mounts.add(&["-t", "proc", "proc"], &root.join("proc"));
    let endpoint = format!("http://{}", server.address);
    let environment = [
        ("AWS_ENDPOINT_URL", endpoint.as_str()),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
        ("AWS_ALLOW_HTTP", "true"),
    ];
    let user = format!("--userspec={USER}");
    let inside = root.to_string_lossy();
    for model_dir in ["/volumes/model", "s3://data/jobs/image"] {
        let arguments = [
            &*user,
            &*inside,
            "/usr/bin/trainyard",
            "up",
            "/etc/trainyard/job.toml",
            "--model-dir",
            model_dir,
            "--cluster",
            "local:ps=2,worker=1,evaluator=1",
        ];
        let ended = Program::start("chroot", &arguments, &environment).wait(LIMIT);
        assert_eq!(ended.code, 0, "{model_dir}: {}", ended.output);
        assert!(ended.output.contains("keeping a log"), "{}", ended.output);
    }
    let kept = server.keys("jobs/image/");
    assert!(
        kept.iter()
            .any(|key| key.contains("model.ckpt-100") && key.ends_with("manifest.json")),
        "{kept:?}"
    );
}
