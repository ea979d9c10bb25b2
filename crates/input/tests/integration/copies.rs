//! Copies of rows and columns of Parquet files: types and bits of the originals.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::column::writer::ColumnWriter;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::SchemaDescriptor;
use trainyard_input::*;

use crate::testdata;

/// Files of all types that are read, of all encodings, and with lists in lists, maps and structures.
const FILES: [&str; 9] = [
    "decimals.parquet",
    "gzip_plain.parquet",
    "int96.parquet",
    "lz4.parquet",
    "other_schema.parquet",
    "snappy.parquet",
    "tiny_pages.parquet",
    "types.parquet",
    "zstd_v2.parquet",
];

fn open(path: &Path) -> SerializedFileReader<File> {
    let file = File::open(path).expect("the file is there");
    SerializedFileReader::new(file).expect("a Parquet file")
}

/// Returns the types of the columns, and what the file says beside them.
fn types(path: &Path) -> String {
    let reader = open(path);
    let metadata = reader.metadata().file_metadata();
    format!(
        "{:?} {:?}",
        metadata.schema_descr().root_schema(),
        metadata.key_value_metadata()
    )
}

/// Returns all values of each row, bit by bit.
fn rows(path: &Path) -> Vec<String> {
    let reader = open(path);
    let rows = reader.get_row_iter(None).expect("rows");
    let row = |row: Result<parquet::record::Row, _>| {
        let row = row.expect("a row");
        let fields = row.get_column_iter();
        let fields = fields.map(|(name, field)| match field {
            parquet::record::Field::Double(value) => format!("{name} {:x}", value.to_bits()),
            parquet::record::Field::Float(value) => format!("{name} {:x}", value.to_bits()),
            other => format!("{name} {other:?}"),
        });
        fields.collect::<Vec<_>>().join("; ")
    };
    rows.map(row).collect()
}

/// Returns the values of a column in each row, as the library has them.
fn values_of(path: &Path, column: &str) -> Vec<String> {
    let reader = open(path);
    let rows = reader.get_row_iter(None).expect("rows");
    let value = |row: Result<parquet::record::Row, _>| {
        let row = row.expect("a row");
        let mut fields = row.get_column_iter();
        let field = fields.find(|(name, _)| *name == column);
        format!("{:?}", field.expect("the column").1)
    };
    rows.map(value).collect()
}

#[test]
fn copies_of_rows_have_the_types_and_bits_of_the_original() {
    let folder = tempfile::tempdir().expect("a folder");
    // pyarrow wrote it: durations, structures, lists in lists, maps, and a column without a type.
    for name in FILES.into_iter().chain(["arrow_types.parquet"]) {
        let file = testdata(name);
        let all = rows(&file);
        let parts = ["a.parquet", "b.parquet"].map(|part| folder.path().join(part));
        let mut copier = RowCopier::create(std::slice::from_ref(&file), parts.clone(), None)
            .expect("the parts are created");
        let part_of = |row: usize| match row % 5 {
            0 | 3 => Some(0),
            1 => Some(1),
            _ => None,
        };
        for row in 0..all.len() {
            copier.place(part_of(row)).expect("placed");
        }
        copier.finish(2).expect("finished");
        for (part, path) in parts.iter().enumerate() {
            assert_eq!(types(path), types(&file), "{name}");
            let expected: Vec<&String> = all
                .iter()
                .enumerate()
                .filter(|(row, _)| part_of(*row) == Some(part))
                .map(|(_, row)| row)
                .collect();
            assert_eq!(rows(path).iter().collect::<Vec<_>>(), expected, "{name}");
        }
    }
}

#[test]
fn files_of_the_same_types_become_one_and_a_part_of_a_file_may_be_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = testdata("types.parquet");
    let parts = ["a.parquet", "b.parquet"].map(|part| folder.path().join(part));
    let files = vec![file.clone(), file.clone()];
    let mut copier = RowCopier::create(&files, parts.clone(), None).expect("created");
    copier.place(Some(0)).expect("placed");
    copier.end_file().expect("ended");
    for _ in 0..3 {
        copier.place(Some(0)).expect("placed");
    }
    copier.finish(1).expect("finished");
    let all = rows(&file);
    let expected = [&all[..1], &all[..3]].concat();
    assert_eq!(rows(&parts[0]), expected);
    let mut copier = RowCopier::create(&files, parts.clone(), None).expect("created");
    for row in 0..2 * all.len() {
        copier.place((row != 1).then_some(0)).expect("placed");
    }
    copier.finish(1).expect("finished");
    let expected = [&all[..1], &all[2..], &all[..]].concat();
    assert_eq!(rows(&parts[0]), expected, "one file after the other");
    assert!(!parts[1].exists(), "it was not asked for");
    let others = vec![file, testdata("int96.parquet")];
    let refused = RowCopier::create(&others, parts, None).expect_err("other columns");
    let told = refused.to_string();
    assert!(told.contains("has another type than in"), "{told}");
}

