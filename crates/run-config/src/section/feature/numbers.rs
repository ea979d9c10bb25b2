//! Numeric columns, and the boundaries of their buckets.

use trainyard_diagnostic::{Code, Section, Value};

use crate::{Normalizer, Numbers, Operand, Time, TimePart, TimeUnit};

/// Most numbers in a field.
const WIDTH_MAX: u64 = 1 << 20;

/// Settings of the numbers, without their column.
pub(super) struct Said(Numbers);

impl Said {
    pub(super) fn of(&self, column: String) -> Numbers {
        Numbers {
            column,
            ..self.0.clone()
        }
    }
}

pub(super) fn read(section: &Section<'_>) -> Option<Said> {
    let shape = match section.node("shape").map(|node| &node.value) {
        None => Some(vec![1]),
        Some(Value::Integer(_)) => section
            .integer("shape", 1..=WIDTH_MAX)
            .map(|length| vec![length]),
        Some(_) => section.integers("shape", 1..=WIDTH_MAX),
    };
    let width = shape.map(|shape| {
        shape
            .iter()
            .try_fold(1_u64, |all, length| all.checked_mul(*length))
    });
    let width = match width {
        Some(Some(width)) if width <= WIDTH_MAX => Some(width as usize),
        Some(_) => {
            section.fail(
                Code::E1002,
                "shape",
                format!("shape must hold at most {WIDTH_MAX} numbers"),
            );
            None
        }
        None => None,
    };
    let default = read_default(section, width.unwrap_or(1));
    let time = read_time(section);
    let operand = read_operand(section);
    let clip = read_clip(section);
    let normalizer = read_normalizer(section)?;
    let width = width?;
    if time.is_some() && width != 1 {
        section.fail(
            Code::E1006,
            "time",
            "time and shape cannot be both set: a field holds one time",
        );
    }
    if time.is_some() && operand.is_some() {
        section.fail(
            Code::E1006,
            "time",
            "time cannot be combined with minus or divided_by",
        );
    }
    let column = String::new();
    Some(Said(Numbers {
        column,
        width,
        time,
        operand,
        clip,
        normalizer,
        default: default?,
    }))
}

fn read_time(section: &Section<'_>) -> Option<Time> {
    let parts = [("hour", TimePart::Hour), ("weekday", TimePart::Weekday)];
    let units = [
        ("seconds", TimeUnit::Seconds),
        ("milliseconds", TimeUnit::Milliseconds),
    ];
    let unit = match section.node("time_unit") {
        Some(_) => section.choice("time_unit", "unit of times", &units),
        None => Some(TimeUnit::Seconds),
    };
    if section.node("time").is_none() {
        if section.node("time_unit").is_some() {
            section.fail(
                Code::E1006,
                "time_unit",
                "time_unit needs time = \"hour\" or \"weekday\"",
            );
        }
        return None;
    }
    Some(Time {
        part: section.choice("time", "part of a time", &parts)?,
        unit: unit?,
    })
}

fn read_operand(section: &Section<'_>) -> Option<Operand> {
    let minus = section.text("minus");
    let divided_by = section.text("divided_by");
    for (key, column) in [("minus", &minus), ("divided_by", &divided_by)] {
        if column.as_deref() == Some("") {
            section.fail(
                Code::E1002,
                key,
                format!("{key} must name a column of the input, given \"\""),
            );
        }
    }
    match (minus, divided_by) {
        (Some(_), Some(_)) => {
            section.fail(
                Code::E1006,
                "divided_by",
                "minus and divided_by cannot be both set",
            );
            None
        }
        (Some(column), None) => Some(Operand::Minus(column)),
        (None, Some(column)) => Some(Operand::DividedBy(column)),
        (None, None) => None,
    }
}

fn read_clip(section: &Section<'_>) -> Option<[f32; 2]> {
    section.node("clip")?;
    let bounds: Vec<f32> = section
        .numbers("clip")?
        .iter()
        .map(|bound| *bound as f32)
        .collect();
    match bounds[..] {
        [least, most] if least < most && least.is_finite() && most.is_finite() => {
            Some([least, most])
        }
        _ => {
            let message = format!("clip must be a lower and a higher number, given {bounds:?}");
            section.fail(Code::E1002, "clip", message);
            None
        }
    }
}

