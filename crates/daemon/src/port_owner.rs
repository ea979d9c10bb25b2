//! Owner of a port: the process that listens at it, if this user may see it.

/// A process that listens at a port.
#[derive(Debug)]
pub(crate) struct PortOwner {
    /// `pid 4711 ("trainyard-ps --index 0")`.
    pub(crate) name: String,
    /// The process runs the same program as this one.
    pub(crate) is_ours: bool,
}

/// Returns the process that listens at `port`.
pub(crate) fn port_owner(port: u16) -> Option<PortOwner> {
    let inode = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .find_map(|table| listening_inode(table, port))?;
    let wanted = format!("socket:[{inode}]");
    for entry in std::fs::read_dir("/proc").ok()?.filter_map(Result::ok) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.parse::<u32>().is_err() {
            continue;
        }
        let descriptors = std::fs::read_dir(entry.path().join("fd"))
            .into_iter()
            .flatten()
            .filter_map(Result::ok);
        let mut targets =
            descriptors.filter_map(|descriptor| std::fs::read_link(descriptor.path()).ok());
        if targets.any(|target| target.as_os_str() == wanted.as_str()) {
            let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            let program = std::fs::read_link(entry.path().join("exe")).ok();
            let is_ours = program.is_some() && program == std::fs::read_link("/proc/self/exe").ok();
            let command: String = command.trim().chars().take(120).collect();
            return Some(PortOwner {
                name: format!("pid {name} (\"{command}\")"),
                is_ours,
            });
        }
    }
    None
}

fn listening_inode(table: &str, port: u16) -> Option<String> {
    let text = std::fs::read_to_string(table).ok()?;
    let suffix = format!(":{port:04X}");
    text.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // Local address, state 0A = listening, inode.
        let listens = fields.get(1).is_some_and(|local| local.ends_with(&suffix))
            && fields.get(3) == Some(&"0A");
        listens
            .then(|| fields.get(9).map(|inode| (*inode).to_owned()))
            .flatten()
    })
}
