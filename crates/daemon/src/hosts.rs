//! The names by which a task may be asked at its admin port.

use std::collections::BTreeSet;
use std::net::IpAddr;

use trainyard_cluster_spec::ClusterSpec;

/// Names of this host and of the cluster's.
///
/// A page of the web may have its own name looked up as 127.0.0.1 and then read what a port of this machine answers, as if it
/// were its own (DNS rebinding). The browser says which name it has asked for, so that names which are not ours tell it. An
/// address is no name: nobody can have it looked up as another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hosts {
    names: BTreeSet<String>,
    /// Whether any name will do: the port listens where other hosts reach it, by whatever names they have for it.
    any: bool,
}

impl Hosts {
    /// Returns those of a task whose admin port listens at `bound`, as it was told by `listen`, on a host of the name `host`.
    pub(crate) fn new(
        cluster: &ClusterSpec,
        listen: Option<&str>,
        host: Option<String>,
        bound: IpAddr,
    ) -> Self {
        let addresses = cluster.tasks.values().chain(cluster.standbys.values());
        let addresses = addresses
            .chain(cluster.admin.values())
            .chain(&cluster.evaluator_addresses);
        let names = addresses
            .map(String::as_str)
            .chain(listen)
            .filter_map(|address| name(address.as_bytes()));
        let names = names
            .chain(host.map(|host| host.to_ascii_lowercase()))
            .chain(["localhost".to_owned()]);
        Self {
            names: names.collect(),
            any: !bound.to_canonical().is_loopback(),
        }
    }

    /// Whether a header `Host` names this task: its name, with or without a port.
    pub(crate) fn are(&self, header: &[u8]) -> bool {
        self.any
            || name(header).is_some_and(|name| {
                let address = name.trim_start_matches('[').trim_end_matches(']');
                address.parse::<IpAddr>().is_ok()
                    || self.names.contains(&name)
                    || name.ends_with(".localhost")
            })
    }
}

/// The name of `host:port`, `[address]:port` or either alone, in small letters, without the dot of a whole name.
fn name(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    let host = match text.rsplit_once(':') {
        Some((host, port))
            if !port.ends_with(']') && port.bytes().all(|digit| digit.is_ascii_digit()) =>
        {
            host
        }
        _ => text,
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    (!host.is_empty()).then(|| host.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_this_machine_answers_to_its_own_names_and_no_other() {
        let text = "[cluster]\nchief = [\"chief.ads.example:2222\"]\nps = [\"10.0.0.5:2222\"]\n\
                    [admin]\nchief = [\"metrics.ads.example:9000\"]\n";
        let cluster =
            ClusterSpec::from_toml(std::path::Path::new("cluster.toml"), text).expect("a cluster");
        let loopback = "127.0.0.1".parse().expect("an address");
        let hosts = Hosts::new(
            &cluster,
            Some("Here:9000"),
            Some("Node7".to_owned()),
            loopback,
        );
        for own in [
            "127.0.0.1:9000",
            "127.0.0.1",
            "[::1]:9000",
            "[::1]",
            "10.1.2.3:80",
            "localhost:9000",
            "LOCALHOST",
            "page.localhost:9000",
            "node7:9000",
            "here",
            "chief.ads.example",
            "chief.ads.example.:9000",
            "metrics.ads.example:9000",
        ] {
            assert!(hosts.are(own.as_bytes()), "{own}");
        }
        for strange in [
            "evil.example",
            "evil.example:9000",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "",
            ":9000",
            "chief",
        ] {
            assert!(!hosts.are(strange.as_bytes()), "{strange}");
        }
        assert!(!hosts.are(&[0xff, 0xfe]));
        let open = Hosts::new(&cluster, None, None, "0.0.0.0".parse().expect("an address"));
        assert!(open.are(b"whatever.example:9000"));
    }
}