/// Writes a file with one column, `x`, of a type in the words of the format. Each row has one value.
fn write_column(path: &Path, kind: &str, numbers: &[i64]) {
    let cells: Vec<Option<i64>> = numbers.iter().copied().map(Some).collect();
    write_cells(path, kind, &cells);
}

/// Writes a file of one column, some of whose rows have no value.
fn write_cells(path: &Path, kind: &str, cells: &[Option<i64>]) {
    let schema = parse_message_type(&format!("message schema {{ {kind} }}")).expect("a type");
    let levels = SchemaDescriptor::new(Arc::new(schema.clone())).column(0);
    let level = |cell: &Option<i64>| cell.map_or(0, |_| levels.max_def_level());
    let definitions: Vec<i16> = cells.iter().map(level).collect();
    let repetitions = vec![0; cells.len()];
    let numbers: Vec<i64> = cells.iter().copied().flatten().collect();
    let numbers = numbers.as_slice();
    let file = File::create(path).expect("created");
    let mut writer =
        SerializedFileWriter::new(file, Arc::new(schema), Default::default()).expect("a writer");
    let mut group = writer.next_row_group().expect("a group");
    let mut column = group.next_column().expect("a column").expect("a column");
    let (definitions, repetitions) = (Some(&definitions[..]), Some(&repetitions[..]));
    fn values<T>(numbers: &[i64], of: impl Fn(i64) -> T) -> Vec<T> {
        numbers.iter().map(|number| of(*number)).collect()
    }
    let written = match column.untyped() {
        ColumnWriter::BoolColumnWriter(column) => {
            column.write_batch(&values(numbers, |one| one != 0), definitions, repetitions)
        }
        ColumnWriter::Int32ColumnWriter(column) => {
            column.write_batch(&values(numbers, |one| one as i32), definitions, repetitions)
        }
        ColumnWriter::Int64ColumnWriter(column) => {
            column.write_batch(&values(numbers, |one| one), definitions, repetitions)
        }
        ColumnWriter::FloatColumnWriter(column) => {
            column.write_batch(&values(numbers, |one| one as f32), definitions, repetitions)
        }
        ColumnWriter::DoubleColumnWriter(column) => {
            column.write_batch(&values(numbers, |one| one as f64), definitions, repetitions)
        }
        ColumnWriter::ByteArrayColumnWriter(column) => column.write_batch(
            &values(numbers, |one| one.to_string().into_bytes().into()),
            definitions,
            repetitions,
        ),
        _ => panic!("no values of {kind}"),
    };
    written.expect("written");
    column.close().expect("closed");
    group.close().expect("closed");
    writer.close().expect("closed");
}

