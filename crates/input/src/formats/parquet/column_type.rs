//! Types of columns in the words of Arrow, and the type that holds the values of a column of several files.

use std::sync::Arc;

use parquet::basic::{ConvertedType, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor, Type};

use super::arrow_schema::ArrowColumn;
use crate::row::Ticks;

/// What a value of a column is, as far as files that become one must agree on it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Class {
    /// The column has no values, and so no type of them.
    Untyped,
    /// Whole numbers that 64 bits with a sign hold.
    Whole,
    /// Floats of 16, 32 or 64 bits, all of which 64 bits hold.
    Float,
    /// Another type, by its name.
    Other(String),
}

impl Class {
    /// Returns the class of values of a type, by its name.
    pub(super) fn of(name: String) -> Self {
        match name.as_str() {
            "null" => Self::Untyped,
            "int8" | "int16" | "int32" | "int64" | "uint8" | "uint16" | "uint32" => Self::Whole,
            "halffloat" | "float" | "double" => Self::Float,
            _ => Self::Other(name),
        }
    }
}

/// Returns the name that Arrow gives to the type of a leaf, without the lists around it.
pub(super) fn arrow_name(leaf: &Type, arrow: Option<&ArrowColumn>) -> String {
    let info = leaf.get_basic_info();
    let logical = info.logical_type_ref();
    // Parquet itself has these two extension types.
    let is_known = matches!(logical, Some(LogicalType::Json | LogicalType::Uuid));
    let extension = arrow.and_then(|arrow| arrow.extension.as_ref());
    if let Some(name) = extension.filter(|_| !is_known) {
        return format!("extension<{name}>");
    }
    if let Some(unit) = arrow.and_then(|arrow| arrow.duration) {
        return format!("duration[{}]", short(unit));
    }
    if let (Some(LogicalType::Timestamp(time)), Some(zone)) =
        (logical, arrow.and_then(|arrow| arrow.zone.as_ref()))
    {
        return format!("timestamp[{}, tz={zone}]", of_parquet(&time.unit));
    }
    if let Some(logical) = logical
        && let Some(name) = logical_name(leaf, logical)
    {
        return name;
    }
    let name = match info.converted_type() {
        ConvertedType::UTF8 => "string",
        ConvertedType::JSON => "json",
        ConvertedType::BSON => "bson",
        ConvertedType::ENUM => "enum",
        ConvertedType::INTERVAL => "interval",
        ConvertedType::DECIMAL => return decimal_name(leaf),
        ConvertedType::DATE => "date32[day]",
        ConvertedType::TIME_MILLIS => "time32[ms]",
        ConvertedType::TIME_MICROS => "time64[us]",
        ConvertedType::TIMESTAMP_MILLIS => "timestamp[ms, tz=UTC]",
        ConvertedType::TIMESTAMP_MICROS => "timestamp[us, tz=UTC]",
        ConvertedType::UINT_8 => "uint8",
        ConvertedType::UINT_16 => "uint16",
        ConvertedType::UINT_32 => "uint32",
        ConvertedType::UINT_64 => "uint64",
        ConvertedType::INT_8 => "int8",
        ConvertedType::INT_16 => "int16",
        _ => match leaf.get_physical_type() {
            Physical::BOOLEAN => "bool",
            Physical::INT32 => "int32",
            Physical::INT64 => "int64",
            Physical::INT96 => "timestamp[ns] of 96 bits",
            Physical::FLOAT => "float",
            Physical::DOUBLE => "double",
            Physical::BYTE_ARRAY => "binary",
            Physical::FIXED_LEN_BYTE_ARRAY => {
                let length = match leaf {
                    Type::PrimitiveType { type_length, .. } => *type_length,
                    Type::GroupType { .. } => 0,
                };
                return format!("fixed_size_binary[{length}]");
            }
        },
    };
    name.to_owned()
}

fn logical_name(leaf: &Type, logical: &LogicalType) -> Option<String> {
    let unit = of_parquet;
    Some(match logical {
        LogicalType::String => "string".to_owned(),
        LogicalType::Json => "json".to_owned(),
        LogicalType::Bson => "bson".to_owned(),
        LogicalType::Enum => "enum".to_owned(),
        LogicalType::Geometry(_) => "geometry".to_owned(),
        LogicalType::Geography(_) => "geography".to_owned(),
        LogicalType::Decimal { .. } => decimal_name(leaf),
        LogicalType::Date => "date32[day]".to_owned(),
        LogicalType::Time(time) => {
            let bits = if time.unit == TimeUnit::MILLIS {
                32
            } else {
                64
            };
            format!("time{bits}[{}]", unit(&time.unit))
        }
        LogicalType::Timestamp(time) if time.is_adjusted_to_u_t_c => {
            format!("timestamp[{}, tz=UTC]", unit(&time.unit))
        }
        LogicalType::Timestamp(time) => format!("timestamp[{}]", unit(&time.unit)),
        LogicalType::Integer(kind) => {
            let sign = if kind.is_signed { "" } else { "u" };
            format!("{sign}int{}", kind.bit_width)
        }
        LogicalType::Unknown => "null".to_owned(),
        LogicalType::Uuid => "uuid".to_owned(),
        LogicalType::Float16 => "halffloat".to_owned(),
        _ => return None,
    })
}

