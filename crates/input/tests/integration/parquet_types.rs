//! Each type of a Parquet column, read as each kind of field, value by value.
//!
//! pyarrow wrote the files of `testdata/` from the values of the columns `written` below, and a missing value as the last
//! row.

use trainyard_input::*;

use crate::testdata;

/// Returns the rows of a column, or the reason why it cannot be read.
fn read(file: &str, column: &str, kind: FieldKind) -> String {
    let is_time = kind.missing_integer() == FieldKind::MISSING_TIME;
    let mut schema = Schema::default();
    schema.want(column, kind);
    let options = Options {
        batch_size: 3,
        ..Options::new(vec![testdata(file)], Format::Parquet)
    };
    let batch = Dataset::open(options, schema).and_then(|mut dataset| {
        let batch = dataset.next();
        batch.expect("the file has rows")
    });
    let batch = match batch {
        Ok(batch) => batch,
        Err(Error::Row(row)) => return format!("row {}: {}", row.line, row.reason),
        Err(Error::ColumnType { wanted, .. }) => return format!("wants {wanted}"),
        Err(error) => return error.to_string(),
    };
    let [column] = batch.columns.as_slice() else {
        panic!("{} columns", batch.columns.len())
    };
    let value = |place: usize| match &column.cells {
        Cells::Float(values) => values[place].to_string(),
        Cells::Int(values) if is_time && values[place] == FieldKind::MISSING_TIME => {
            "none".to_owned()
        }
        Cells::Int(values) => values[place].to_string(),
        Cells::Bytes(values) => format!("'{}'", values.get(place).escape_ascii()),
    };
    let row = |row: usize| {
        let values: Vec<String> = column.row(row, batch.rows).map(value).collect();
        values.join(" ")
    };
    let rows: Vec<String> = (0..batch.rows).map(row).collect();
    rows.join(" | ")
}

fn time(unit: TimeUnit) -> FieldKind {
    FieldKind::Int {
        separator: None,
        fraction: Fraction::Time(unit),
    }
}

fn number() -> FieldKind {
    FieldKind::Float {
        width: 1,
        separator: None,
        default: Some(vec![-9.0]),
    }
}

/// A column, and what it is as a number, a whole number, a time in seconds, and a text. The default of the number is -9.
struct Row {
    column: &'static str,
    written: &'static str,
    number: &'static str,
    int: &'static str,
    seconds: &'static str,
    text: &'static str,
}

const WHOLE: &str = "wants whole numbers";
const NUMBERS: &str = "wants numbers";
const TEXTS: &str = "wants texts or whole numbers";