#[test]
fn files_whose_columns_have_other_types_become_one_where_it_is_exact_and_are_refused_otherwise() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let (left, right, out) = (
        path("left.parquet"),
        path("right.parquet"),
        path("out.parquet"),
    );
    let list = |element: &str| {
        format!("optional group x (LIST) {{ repeated group list {{ {element} element; }} }}")
    };
    let (narrow, wide) = (list("required int32"), list("optional int64"));
    let texts = "optional binary x (UTF8);";
    let longs = ["Long(-1)", "Long(7)", "Long(-1)", "Long(7)"];
    let doubles = ["Double(-1.0)", "Double(7.0)", "Double(-1.0)", "Double(7.0)"];
    let taken = [
        ("optional int32 x;", "optional int64 x;", longs),
        (
            "optional int32 x (UINT_32);",
            "optional int64 x;",
            ["Long(4294967295)", "Long(7)", "Long(-1)", "Long(7)"],
        ),
        (
            "optional int32 x (INT_8);",
            "optional int32 x (INT_16);",
            longs,
        ),
        ("optional float x;", "optional double x;", doubles),
        ("required int64 x;", "optional float x;", doubles),
        (
            "optional int32 x (UINT_32);",
            "optional double x;",
            [
                "Double(4294967295.0)",
                "Double(7.0)",
                "Double(-1.0)",
                "Double(7.0)",
            ],
        ),
        ("required int64 x;", "optional int64 x;", longs),
        ("required int64 x;", "required int64 x;", longs),
        (
            narrow.as_str(),
            wide.as_str(),
            [
                "ListInternal(List { elements: [Long(-1)] })",
                "ListInternal(List { elements: [Long(7)] })",
                "ListInternal(List { elements: [Long(-1)] })",
                "ListInternal(List { elements: [Long(7)] })",
            ],
        ),
    ];
    for (one, other, values) in taken {
        for (first, second) in [(one, other), (other, one)] {
            write_column(&left, first, &[-1, 7]);
            write_column(&right, second, &[-1, 7]);
            let found = copy_rows(&[left.clone(), right.clone()], &out);
            assert_eq!(found.expect("it is exact"), (4, 1), "{first} {second}");
            let mut expected = values.to_vec();
            if first != one {
                expected.rotate_left(2);
            }
            assert_eq!(values_of(&out, "x"), expected, "{first} {second}");
            column_types(&[left.clone(), right.clone()], None).expect("it is exact");
        }
    }
    std::fs::remove_file(&out).expect("removed");
    let refused = [
        (
            "optional int64 x;",
            "int64",
            "optional int64 x (UINT_64);",
            "uint64",
        ),
        (
            "optional int64 x;",
            "int64",
            "optional int64 x (TIMESTAMP(MILLIS,true));",
            "timestamp[ms, tz=UTC]",
        ),
        (
            "optional int64 x (TIMESTAMP(MICROS,true));",
            "timestamp[us, tz=UTC]",
            "optional int64 x (TIMESTAMP(MILLIS,true));",
            "timestamp[ms, tz=UTC]",
        ),
        (
            "optional int64 x (TIMESTAMP(MICROS,true));",
            "timestamp[us, tz=UTC]",
            "optional int64 x (TIMESTAMP(MICROS,false));",
            "timestamp[us]",
        ),
        (
            "optional int32 x (DATE);",
            "date32[day]",
            "optional int32 x;",
            "int32",
        ),
        ("optional boolean x;", "bool", "optional int64 x;", "int64"),
        (
            "optional int32 x (DECIMAL(9,2));",
            "decimal(9, 2)",
            "optional int32 x (DECIMAL(9,3));",
            "decimal(9, 3)",
        ),
        (
            "optional int32 x (DECIMAL(9,2));",
            "decimal(9, 2)",
            "optional double x;",
            "double",
        ),
        (texts, "string", "optional binary x;", "binary"),
        (texts, "string", "optional int64 x;", "int64"),
        (wide.as_str(), "list<int64>", "optional int64 x;", "int64"),
    ];
    for (one, name, other, other_name) in refused {
        write_column(&left, one, &[0, 7]);
        write_column(&right, other, &[0, 7]);
        let files = [left.clone(), right.clone()];
        let whole = copy_rows(&files, &out)
            .expect_err("another type")
            .to_string();
        let types = column_types(&files, None)
            .expect_err("another type")
            .to_string();
        assert_eq!(whole, types);
        let (left, right) = (left.display().to_string(), right.display().to_string());
        for part in ["`x`", name, other_name, left.as_str(), right.as_str()] {
            assert!(whole.contains(part), "{part}: {whole}");
        }
        assert!(!out.exists());
    }
}

#[test]
fn lists_of_two_fixed_lengths_and_of_two_structures_are_no_one_column() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out.parquet");
    for ([one, other], parts) in [
        (
            ["fixed_2.parquet", "fixed_3.parquet"],
            ["fixed_size_list<float>[2]", "fixed_size_list<float>[3]"],
        ),
        (
            ["structs_int32.parquet", "structs_int64.parquet"],
            ["INT32 a", "INT64 a"],
        ),
    ] {
        let files = [testdata(one), testdata(other)];
        let told = copy_rows(&files, &out).expect_err("two types").to_string();
        for part in parts.into_iter().chain(["`x`", one, other]) {
            assert!(told.contains(part), "{part}: {told}");
        }
        for file in files {
            let copied = copy_rows(&[file.clone(), file], &out);
            assert_eq!(copied.expect("one type"), (4, 1));
        }
    }
}

