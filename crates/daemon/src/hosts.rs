//! Host names: the names that requests to the admin port of a task may use.

use std::collections::BTreeSet;
use std::net::IpAddr;

use trainyard_cluster_spec::ClusterSpec;

/// Names of this host and of the hosts of the cluster.
///
/// A web page may resolve its own name to 127.0.0.1 and then read the replies of a local port as its own content (DNS
/// rebinding). The browser sends the name in `Host`, so a foreign name reveals the attack. A numeric address is safe,
/// because it is not resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hosts {
    names: BTreeSet<String>,
    /// Any name is accepted: other hosts can reach the port, under names that are unknown here.
    any: bool,
}

impl Hosts {
    /// Returns the names of a task whose admin port is bound to `bound`. `listen` is the configured address, `host` the
    /// name of this host.
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

    /// Returns the names of a server that is no task, whose port is bound to `bound`.
    pub fn of_service(listen: &str, bound: IpAddr) -> Self {
        let host = rustix::system::uname();
        let host = host.nodename().to_str().ok().map(str::to_owned);
        Self::new(&ClusterSpec::without_tasks(), Some(listen), host, bound)
    }

    /// Returns whether a `Host` header, with or without a port, names this task.
    pub fn are(&self, header: &[u8]) -> bool {
        self.any
            || name(header).is_some_and(|name| {
                let address = name.trim_start_matches('[').trim_end_matches(']');
                address.parse::<IpAddr>().is_ok()
                    || self.names.contains(&name)
                    || name.ends_with(".localhost")
            })
    }
}

/// Returns the host of `host:port`, `[address]:port`, `host` or `[address]`, in lower case, without the final dot of a
/// fully qualified name.
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