const TABLE: &[Row] = &[
    Row {
        column: "u8",
        written: "uint8: 0, 255",
        number: "0 | 255 | -9",
        int: "0 | 255 | -1",
        seconds: "0 | 255 | none",
        text: "'0' | '255' | ''",
    },
    Row {
        column: "u16",
        written: "uint16: 0, 65535",
        number: "0 | 65535 | -9",
        int: "0 | 65535 | -1",
        seconds: "0 | 65535 | none",
        text: "'0' | '65535' | ''",
    },
    Row {
        column: "u32",
        written: "uint32: 0, 4294967295",
        number: "0 | 4294967300 | -9",
        int: "0 | 4294967295 | -1",
        seconds: "0 | 4294967295 | none",
        text: "'0' | '4294967295' | ''",
    },
    Row {
        column: "u64",
        written: "uint64: 9223372036854775807, 18446744073709551615",
        number: "9223372000000000000 | 18446744000000000000 | -9",
        int: "row 2: 18446744073709551615 is beyond the whole numbers of 64 bits with a sign",
        seconds: "row 1: expected a time in seconds since 1970, the time_unit of the feature, given 9223372036854775807, which is beyond the year 9999: give it in seconds",
        text: "'9223372036854775807' | '18446744073709551615' | ''",
    },
    Row {
        column: "u64_small",
        written: "uint64: 0, 7",
        number: "0 | 7 | -9",
        int: "0 | 7 | -1",
        seconds: "0 | 7 | none",
        text: "'0' | '7' | ''",
    },
    Row {
        column: "i8",
        written: "int8: -128, 127",
        number: "-128 | 127 | -9",
        int: "-128 | 127 | -1",
        seconds: "-128 | 127 | none",
        text: "'-128' | '127' | ''",
    },
    Row {
        column: "i64",
        written: "int64: -9223372036854775808, 9223372036854775807",
        number: "-9223372000000000000 | 9223372000000000000 | -9",
        int: "-9223372036854775808 | 9223372036854775807 | -1",
        seconds: "row 2: expected a time in seconds since 1970, the time_unit of the feature, given 9223372036854775807, which is beyond the year 9999: give it in seconds",
        text: "'-9223372036854775808' | '9223372036854775807' | ''",
    },
    Row {
        column: "f16",
        written: "halffloat: 0.5, -2.0",
        number: "0.5 | -2 | -9",
        int: WHOLE,
        seconds: "0 | -2 | none",
        text: TEXTS,
    },
    Row {
        column: "f32",
        written: "float: 0.5, nan",
        number: "0.5 | -9 | -9",
        int: WHOLE,
        seconds: "0 | none | none",
        text: TEXTS,
    },
    Row {
        column: "f64",
        written: "double: 1795478399.5, nan",
        number: "1795478400 | -9 | -9",
        int: WHOLE,
        seconds: "1795478399 | none | none",
        text: TEXTS,
    },
    Row {
        column: "f64_inf",
        written: "double: inf, 0.0",
        number: "row 1: inf is not a finite number",
        int: WHOLE,
        seconds: "row 1: inf is not a finite number",
        text: TEXTS,
    },
    Row {
        column: "bool",
        written: "bool: True, False",
        number: "1 | 0 | -9",
        int: "1 | 0 | -1",
        seconds: "1 | 0 | none",
        text: "'1' | '0' | ''",
    },
    Row {
        column: "decimal",
        written: "decimal128(9, 2): 1.25, -0.50",
        number: "1.25 | -0.5 | -9",
        int: WHOLE,
        seconds: "1 | -1 | none",
        text: TEXTS,
    },
    Row {
        column: "date",
        written: "date32[day]: 2026-11-27, 1969-12-30",
        number: "20784 | -2 | -9",
        int: "20784 | -2 | -1",
        seconds: "1795737600 | -172800 | none",
        text: "'20784' | '-2' | ''",
    },
    Row {
        column: "time_ms",
        written: "time32[ms]: 13:00:01, 00:00:00",
        number: "46801000 | 0 | -9",
        int: "46801000 | 0 | -1",
        seconds: "46801 | 0 | none",
        text: "'46801000' | '0' | ''",
    },
    Row {
        column: "time_us",
        written: "time64[us]: 13:00:01.000005, 00:00:00",
        number: "46801000000 | 0 | -9",
        int: "46801000005 | 0 | -1",
        seconds: "46801 | 0 | none",
        text: "'46801000005' | '0' | ''",
    },
    Row {
        column: "ts_s",
        written: "timestamp[s]: 2026-11-27 23:59:59, 1969-12-31 12:00:00",
        number: "1795824000000 | -43200000 | -9",
        int: "1795823999000 | -43200000 | -1",
        seconds: "1795823999 | -43200 | none",
        text: "'1795823999000' | '-43200000' | ''",
    },
    Row {
        column: "ts_ms",
        written: "timestamp[ms]: 2026-11-27 23:59:59.999000, 1969-12-31 12:00:00",
        number: "1795824000000 | -43200000 | -9",
        int: "1795823999999 | -43200000 | -1",
        seconds: "1795823999 | -43200 | none",
        text: "'1795823999999' | '-43200000' | ''",
    },
    Row {
        column: "ts_us",
        written: "timestamp[us]: 2026-11-27 23:59:59.999999, 1969-12-31 12:00:00.000001",
        number: "1795824000000000 | -43200000000 | -9",
        int: "1795823999999999 | -43199999999 | -1",
        seconds: "1795823999 | -43200 | none",
        text: "'1795823999999999' | '-43199999999' | ''",
    },
    Row {
        column: "ts_ns",
        written: "timestamp[ns]: 2026-11-27 23:59:59.999999, 1969-12-31 12:00:00.000001",
        number: "1795824000000000000 | -43200000000000 | -9",
        int: "1795823999999999000 | -43199999999000 | -1",
        seconds: "1795823999 | -43200 | none",
        text: "'1795823999999999000' | '-43199999999000' | ''",
    },
    Row {
        column: "ts_utc",
        written: "timestamp[us, tz=Europe/Oslo]: 2026-11-28 00:59:59.999999+01:00, 1969-12-31 13:00:00.000001+01:00",
        number: "1795824000000000 | -43200000000 | -9",
        int: "1795823999999999 | -43199999999 | -1",
        seconds: "1795823999 | -43200 | none",
        text: "'1795823999999999' | '-43199999999' | ''",
    },
    Row {
        column: "text",
        written: "string: 7, x",
        number: NUMBERS,
        int: WHOLE,
        seconds: NUMBERS,
        text: "'7' | 'x' | ''",
    },
    Row {
        column: "binary",
        written: "binary: b'\\xff', b''",
        number: NUMBERS,
        int: WHOLE,
        seconds: NUMBERS,
        text: "'\\xff' | '' | ''",
    },
    Row {
        column: "category",
        written: "dictionary<values=string, indices=int32, ordered=0>: a, b",
        number: NUMBERS,
        int: WHOLE,
        seconds: NUMBERS,
        text: "'a' | 'b' | ''",
    },
];