#[test]
fn a_whole_number_that_no_float_holds_does_not_become_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let (whole, floats, out) = (
        path("whole.parquet"),
        path("floats.parquet"),
        path("out.parquet"),
    );
    write_column(&floats, "optional double x;", &[1]);
    let most = 1 << 53;
    for (number, is_taken) in [
        (most, true),
        (-most, true),
        (most + 1, false),
        (-most - 1, false),
    ] {
        write_column(&whole, "optional int64 x;", &[number]);
        for files in [[&whole, &floats], [&floats, &whole]] {
            let copied = copy_rows(&files.map(Clone::clone), &out);
            assert_eq!(copied.is_ok(), is_taken, "{number}");
            if let Err(error) = copied {
                let told = error.to_string();
                for part in [&number.to_string(), "`x`", "whole.parquet"] {
                    assert!(told.contains(part), "{told}");
                }
            }
        }
    }
}

#[test]
fn durations_of_two_units_are_no_one_column_though_the_files_hold_plain_numbers() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out.parquet");
    let (seconds, milliseconds) = (
        testdata("duration_s.parquet"),
        testdata("duration_ms.parquet"),
    );
    for (file, unit) in [
        (&seconds, Ticks::Seconds),
        (&milliseconds, Ticks::Milliseconds),
    ] {
        let options = Options::new(vec![file.clone()], Format::Parquet);
        let read = TimeColumns::read(&options, 0).expect("readable");
        assert_eq!(read.get("d"), Some(Some(Meaning::Duration(unit))));
    }
    let files = [seconds.clone(), milliseconds];
    let told = copy_rows(&files, &out).expect_err("two units").to_string();
    assert!(
        told.contains("`d`") && told.contains("duration[ms], and duration[s]"),
        "{told}"
    );
    let plain = folder.path().join("plain.parquet");
    write_column(&plain, "optional int64 d;", &[1]);
    let told = copy_rows(&[seconds.clone(), plain], &out).expect_err("no duration");
    assert!(
        told.to_string().contains("int64, and duration[s]"),
        "{told}"
    );
    assert_eq!(
        copy_rows(&[seconds.clone(), seconds.clone()], &out).expect("one unit"),
        (4, 1)
    );
    assert_eq!(types(&out), types(&seconds));
    let found = column_types(&[testdata("arrow_types.parquet")], None).expect("types");
    let durations = found.iter().filter_map(|column| match column.kind {
        TypeKind::Duration(unit) => Some((column.name.as_str(), unit)),
        _ => None,
    });
    assert_eq!(
        durations.collect::<Vec<_>>(),
        [
            ("d_list", Ticks::Milliseconds),
            ("d_ms", Ticks::Milliseconds),
            ("d_ns", Ticks::Nanoseconds),
            ("d_s", Ticks::Seconds),
            ("d_us", Ticks::Microseconds),
            ("s.d", Ticks::Microseconds),
        ]
    );
}

/// Returns what a file says of its columns, with the types of Arrow in the names that a refusal has.
fn kinds(path: &Path) -> Vec<(String, TypeKind)> {
    let types = column_types(&[path.to_owned()], None).expect("types");
    let types = types.into_iter();
    types.map(|column| (column.name, column.kind)).collect()
}

#[test]
fn types_of_arrow_that_parquet_does_not_have_are_no_plain_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out.parquet");
    let plain = folder.path().join("plain.parquet");
    let json = folder.path().join("json.parquet");
    write_column(&json, "optional binary x (JSON);", &[1]);
    let utc = "optional int64 x (TIMESTAMP(MICROS,true));";
    for (file, named, other, other_named) in [
        (
            testdata("bool8.parquet"),
            "extension<arrow.bool8>",
            "optional int32 x (INT_8);",
            "int8",
        ),
        (
            testdata("zone_berlin.parquet"),
            "timestamp[us, tz=Europe/Berlin]",
            utc,
            "timestamp[us, tz=UTC]",
        ),
        (json, "json", "optional binary x (UTF8);", "string"),
    ] {
        write_column(&plain, other, &[1]);
        for files in [[&file, &plain], [&plain, &file]] {
            let files = files.map(Clone::clone);
            let told = copy_rows(&files, &out).expect_err("two types").to_string();
            let kept = Kept {
                files: files.to_vec(),
                columns: vec!["x".to_owned()],
            };
            let layout = Layout::default();
            let kept = TableWriter::create_with_kept(&out, layout, &kept).expect_err("two types");
            for told in [told, kept.to_string()] {
                for part in ["`x`", named, other_named] {
                    assert!(told.contains(part), "{part}: {told}");
                }
            }
        }
        assert!(copy_rows(&[file.clone(), file], &out).is_ok());
    }
    // The numbers of two zones are the same times.
    write_column(&plain, utc, &[1]);
    let zones = [testdata("zone_berlin.parquet"), plain];
    assert!(column_types(&zones, None).is_ok());
}

