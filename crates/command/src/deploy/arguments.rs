//! The command line of deployment.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Deploy {
    /// Writes the files by which systemd starts the tasks of each host, one folder per host.
    #[command(long_about = RENDER)]
    Render(Render),
}

/// Long help of `deploy render`.
const RENDER: &str = "Writes the files by which systemd starts each host's tasks, one folder a host.

A host is what stands before the port of an address in the cluster file. DIR/HOST holds what goes to `/` there: the \
cluster file (and the job file, if it is given) in etc/trainyard, and in etc/systemd/system which units `trainyard.target` \
starts. The units themselves come with the packages.

  trainyard deploy render --cluster cluster.toml --job job.toml --out hosts
  rsync -rl hosts/ps-0.example/ root@ps-0.example:/
  ssh root@ps-0.example 'systemctl daemon-reload && systemctl enable --now trainyard.target'";

#[derive(Debug, Args)]
pub(crate) struct Render {
    /// The cluster file.
    #[arg(long, value_name = "CLUSTER.toml")]
    pub(crate) cluster: PathBuf,
    /// The job file. The units may then write to its model_dir, which must exist, and wait until it is mounted.
    #[arg(long, value_name = "JOB.toml")]
    pub(crate) job: Option<PathBuf>,
    /// Writes the folder of this host only.
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,
    /// Folder for the output; it must be new or empty.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}