#[test]
fn each_type_has_its_values_in_each_kind_of_field() {
    for row in TABLE {
        let kinds = [
            (number(), row.number),
            (FieldKind::INT, row.int),
            (time(TimeUnit::Seconds), row.seconds),
            (FieldKind::BYTES, row.text),
        ];
        for (kind, expected) in kinds {
            let found = read("types.parquet", row.column, kind.clone());
            assert_eq!(
                found, expected,
                "{} ({}) as {kind:?}",
                row.column, row.written
            );
        }
    }
}

#[test]
fn lists_leave_missing_values_out_and_weights_must_be_whole() {
    let texts = FieldKind::Bytes {
        separator: Some(b'|'),
    };
    let ints = FieldKind::Int {
        separator: Some(b'|'),
        fraction: Fraction::Refused,
    };
    let pair = |default| FieldKind::Float {
        width: 2,
        separator: Some(b'|'),
        default,
    };
    let weights = FieldKind::Floats { separator: b'|' };
    let beyond = "row 1: 18446744073709551615 is beyond the whole numbers of 64 bits with a sign";
    for (column, kind, expected) in [
        ("texts", texts.clone(), "'a' 'b' |  | "),
        ("ints", ints.clone(), "1 2 |  | "),
        ("ints", texts.clone(), "'1' '2' |  | "),
        ("u64s", texts, "'18446744073709551615' '1' |  | "),
        ("u64s", ints, beyond),
        ("floats", pair(Some(vec![7.0, 8.0])), "0.5 8 | 7 8 | 7 8"),
        (
            "floats",
            pair(None),
            "row 1: number 2 of the list is missing and has no default",
        ),
        ("floats", weights, "0.5 |  | "),
    ] {
        assert_eq!(read("types.parquet", column, kind), expected, "{column}");
    }
}

#[test]
fn times_become_the_unit_of_the_feature() {
    for (unit, expected) in [
        (TimeUnit::Seconds, "1795823999 | -43200 | none"),
        (TimeUnit::Milliseconds, "1795823999999 | -43200000 | none"),
        (
            TimeUnit::Microseconds,
            "1795823999999999 | -43199999999 | none",
        ),
        (
            TimeUnit::Nanoseconds,
            "1795823999999999000 | -43199999999000 | none",
        ),
    ] {
        for (file, column) in [
            ("types.parquet", "ts_us"),
            ("types.parquet", "ts_ns"),
            ("types.parquet", "ts_utc"),
            ("int96.parquet", "ts_us"),
        ] {
            assert_eq!(
                read(file, column, time(unit)),
                expected,
                "{column} in {unit:?}"
            );
        }
    }
}

#[test]
fn a_table_has_the_unsigned_numbers_of_the_file_and_their_type_keeps_them() {
    let mut reader = TableReader::new(vec![testdata("types.parquet")], Format::Parquet, None, None);
    let mut row = Vec::new();
    let mut layout = Layout::default();
    let mut found = Vec::new();
    while reader.read(&mut row).expect("the rows are read") {
        layout.see(reader.columns(), &row);
        let place = reader.columns().iter().position(|name| name == "u64");
        found.extend(row[place.expect("the column")].values.clone());
    }
    assert_eq!(
        found,
        [
            Value::Int(i64::MAX),
            Value::Text(b"18446744073709551615".to_vec())
        ]
    );
    let kind = |name: &str| {
        let column = layout.columns.iter().find(|column| column.name == name);
        column.expect("the column").kind
    };
    assert_eq!(kind("u64"), Some(ColumnKind::Text));
    assert_eq!(kind("u64_small"), Some(ColumnKind::Int));
}

#[test]
fn pages_that_hold_nothing_are_no_end() {
    let mut schema = Schema::default();
    schema.want("id", FieldKind::INT);
    schema.want(
        "tags",
        FieldKind::Bytes {
            separator: Some(b'|'),
        },
    );
    let options = Options {
        batch_size: 50,
        ..Options::new(vec![testdata("tiny_pages.parquet")], Format::Parquet)
    };
    let mut dataset = Dataset::open(options, schema).expect("it opens");
    let batch = dataset.next().expect("a batch").expect("good rows");
    assert_eq!(batch.rows, 50);
    for row in 0..50 {
        assert_eq!(batch.columns[1].row(row, 50).len(), row % 4, "row {row}");
    }
}