#[test]
fn kept_columns_keep_what_arrow_alone_says_of_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kept.parquet");
    let file = testdata("arrow_extras.parquet");
    let expected = kinds(&file);
    let columns: Vec<String> = expected.iter().map(|(name, _)| name.clone()).collect();
    let layout = |names: &[&str]| Layout {
        columns: [ColumnKind::Int, ColumnKind::Float, ColumnKind::Text]
            .into_iter()
            .zip(names)
            .flat_map(|(kind, name)| {
                [false, true].map(|list| ColumnLayout {
                    name: format!("{name}{list}"),
                    kind: Some(kind),
                    list,
                })
            })
            .collect(),
    };
    let kept = Kept {
        files: vec![file.clone()],
        columns: columns.clone(),
    };
    let mut writer = TableWriter::create_with_kept(&path, layout(&["i", "f", "t"]), &kept)
        .expect("the file is created");
    for _ in 0..3 {
        writer.write(&[]).expect("written");
    }
    writer.finish().expect("finished");
    let found = kinds(&path);
    let of_input = |(name, _): &&(String, TypeKind)| columns.contains(name);
    let found: Vec<_> = found.iter().filter(of_input).cloned().collect();
    assert_eq!(found, expected);
    // A refusal names the whole types.
    for (column, named) in [
        ("d", "duration[ms]"),
        ("l", "list<duration[us]>"),
        ("z", "timestamp[us, tz=Europe/Berlin]"),
        ("b", "extension<arrow.bool8>"),
        ("f", "fixed_size_list<float>[2]"),
        ("s.d", "duration[s]"),
    ] {
        let other = folder.path().join("other.parquet");
        write_column(&other, &format!("optional boolean {column};"), &[1]);
        let names = [column.to_owned()];
        let told = column_types(&[path.clone(), other], Some(&names)).expect_err("two types");
        assert!(told.to_string().contains(named), "{named}: {told}");
    }
}

#[test]
fn merged_columns_keep_what_arrow_alone_says_of_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let (out, other) = (
        folder.path().join("out.parquet"),
        folder.path().join("other.parquet"),
    );
    // Of `x` and `l`, neither file has the type of the result.
    let files = ["extras_int8.parquet", "extras_uint16.parquet"].map(testdata);
    copy_rows(&files, &out).expect("one file");
    let of_file = kinds(&files[0]);
    assert_eq!(kinds(&out), of_file);
    for (column, named) in [
        ("x", "int64"),
        ("b", "extension<arrow.bool8>"),
        ("d", "duration[ms]"),
        ("z", "timestamp[us, tz=Europe/Berlin]"),
        ("l", "list<double>"),
    ] {
        write_column(&other, &format!("optional boolean {column};"), &[1]);
        let names = [column.to_owned()];
        let told = column_types(&[out.clone(), other.clone()], Some(&names));
        let told = told.expect_err("two types").to_string();
        assert!(told.contains(named), "{named}: {told}");
    }
}

#[test]
fn a_column_without_a_type_goes_with_lists_and_with_values() {
    let folder = tempfile::tempdir().expect("a folder");
    let (none, typed, out) = (
        folder.path().join("none.parquet"),
        folder.path().join("typed.parquet"),
        folder.path().join("out.parquet"),
    );
    let list = "optional group x (LIST) { repeated group list { optional int64 element; } }";
    for column in [list, "optional int64 x;", "optional binary x (UTF8);"] {
        write_cells(&none, "optional int32 x (UNKNOWN);", &[None, None]);
        write_cells(&typed, column, &[None, Some(5)]);
        for files in [[&none, &typed], [&typed, &none]] {
            let files = files.map(Clone::clone);
            assert_eq!(copy_rows(&files, &out).expect("one column"), (4, 1));
            let values = values_of(&out, "x");
            let is_null = |value: &&String| *value == "Null";
            assert_eq!(values.iter().filter(is_null).count(), 3, "{values:?}");
        }
    }
}

