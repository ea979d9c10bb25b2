//! `trainyard pki`: certificates, or tokens, for the tasks of a cluster and for a server of predictions.

use std::fmt::Write as _;
use std::fs::DirBuilder;
use std::io::{Error, ErrorKind, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::Args;
use trainyard_cluster_spec::{ClusterSpec, Role};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_security::{Authority, CERTIFICATE_FILE, Identity, Issued, KEY_FILE, ROOTS_FILE};
use trainyard_storage::{ResultFile, unwritten};

use crate::output::print;

#[derive(Debug, Args)]
pub(crate) struct Pki {
    /// The cluster file. Each task gets a certificate for its host.
    #[arg(long, value_name = "CLUSTER.toml", required_unless_present = "serving")]
    pub(crate) cluster: Option<PathBuf>,
    /// Host of a server of predictions, which gets a certificate, as its clients do. May be given more than once, for a
    /// server of several names.
    #[arg(long, value_name = "HOST")]
    pub(crate) serving: Vec<String>,
    /// Folder of the output: ca.crt, ca.key, and ROLE-INDEX/ for each task, serving/ and client/ for predictions. An
    /// existing authority is used again.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Validity of the certificates in days.
    #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u64).range(1..=3650))]
    pub(crate) days: u64,
    /// Makes a file of tokens for each role instead: ROLE.toml, and serving.toml for predictions.
    #[arg(long)]
    pub(crate) tokens: bool,
}

/// File of the authority's key. It stays on the machine that makes the certificates.
const AUTHORITY_KEY_FILE: &str = "ca.key";
/// Bytes of a token.
const TOKEN_BYTES: usize = 32;
/// Names of the certificates of a server of predictions and of its clients. They name no task of a cluster.
const SERVING_NAME: &str = "spiffe://trainyard/serving";
const CLIENT_NAME: &str = "spiffe://trainyard/client";
/// Folder of a server of predictions, and beginning of the name of its file of tokens.
const SERVING: &str = "serving";
/// Folder and name of the clients of a server of predictions.
const CLIENT: &str = "client";
const SECRET: u32 = 0o600;
const OPEN: u32 = 0o644;

/// Makes the certificates or tokens of a cluster's tasks, and of a server of predictions.
pub(crate) fn pki(arguments: &Pki) -> Result<(), Vec<Diagnostic>> {
    let cluster = arguments.cluster.as_deref();
    let cluster = cluster.map(ClusterSpec::load).transpose()?;
    let out = &arguments.out;
    let made = if arguments.tokens {
        tokens(cluster.as_ref(), arguments)
    } else {
        certificates(cluster.as_ref(), arguments)
    };
    let told = made.map_err(|error| {
        if error.kind() == ErrorKind::StorageFull {
            return vec![unwritten(out, &error).note("--out gives another folder")];
        }
        let message = format!("{}: {error}", out.display());
        vec![
            Diagnostic::error(Code::E9002, message)
                .help("give --out a folder that this user may write"),
        ]
    })?;
    print(&told).map_err(|problem| vec![problem])
}

fn certificates(cluster: Option<&ClusterSpec>, arguments: &Pki) -> Result<String, Error> {
    let out = &arguments.out;
    create_private(out)?;
    let mut told = String::new();
    let authority = authority(out, &mut told)?;
    let until = SystemTime::now() + Duration::from_secs(arguments.days * 24 * 3600);
    if let Some(cluster) = cluster {
        for (task, address) in cluster.tasks.iter().chain(&cluster.standbys) {
            let folder = out.join(format!("{}-{}", task.role, task.index));
            let hosts: Vec<String> = host(address).into_iter().collect();
            let issued = authority
                .issue(&Identity::name(*task), &hosts, until)
                .map_err(Error::other)?;
            write_folder(&folder, &authority, &issued)?;
            let hosts = if hosts.is_empty() {
                "a socket file".to_owned()
            } else {
                hosts.join(", ")
            };
            let _ = writeln!(
                told,
                "{:10} {} for {hosts}",
                task.to_string(),
                folder.display()
            );
        }
        let _ = writeln!(
            told,
            "give each task its folder by --tls-dir, or all of them by the cluster file:\n[security]\ntls_dir = \"{}/{{role}}-{{index}}\"",
            absolute(out).display()
        );
    }
    if !arguments.serving.is_empty() {
        let hosts = arguments.serving.as_slice();
        let issued = authority.issue(SERVING_NAME, hosts, until);
        let issued = issued.map_err(Error::other)?;
        write_folder(&out.join(SERVING), &authority, &issued)?;
        // A client is known by its authority alone, so it may run on any host.
        let issued = authority.issue(CLIENT_NAME, &[], until);
        let issued = issued.map_err(Error::other)?;
        write_folder(&out.join(CLIENT), &authority, &issued)?;
        let _ = writeln!(
            told,
            "{SERVING:10} {} for {}\n{CLIENT:10} {}\ngive the server of predictions its folder by --tls-dir, and clients theirs",
            out.join(SERVING).display(),
            hosts.join(", "),
            out.join(CLIENT).display()
        );
    }
    Ok(told)
}

/// Returns the authority of a folder, which is made if it is not there.
fn authority(out: &Path, told: &mut String) -> Result<Authority, Error> {
    let roots = out.join(ROOTS_FILE);
    let secret = out.join(AUTHORITY_KEY_FILE);
    match (
        std::fs::read_to_string(&roots),
        std::fs::read_to_string(&secret),
    ) {
        (Ok(certificate), Ok(key)) => {
            let _ = writeln!(told, "authority  {} (as before)", roots.display());
            Authority::from_pem(&certificate, &key).map_err(Error::other)
        }
        (Err(_), Err(error)) if error.kind() == ErrorKind::NotFound => {
            let authority = Authority::new().map_err(Error::other)?;
            write(&roots, authority.certificate(), OPEN)?;
            write(&secret, &authority.key(), SECRET)?;
            let _ = writeln!(
                told,
                "authority  {}, its key in {}",
                roots.display(),
                secret.display()
            );
            Ok(authority)
        }
        (Err(error), _) | (_, Err(error)) => {
            let what = format!(
                "{ROOTS_FILE} and {AUTHORITY_KEY_FILE} must both be there or both be missing"
            );
            Err(Error::new(error.kind(), format!("{what}: {error}")))
        }
    }
}

/// Writes the folder of a certificate.
fn write_folder(folder: &Path, authority: &Authority, issued: &Issued) -> Result<(), Error> {
    create_private(folder)?;
    write(&folder.join(ROOTS_FILE), authority.certificate(), OPEN)?;
    write(&folder.join(CERTIFICATE_FILE), &issued.certificate, OPEN)?;
    write(&folder.join(KEY_FILE), &issued.key, SECRET)
}

/// Creates a folder that only this user may enter: who may write into a folder of certificates, chooses them.
fn create_private(folder: &Path) -> Result<(), Error> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Returns the host of an address, or `None` for a socket file.
fn host(address: &str) -> Option<String> {
    let (host, _) = address.rsplit_once(':')?;
    (host != "unix" && !address.starts_with("unix:")).then(|| {
        host.trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned()
    })
}

fn tokens(cluster: Option<&ClusterSpec>, arguments: &Pki) -> Result<String, Error> {
    let out = &arguments.out;
    create_private(out)?;
    let mut told = String::new();
    if cluster.is_some() {
        write_role_tokens(out, &mut told)?;
    }
    if !arguments.serving.is_empty() {
        let path = out.join(format!("{SERVING}.toml"));
        write(&path, &format!("{CLIENT} = \"{}\"\n", token()?), SECRET)?;
        let _ = writeln!(
            told,
            "{SERVING} {}\ngive the server of predictions this file by --token-file, and clients the token in it",
            path.display()
        );
    }
    Ok(told)
}

fn write_role_tokens(out: &Path, told: &mut String) -> Result<(), Error> {
    let roles = [Role::Chief, Role::Worker, Role::Ps];
    let tokens: Vec<String> = roles.iter().map(|_| token()).collect::<Result<_, _>>()?;
    for role in roles {
        // Only other workers call a worker, in allreduce, so its file holds the workers' token alone.
        let knows = |other: Role| role != Role::Worker || other == Role::Worker;
        let lines = roles
            .iter()
            .zip(&tokens)
            .filter(|(other, _)| knows(**other));
        let text: String = lines
            .map(|(other, token)| format!("{other} = \"{token}\"\n"))
            .collect();
        let path = out.join(format!("{role}.toml"));
        write(&path, &text, SECRET)?;
        let _ = writeln!(told, "{role:6} {}", path.display());
    }
    let _ = writeln!(told, "give each task its role's file by --token-file");
    Ok(())
}

fn token() -> Result<String, Error> {
    let mut bytes = [0; TOKEN_BYTES];
    let mut filled = 0;
    while filled < bytes.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        filled += rustix::rand::getrandom(&mut bytes[filled..], flags)?;
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Writes a file as a whole, with its mode from the start.
fn write(path: &Path, text: &str, mode: u32) -> Result<(), Error> {
    let named = |error: Error| Error::new(error.kind(), format!("{}: {error}", path.display()));
    let write = || {
        let (result, mut file) = ResultFile::create_with_mode(path, mode)?;
        file.write_all(text.as_bytes())?;
        result.publish()
    };
    write().map_err(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_an_address_is_its_name_or_number() {
        assert_eq!(host("ps-0.ads:2222").as_deref(), Some("ps-0.ads"));
        assert_eq!(host("10.0.0.7:1").as_deref(), Some("10.0.0.7"));
        assert_eq!(host("[fd00::1]:1").as_deref(), Some("fd00::1"));
        assert_eq!(host("unix:/run/ps.sock"), None);
    }
}