/// Returns Arrow's name of a unit.
fn short(unit: Ticks) -> &'static str {
    match unit {
        Ticks::Days => "day",
        Ticks::Seconds => "s",
        Ticks::Milliseconds => "ms",
        Ticks::Microseconds => "us",
        Ticks::Nanoseconds => "ns",
    }
}

fn of_parquet(unit: &TimeUnit) -> &'static str {
    match unit {
        TimeUnit::MILLIS => "ms",
        TimeUnit::MICROS => "us",
        TimeUnit::NANOS => "ns",
    }
}

fn decimal_name(leaf: &Type) -> String {
    format!("decimal({}, {})", leaf.get_precision(), leaf.get_scale())
}

/// Returns the type of a field in the words of Arrow.
pub(super) fn arrow_type(field: &Type) -> String {
    let info = field.get_basic_info();
    let is_repeated = info.has_repetition() && info.repetition() == Repetition::REPEATED;
    let one = one_type(field);
    if is_repeated {
        format!("list<{one}>")
    } else {
        one
    }
}

/// Returns the type of one value of a field.
fn one_type(field: &Type) -> String {
    if field.is_primitive() {
        return arrow_name(field, None);
    }
    let fields = field.get_fields();
    let is_map = is_map(field);
    match fields {
        [repeated] if is_list(field) && holds_element(repeated) => {
            format!("list<{}>", arrow_type(&repeated.get_fields()[0]))
        }
        [repeated] if is_list(field) => format!("list<{}>", one_type(repeated)),
        [entries] if is_map && entries.is_group() => {
            let parts = entries.get_fields().iter().map(|part| arrow_type(part));
            format!("map<{}>", parts.collect::<Vec<_>>().join(", "))
        }
        fields => {
            let parts = fields.iter();
            let parts = parts.map(|part| format!("{}: {}", part.name(), arrow_type(part)));
            format!("struct<{}>", parts.collect::<Vec<_>>().join(", "))
        }
    }
}

fn is_map(field: &Type) -> bool {
    let info = field.get_basic_info();
    let is_map = matches!(
        info.converted_type(),
        ConvertedType::MAP | ConvertedType::MAP_KEY_VALUE
    );
    is_map || matches!(info.logical_type_ref(), Some(LogicalType::Map))
}

/// Returns whether a leaf is in a list that the file calls one.
pub(super) fn is_in_list(schema: &SchemaDescriptor, leaf: &ColumnDescriptor) -> bool {
    let mut node = schema.root_schema();
    let mut parts = leaf.path().parts().iter();
    while let Some(field) = next_field(node, &mut parts) {
        if is_list(field) {
            return true;
        }
        node = field;
    }
    false
}

/// Returns the path of a leaf as Arrow has it: fields of structures stand behind a dot, and the values of a list have the path of the
/// list, without the groups that hold them in the file.
pub(super) fn arrow_path(schema: &SchemaDescriptor, leaf: &ColumnDescriptor) -> String {
    let mut node = schema.root_schema();
    let mut path: Vec<&str> = Vec::new();
    let mut parts = leaf.path().parts().iter();
    while let Some(field) = next_field(node, &mut parts) {
        path.push(field.name());
        node = field;
        while is_list(node) && !node.is_primitive() {
            let Some(repeated) = next_field(node, &mut parts) else {
                break;
            };
            node = repeated;
            if holds_element(repeated) {
                match next_field(repeated, &mut parts) {
                    Some(element) => node = element,
                    None => break,
                }
            }
        }
        if node.is_primitive() {
            break;
        }
    }
    path.join(".")
}

fn next_field<'a>(node: &'a Type, parts: &mut std::slice::Iter<'_, String>) -> Option<&'a Type> {
    if node.is_primitive() {
        return None;
    }
    let part = parts.next()?;
    let fields = node.get_fields().iter();
    fields.map(Arc::as_ref).find(|field| field.name() == part)
}

/// Returns whether a field is a list.
fn is_list(field: &Type) -> bool {
    let info = field.get_basic_info();
    info.converted_type() == ConvertedType::LIST
        || matches!(info.logical_type_ref(), Some(LogicalType::List))
}

/// Returns whether a field is a list whose elements are no lists or structures.
pub(super) fn is_list_of_values(field: &Type) -> bool {
    let repeated = is_list(field).then(|| field.get_fields().first()).flatten();
    repeated.is_some_and(|repeated| {
        let element = holds_element(repeated).then(|| repeated.get_fields().first());
        let element = element.flatten().unwrap_or(repeated);
        element.is_primitive()
    })
}

/// Returns whether the repeated field of a list holds the element, rather than being it.
/// <https://github.com/apache/parquet-format/blob/master/LogicalTypes.md#lists>
fn holds_element(repeated: &Type) -> bool {
    let name = repeated.name();
    repeated.is_group()
        && repeated.get_fields().len() == 1
        && name != "array"
        && !name.ends_with("_tuple")
}
