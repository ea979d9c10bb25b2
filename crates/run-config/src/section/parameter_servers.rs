//! `[parameter_servers]`: durability, memory and guard of parameter servers.

use trainyard_diagnostic::{Code, Section};

use crate::section::single;
use crate::{Durability, Guard, GuardSection, Nonfinite, ParameterServersConfig};

/// Least and largest length of a log at which a checkpoint is requested, in bytes.
const LOG_BYTES_MIN: u64 = 1 << 20;
const LOG_BYTES_MAX: u64 = 1 << 50;
/// Least memory budget of a server, in bytes.
const MEMORY_BYTES_MIN: u64 = 1 << 20;
/// Latest pushes of a session whose rejections a server counts.
const LATEST_PUSHES: u64 = 64;

pub(crate) fn read(section: Option<Section<'_>>) -> Option<ParameterServersConfig> {
    let default = ParameterServersConfig::default();
    let Some(section) = section else {
        return Some(default);
    };
    let durability = match section.node("durability") {
        Some(_) => section.choice("durability", "durability", &Durability::NAMES),
        None => Some(default.durability),
    };
    let log_bytes_max = section
        .integer("log_bytes_max", LOG_BYTES_MIN..=LOG_BYTES_MAX)
        .unwrap_or(default.log_bytes_max);
    let memory_bytes_max = section.integer("memory_bytes_max", MEMORY_BYTES_MIN..=LOG_BYTES_MAX);
    let guard = section.section("guard").map_or(Some(default.guard), guard);
    section.finish();
    Some(ParameterServersConfig {
        durability: durability?,
        log_bytes_max,
        memory_bytes_max,
        guard: guard?,
    })
}

/// Reads `[parameter_servers.guard]`.
fn guard(section: Section<'_>) -> Option<GuardSection> {
    let default = GuardSection::default();
    let nonfinite = match section.node("nonfinite") {
        Some(_) => section.choice("nonfinite", "policy", &Nonfinite::NAMES),
        None => Some(default.bounds.nonfinite),
    };
    let max_norm = bound(&section, "max_norm");
    let max_abs = bound(&section, "max_abs");
    let quarantine_after = section
        .integer("quarantine_after", 0..=LATEST_PUSHES)
        .map_or(default.quarantine_after, |count| count as u32);
    section.finish();
    Some(GuardSection {
        bounds: Guard {
            nonfinite: nonfinite?,
            max_norm,
            max_abs,
        },
        quarantine_after,
    })
}

/// Reads an upper bound, which must be positive.
fn bound(section: &Section<'_>, key: &'static str) -> Option<f32> {
    let most = single(section, key)?;
    if most <= 0.0 {
        section.fail(
            Code::E1002,
            key,
            format!("{key} must be > 0, given {most:?}"),
        );
        return None;
    }
    Some(most)
}