#[test]
fn an_empty_list_is_no_absent_one() {
    let file = testdata("arrow_extras.parquet");
    let mut reader = TableReader::new(vec![file.clone()], Format::Parquet, None, None);
    let mut row = Vec::new();
    let mut found = Vec::new();
    while reader.read(&mut row).expect("read") {
        let place = reader.columns().iter().position(|name| name == "l");
        let place = place.expect("the column");
        let mut is_empty = false;
        reader.empty_lists(|column, places| is_empty |= column == place && places == 0);
        found.push((row[place].list, row[place].values.len(), is_empty));
    }
    assert_eq!(
        found,
        [(true, 2, false), (true, 0, true), (false, 0, false)]
    );
}

#[test]
fn a_column_of_whole_floats_is_written_as_whole_numbers_and_no_other_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let names = ["y", "x"].map(str::to_owned);
    let file = |name: &str, values: &[f64]| {
        let path = folder.path().join(name);
        let row = |value: &f64| {
            [*value, *value].map(|value| Cell {
                values: vec![Value::Float(value)],
                list: false,
            })
        };
        let mut layout = Layout::default();
        let rows: Vec<[Cell; 2]> = values.iter().map(row).collect();
        rows.iter().for_each(|row| layout.see_typed(&names, row));
        let mut writer = TableWriter::create(&path, Format::Parquet, layout).expect("created");
        rows.iter()
            .for_each(|row| writer.write(row).expect("written"));
        writer.finish().expect("finished");
        path
    };
    let parts = ["a.parquet", "b.parquet"].map(|part| folder.path().join(part));
    let copy = |file: PathBuf| {
        let mut copier = RowCopier::create(&[file], parts.clone(), Some("y"))?;
        for _ in 0..3 {
            copier.place(Some(0))?;
        }
        copier.finish(1)
    };
    copy(file("whole.parquet", &[0.0, 2.0, -3.0])).expect("copied");
    assert_eq!(
        values_of(&parts[0], "y"),
        ["Long(0)", "Long(2)", "Long(-3)"]
    );
    assert_eq!(
        values_of(&parts[0], "x"),
        ["Double(0.0)", "Double(2.0)", "Double(-3.0)"]
    );
    let refused = copy(file("parts.parquet", &[0.0, 0.5, 1.0])).expect_err("a fraction");
    let told = refused.to_string();
    assert!(told.contains("the column `y` holds 0.5"), "{told}");
}

#[test]
fn kept_columns_have_the_types_and_values_of_the_original() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kept.parquet");
    for name in FILES {
        let file = testdata(name);
        let mut reader = TableReader::new(vec![file.clone()], Format::Parquet, None, None);
        let mut row = Vec::new();
        let mut count = 0;
        while reader.read(&mut row).expect("read") {
            count += 1;
        }
        let columns = reader.columns().to_vec();
        let kept = Kept {
            // The rows of both files, one after the other.
            files: vec![file.clone(), file.clone()],
            columns: columns.clone(),
        };
        let own = ["own".to_owned()];
        let cell = [Cell {
            values: vec![Value::Int(7)],
            list: false,
        }];
        let mut layout = Layout::default();
        layout.see_typed(&own, &cell);
        let mut writer =
            TableWriter::create_with_kept(&path, layout, &kept).expect("the file is created");
        for _ in 0..2 * count {
            writer.write(&cell).expect("written");
        }
        writer.finish().expect("finished");
        let cells_of = |path: &Path| {
            let mut reader = TableReader::new(vec![path.to_owned()], Format::Parquet, None, None);
            let mut rows = Vec::new();
            while reader.read(&mut row).expect("read") {
                rows.push(format!("{:?}", &row[..columns.len()]));
            }
            assert_eq!(&reader.columns()[..columns.len()], columns, "{name}");
            rows
        };
        let mut cells_of = cells_of;
        let expected = cells_of(&file);
        let twice = [expected.as_slice(), expected.as_slice()].concat();
        assert_eq!(cells_of(&path), twice, "{name}");
        assert_eq!(
            types_of(&path, &columns),
            types_of(&file, &columns),
            "{name}"
        );
    }
}

