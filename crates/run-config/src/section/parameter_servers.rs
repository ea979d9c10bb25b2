//! `[parameter_servers]`: what a parameter server keeps beside its memory.

use trainyard_diagnostic::Section;

use crate::{DurabilityConfig, ParameterServersConfig};

/// Least and most length of a log, in bytes, from which a checkpoint is asked for.
const LOG_BYTES_MIN: u64 = 1 << 20;
const LOG_BYTES_MAX: u64 = 1 << 50;

pub(crate) fn read(section: Option<Section<'_>>) -> Option<ParameterServersConfig> {
    let default = ParameterServersConfig::default();
    let Some(section) = section else { return Some(default) };
    let modes = [
        ("none", DurabilityConfig::None),
        ("wal", DurabilityConfig::Wal),
        ("wal_sync", DurabilityConfig::WalSync),
    ];
    let durability = match section.node("durability") {
        Some(_) => section.choice("durability", "durability", &modes),
        None => Some(default.durability),
    };
    let log_bytes_max =
        section.integer("log_bytes_max", LOG_BYTES_MIN..=LOG_BYTES_MAX).unwrap_or(default.log_bytes_max);
    section.finish();
    Some(ParameterServersConfig { durability: durability?, log_bytes_max })
}