/// Reads one number for all positions, or one number each. Returns `Some(None)` if none is given.
#[allow(clippy::option_option)]
fn read_default(section: &Section<'_>, width: usize) -> Option<Option<Vec<f32>>> {
    match section.node("default").map(|node| &node.value) {
        None => Some(None),
        Some(Value::List(_)) => {
            let numbers = section.numbers("default")?;
            if numbers.len() != width {
                let message = format!(
                    "default must be one number, or one for each of the {width} of shape, given {}",
                    numbers.len()
                );
                section.fail(Code::E1002, "default", message);
                return None;
            }
            Some(Some(
                numbers.into_iter().map(|number| number as f32).collect(),
            ))
        }
        Some(_) => section
            .single("default")
            .map(|number| Some(vec![number; width])),
    }
}

/// Names of the normalizers, without their parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NormalizerName {
    None,
    Log1p,
    Log,
    MinMax,
    Standardize,
}

fn read_normalizer(section: &Section<'_>) -> Option<Normalizer> {
    let known = [
        ("none", NormalizerName::None),
        ("log1p", NormalizerName::Log1p),
        ("log", NormalizerName::Log),
        ("min_max", NormalizerName::MinMax),
        ("standardize", NormalizerName::Standardize),
    ];
    let name = match section.node("normalizer") {
        Some(_) => section.choice("normalizer", "normalizer", &known)?,
        None => NormalizerName::None,
    };
    let moments = read_pair(
        section,
        "mean",
        "stddev",
        name == NormalizerName::Standardize,
        "standardize",
    )?;
    let range = read_pair(
        section,
        "min",
        "max",
        name == NormalizerName::MinMax,
        "min_max",
    )?;
    match name {
        NormalizerName::None => Some(Normalizer::None),
        NormalizerName::Log1p => Some(Normalizer::Log1p),
        NormalizerName::Log => Some(Normalizer::Log),
        NormalizerName::Standardize => {
            let (mean, stddev) = moments?;
            if !stddev.is_normal() {
                section.fail(
                    Code::E1002,
                    "stddev",
                    format!("stddev must not be 0, given {stddev}"),
                );
                return None;
            }
            Some(Normalizer::Standardize { mean, stddev })
        }
        NormalizerName::MinMax => {
            let (min, max) = range?;
            if max <= min {
                section.fail(
                    Code::E1002,
                    "max",
                    format!("max must be above min ({min}), given {max}"),
                );
                return None;
            }
            Some(Normalizer::MinMax { min, max })
        }
    }
}

/// Reads the two parameters of a normalizer. They are required with it and refused without it, which gives
/// `Some(None)`.
#[allow(clippy::option_option)]
fn read_pair(
    section: &Section<'_>,
    first: &'static str,
    second: &'static str,
    is_needed: bool,
    normalizer: &str,
) -> Option<Option<(f32, f32)>> {
    match (is_needed, section.single(first), section.single(second)) {
        (true, Some(first), Some(second)) => Some(Some((first, second))),
        (true, _, _) => {
            let message = format!(
                "normalizer {normalizer} needs {first} and {second}; `trainyard stats` prints them"
            );
            section.fail(Code::E1005, "normalizer", message);
            None
        }
        (false, None, None) => Some(None),
        (false, _, _) => {
            let message = format!("{first} and {second} need normalizer = \"{normalizer}\"");
            section.fail(Code::E1006, "normalizer", message);
            None
        }
    }
}

pub(super) fn read_boundaries(section: &Section<'_>) -> Option<Vec<f32>> {
    let Some(numbers) = section.numbers("boundaries") else {
        if section.node("boundaries").is_none() {
            section.missing("boundaries", "[18, 25, 40, 65]");
        }
        return None;
    };
    let boundaries: Vec<f32> = numbers.iter().map(|&number| number as f32).collect();
    if boundaries.is_empty() {
        section.fail(
            Code::E1002,
            "boundaries",
            "boundaries must hold at least one number, given none",
        );
        return None;
    }
    if let Some(position) = boundaries.iter().position(|boundary| !boundary.is_finite()) {
        let message = format!(
            "boundaries must fit into 32 bits, given {:?}",
            numbers[position]
        );
        section.fail(Code::E1002, "boundaries", message);
        return None;
    }
    if let Some(pair) = boundaries.windows(2).find(|pair| pair[0] >= pair[1]) {
        let message = format!(
            "boundaries must ascend, given {} before {}",
            pair[0], pair[1]
        );
        section.fail(Code::E1002, "boundaries", message);
        return None;
    }
    Some(boundaries)
}