/// Returns the type of each column that is a leaf, whether values may be missing or not.
fn types_of(path: &Path, columns: &[String]) -> Vec<String> {
    let reader = open(path);
    let schema = reader.metadata().file_metadata().schema_descr();
    let leaves = schema.columns().iter();
    let known = |name: &String| columns.contains(name);
    leaves
        .filter(|leaf| known(&leaf.name().to_owned()) || known(&leaf.path().string()))
        .map(|leaf| {
            format!(
                "{:?} {:?} {:?} {} {} {}",
                leaf.physical_type(),
                leaf.logical_type_ref(),
                leaf.converted_type(),
                leaf.type_length(),
                leaf.type_precision(),
                leaf.type_scale()
            )
        })
        .collect()
}

#[test]
fn a_column_that_cannot_be_kept_is_refused_before_the_first_row() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kept.parquet");
    let create = |files: &[&str], column: &str| {
        let kept = Kept {
            files: files.iter().map(|name| testdata(name)).collect(),
            columns: vec![column.to_owned()],
        };
        let created = TableWriter::create_with_kept(&path, Layout::default(), &kept);
        created.err().map(|error| error.to_string())
    };
    let absent = create(&["types.parquet"], "absent").expect("refused");
    assert!(absent.contains("`absent`"), "{absent}");
    // Whole numbers of 96 bits, and microseconds.
    let other = create(&["types.parquet", "int96.parquet"], "ts_us").expect("refused");
    assert!(other.contains("another type than in"), "{other}");
    assert!(!path.exists());
}

/// Returns what a file says of its columns to readers of Arrow.
fn arrow_schema(path: &Path) -> Option<String> {
    let reader = open(path);
    let keys = reader.metadata().file_metadata().key_value_metadata();
    let pair = keys?.iter().find(|pair| pair.key == "ARROW:schema")?;
    pair.value.clone()
}

#[test]
fn kept_columns_keep_the_wide_texts_views_and_dictionaries_of_arrow() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kept.parquet");
    let file = testdata("wide_texts.parquet");
    let mut columns: Vec<String> = kinds(&file).into_iter().map(|(name, _)| name).collect();
    columns.retain(|name| name != "plain");
    let kept = Kept {
        files: vec![file.clone()],
        columns,
    };
    let write = |kept: &Kept| {
        let writer = TableWriter::create_with_kept(&path, Layout::default(), kept);
        let mut writer = writer.expect("created");
        for _ in 0..3 {
            writer.write(&[]).expect("written");
        }
        writer.finish().expect("finished");
        arrow_schema(&path)
    };
    let schema = write(&kept).expect("a schema of Arrow");
    // The types are those of the input's own schema, which is in it as it is: in base64, 60 digits of it begin at one of three places.
    let of_input = arrow_schema(&file).expect("a schema of Arrow");
    let is_in = (0..4).any(|begin| schema.contains(&of_input[40 + begin..100 + begin]));
    assert!(is_in, "{schema}");
    // Without a schema of Arrow, there is nothing to keep.
    let plain = folder.path().join("plain.parquet");
    write_column(&plain, "optional int64 d;", &[1, 2, 3]);
    let kept = Kept {
        files: vec![plain],
        columns: vec!["d".to_owned()],
    };
    assert_eq!(write(&kept), None);
}

#[test]
fn a_structure_or_map_that_cannot_be_kept_is_named_with_its_type_and_what_is_within() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kept.parquet");
    let file = testdata("arrow_types.parquet");
    let refused = |column: &str| {
        let kept = Kept {
            files: vec![file.clone()],
            columns: vec![column.to_owned()],
        };
        let written = TableWriter::create_with_kept(&path, Layout::default(), &kept);
        let options = Options::new(vec![file.clone()], Format::Parquet);
        let read = Scan::open(options, Schema::default(), vec![column.to_owned()]);
        [written.err(), read.err()].map(|error| {
            let error = error.expect("it cannot be kept");
            trainyard_diagnostic::Diagnostic::from(error).render()
        })
    };
    for (column, parts) in [
        ("s", ["struct<", "keep columns within it: s."]),
        ("m", ["map<", "one value a row"]),
        ("ll", ["list<list<", "one value a row"]),
    ] {
        for told in refused(column) {
            for part in [&format!("`{column}`"), parts[0], parts[1], "can be kept"] {
                assert!(told.contains(part), "{part}: {told}");
            }
            assert!(!told.contains("feature"), "{told}");
        }
    }
    assert!(!path.exists());
}