#[test]
fn a_codec_that_is_not_read_is_named() {
    let told = read("brotli.parquet", "id", FieldKind::INT);
    assert!(
        told.contains("holds what this program does not read") && told.contains("brotli"),
        "{told}"
    );
}

#[test]
fn decimals_of_any_width_are_numbers() {
    for (column, numbers) in [
        ("narrow", "1.25 | -0.5 | -9"),
        ("wide", "123456790000000000 | -0.0001 | -9"),
        ("widest", "12345.679 | -1 | -9"),
    ] {
        let kind = FieldKind::Float {
            width: 1,
            separator: None,
            default: Some(vec![-9.0]),
        };
        assert_eq!(read("decimals.parquet", column, kind), numbers, "{column}");
    }
}

#[test]
fn the_type_of_the_values_of_a_list_is_told_before_their_number() {
    let told = |column: &str, kind: FieldKind| {
        let mut schema = Schema::default();
        schema.want(column, kind);
        let options = Options::new(vec![testdata("types.parquet")], Format::Parquet);
        let error = check_columns(&options, &schema).expect_err("of another type");
        trainyard_diagnostic::Diagnostic::from(error).render()
    };
    let text = told("texts", FieldKind::INT);
    assert!(
        text.contains("wants whole numbers") && text.contains("change the feature's kind"),
        "{text}"
    );
    let text = told("ints", FieldKind::INT);
    assert!(
        text.contains("wants one value a row") && text.contains("a separator"),
        "{text}"
    );
}

#[test]
fn columns_have_their_paths_in_arrow_and_those_that_cannot_be_read_the_type_of_their_field() {
    let file = testdata("arrow_types.parquet");
    let mut reader = TableReader::new(vec![file], Format::Parquet, None, None);
    let mut row = Vec::new();
    assert!(reader.read(&mut row).expect("read"));
    let columns = reader.columns();
    for name in [
        "d_s", "d_list", "s.d", "s.n", "flags", "ls.b", "sl.l", "nul",
    ] {
        assert!(
            columns.iter().any(|column| column == name),
            "{name}: {columns:?}"
        );
    }
    let place = |name: &str| columns.iter().position(|column| column == name);
    let values = |name: &str| row[place(name).expect("a column")].values.clone();
    assert_eq!(values("sl.l"), [Value::Int(1), Value::Int(2)]);
    assert_eq!(values("ls.b"), [Value::Int(1), Value::Missing]);
    assert_eq!(
        values("flags"),
        [Value::Int(1), Value::Missing, Value::Int(0)]
    );
    let unreadable = reader.unreadable().iter();
    let unreadable: Vec<(&str, &str)> = unreadable
        .map(|(name, kind)| (name.as_str(), kind.as_str()))
        .collect();
    assert_eq!(
        unreadable,
        [
            ("ll", "list<list<int32>>"),
            ("m.key_value.key", "map<string, int64>"),
            ("m.key_value.value", "map<string, int64>"),
        ]
    );
}

#[test]
fn uuids_are_their_texts_and_booleans_of_a_byte_are_0_and_1() {
    let bytes = || FieldKind::Bytes { separator: None };
    let one = "'61626364-6566-6768-696a-6b6c6d6e6f70'";
    let two = "'123e4567-e89b-12d3-a456-426614174000'";
    let uuids = read("extensions.parquet", "uuid", bytes());
    assert_eq!(uuids, format!("{one} | {two} | ''"));
    assert_eq!(
        read("extensions.parquet", "uuid", number()),
        "wants numbers"
    );
    assert_eq!(read("extensions.parquet", "flag", number()), "0 | 1 | -9");
    let file = testdata("extensions.parquet");
    let types = column_types(&[file], None).expect("types");
    let kinds: Vec<(&str, TypeKind)> = types
        .iter()
        .map(|column| (column.name.as_str(), column.kind))
        .collect();
    assert_eq!(
        kinds,
        [
            ("bytes", TypeKind::Bytes),
            ("bytes_view", TypeKind::Bytes),
            ("fixed_bytes", TypeKind::Bytes),
            ("flag", TypeKind::Boolean),
            ("json", TypeKind::Text),
            ("large_bytes", TypeKind::Bytes),
            ("list_of_bytes", TypeKind::Bytes),
            ("opaque_bytes", TypeKind::EncodedBytes),
            ("opaque_int", TypeKind::Extension),
            ("opaque_text", TypeKind::Extension),
            ("tensor", TypeKind::Extension),
            ("uuid", TypeKind::Uuid),
            ("uuids", TypeKind::Uuid),
        ]
    );
}
