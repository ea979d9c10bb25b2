//! Numeric columns, and the boundaries that divide them.

use trainyard_diagnostic::{Code, Section, Value};

use super::super::single;
use crate::{Normalizer, Numbers};

/// Most numbers in a field.
const WIDTH_MAX: u64 = 1 << 20;

/// What is said of the numbers, whatever their column.
pub(super) struct Said {
    width: usize,
    normalizer: Normalizer,
    default: Option<Vec<f32>>,
}

impl Said {
    pub(super) fn of(&self, column: String) -> Numbers {
        let Self { width, normalizer, ref default } = *self;
        Numbers { column, width, normalizer, default: default.clone() }
    }
}

pub(super) fn read(section: &Section<'_>) -> Option<Said> {
    let shape = match section.node("shape").map(|node| &node.value) {
        None => Some(vec![1]),
        Some(Value::Integer(_)) => section.integer("shape", 1..=WIDTH_MAX).map(|length| vec![length]),
        Some(_) => section.integers("shape", 1..=WIDTH_MAX),
    };
    let width = shape.map(|shape| shape.iter().try_fold(1_u64, |all, length| all.checked_mul(*length)));
    let width = match width {
        Some(Some(width)) if width <= WIDTH_MAX => Some(width as usize),
        Some(_) => {
            section.fail(Code::E1002, "shape", format!("shape must hold at most {WIDTH_MAX} numbers"));
            None
        }
        None => None,
    };
    let default = read_default(section, width.unwrap_or(1));
    let normalizer = read_normalizer(section)?;
    Some(Said { width: width?, normalizer, default: default? })
}

/// One number for all places, or one each. `Some(None)` where none is given.
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
            Some(Some(numbers.into_iter().map(|number| number as f32).collect()))
        }
        Some(_) => single(section, "default").map(|number| Some(vec![number; width])),
    }
}

fn read_normalizer(section: &Section<'_>) -> Option<Normalizer> {
    let known = [("none", 0), ("log1p", 1), ("standardize", 2)];
    let choice = match section.node("normalizer") {
        Some(_) => section.choice("normalizer", "normalizer", &known)?,
        None => 0,
    };
    let (mean, stddev) = (single(section, "mean"), single(section, "stddev"));
    match (choice, mean, stddev) {
        (2, Some(mean), Some(stddev)) if stddev.is_normal() => Some(Normalizer::Standardize { mean, stddev }),
        (2, Some(_), Some(stddev)) => {
            section.fail(Code::E1002, "stddev", format!("stddev must not be 0, given {stddev}"));
            None
        }
        (2, _, _) => {
            section.fail(Code::E1005, "normalizer", "normalizer standardize needs mean and stddev");
            None
        }
        (_, None, None) => Some(if choice == 1 { Normalizer::Log1p } else { Normalizer::None }),
        _ => {
            section.fail(Code::E1006, "normalizer", "mean and stddev need normalizer = \"standardize\"");
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
        section.fail(Code::E1002, "boundaries", "boundaries must hold at least one number, given none");
        return None;
    }
    if let Some(position) = boundaries.iter().position(|boundary| !boundary.is_finite()) {
        let message = format!("boundaries must fit into 32 bits, given {:?}", numbers[position]);
        section.fail(Code::E1002, "boundaries", message);
        return None;
    }
    if let Some(pair) = boundaries.windows(2).find(|pair| pair[0] >= pair[1]) {
        let message = format!("boundaries must ascend, given {} before {}", pair[0], pair[1]);
        section.fail(Code::E1002, "boundaries", message);
        return None;
    }
    Some(boundaries)
}
