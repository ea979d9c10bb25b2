//! Tests with files in the form that other programs write.

use safetensors::tensor::TensorView;

use super::*;

fn npy(path: &Path, descr: &str, shape: &str, values: &[u8]) {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("there is room");
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    while (10 + text.len() + 1) % 64 != 0 {
        text.push(' ');
    }
    text.push('\n');
    let length = (text.len() as u16).to_le_bytes();
    std::fs::write(
        path,
        [
            b"\x93NUMPY\x01\x00".as_slice(),
            &length,
            text.as_bytes(),
            values,
        ]
        .concat(),
    )
    .expect("there is room");
}

fn rows(opened: &TensorFiles, variable: &str, rows: Range<usize>, width: usize) -> Vec<f32> {
    let mut out = vec![0.0; rows.len() * width];
    opened.read_rows(variable, rows, &mut out).expect("rows");
    out
}

#[test]
fn arrays_of_a_folder_are_named_by_their_paths_and_read_as_floats() {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes: Vec<u8> = [1.5_f64, -2.0, 3.25, 4.0]
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    npy(
        &folder.path().join("dnn/table/weights.npy"),
        "<f8",
        "(2, 2)",
        &bytes,
    );
    npy(
        &folder.path().join("bias.npy"),
        "<f2",
        "(1,)",
        &0x3c00_u16.to_le_bytes(),
    );
    let opened = TensorFiles::open(folder.path())
        .expect("they are read")
        .expect("they are there");
    let shapes: Vec<_> = opened.variables().collect();
    assert_eq!(
        shapes,
        [("bias", [1].as_slice()), ("dnn/table/weights", &[2, 2])]
    );
    assert_eq!(rows(&opened, "dnn/table/weights", 1..2, 2), [3.25, 4.0]);
    assert_eq!(rows(&opened, "bias", 0..1, 1), [1.0]);
    let single = TensorFiles::open(&folder.path().join("bias.npy"))
        .expect("it is read")
        .expect("it is there");
    assert_eq!(single.variables().next(), Some(("bias", [1].as_slice())));
}

#[test]
fn an_export_tells_its_step_its_ids_and_what_other_ids_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let export = folder.path().join("export/best/1700000002");
    std::fs::create_dir_all(&export).expect("there is room");
    // An older export beside it, which must not be read.
    std::fs::create_dir_all(folder.path().join("export/best/1700000001")).expect("there is room");
    let values: Vec<u8> = (0..6)
        .flat_map(|value| (value as f32).to_le_bytes())
        .collect();
    let ids: Vec<u8> = [3_u64, 40, u64::MAX]
        .iter()
        .flat_map(|id| id.to_le_bytes())
        .collect();
    let views = [
        (
            "user",
            TensorView::new(safetensors::Dtype::F32, vec![3, 2], &values).expect("a view"),
        ),
        (
            "user/ids",
            TensorView::new(safetensors::Dtype::U64, vec![3], &ids).expect("a view"),
        ),
    ];
    safetensors::serialize_to_file(views, None, &export.join("model.safetensors"))
        .expect("there is room");
    let described = r#"{"global_step": 80, "metrics": {}, "variables": [{"name": "user", "shape": [3, 2], "ids": "user/ids",
        "others": {"initializer": {"kind": "zeros"}, "seed": 7, "shape": [1000, 2]}}]}"#;
    std::fs::write(export.join("model.json"), described).expect("there is room");
    for path in [
        folder.path().join("export/best"),
        export.clone(),
        export.join("model.safetensors"),
    ] {
        let opened = TensorFiles::open(&path)
            .expect("it is read")
            .expect("it is there");
        assert_eq!(opened.global_step(), Some(80));
        assert_eq!(
            opened.variables().collect::<Vec<_>>(),
            [("user", [3, 2].as_slice())]
        );
        assert!(opened.is_dynamic("user"));
        let first = opened.first_rows("user").expect("it is told");
        assert_eq!((first.seed, first.shape), (7, vec![1000, 2]));
        let lots = opened
            .lots("user", 4..u128::from(u64::MAX) + 1)
            .expect("a table");
        let read: Vec<DynamicRows> = lots.collect::<Result<_, _>>().expect("rows");
        assert_eq!(
            (read[0].ids.as_slice(), read[0].values.as_slice()),
            ([40, u64::MAX].as_slice(), [2.0, 3.0, 4.0, 5.0].as_slice())
        );
    }
}

#[test]
fn damaged_files_are_refused_and_a_folder_without_any_is_none() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(
        TensorFiles::open(folder.path())
            .expect("it is read")
            .is_none()
    );
    assert!(
        TensorFiles::open(&folder.path().join("absent"))
            .expect("it is read")
            .is_none()
    );
    let refused = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("there is room");
        TensorFiles::open(&path)
            .expect_err("it is refused")
            .to_string()
    };
    assert!(refused("a.safetensors", b"abc").contains("3 bytes and ends in its header"));
    assert!(refused("b.safetensors", &[0xff; 64]).contains("no safetensors file"));
    assert!(refused("c.safetensors", b"\x02\0\0\0\0\0\0\0[]").contains("no safetensors file"));
    assert!(refused("d.npy", b"\x93NUMPY\x01\x00\xff\x00{").contains("ends in its header"));
    npy(&folder.path().join("e.npy"), "<f4", "(4, 1000)", &[0; 16]);
    let short = TensorFiles::open(&folder.path().join("e.npy"))
        .expect_err("it is refused")
        .to_string();
    assert!(short.contains("ends behind its 144 bytes"), "{short}");
    npy(
        &folder.path().join("f.npy"),
        "<f4",
        &format!("({}, {})", usize::MAX, usize::MAX),
        &[0; 16],
    );
    let long = TensorFiles::open(&folder.path().join("f.npy"))
        .expect_err("it is refused")
        .to_string();
    assert!(long.contains("ends behind its"), "{long}");
    let graph = folder.path().join("graph");
    std::fs::create_dir(&graph).expect("there is room");
    std::fs::write(graph.join("model.onnx"), b"graph").expect("there is room");
    assert!(
        TensorFiles::open(&graph)
            .expect_err("it is refused")
            .to_string()
            .contains("--format safetensors")
    );
}

#[test]
fn a_table_is_mapped_and_a_flipped_bit_is_found_by_its_checksum() {
    let folder = tempfile::tempdir().expect("a folder");
    let values: Vec<u8> = (0..6)
        .flat_map(|value| (value as f32).to_le_bytes())
        .collect();
    let ids: Vec<u8> = [3_u64, 40, u64::MAX]
        .iter()
        .flat_map(|id| id.to_le_bytes())
        .collect();
    let write = |values: &[u8]| {
        let table = TensorView::new(safetensors::Dtype::F32, vec![3, 2], values);
        let named = TensorView::new(safetensors::Dtype::U64, vec![3], &ids);
        let half = TensorView::new(safetensors::Dtype::F16, vec![1], &[0, 0x3c]);
        let views = [
            ("user", table.expect("a view")),
            ("user/ids", named.expect("a view")),
            ("half", half.expect("a view")),
        ];
        let path = folder.path().join("model.safetensors");
        safetensors::serialize_to_file(views, None, &path).expect("there is room");
    };
    write(&values);
    let described = serde_json::json!({"global_step": 1, "variables": [
        {"name": "user", "shape": [3, 2], "crc32c": crc32c::crc32c(&values), "ids_crc32c": crc32c::crc32c(&ids)},
        {"name": "half", "shape": [1]},
    ]});
    let path = folder.path().join("model.json");
    std::fs::write(path, described.to_string()).expect("there is room");
    let open = || {
        let opened = TensorFiles::open(folder.path()).expect("it is read");
        opened.expect("it is there")
    };
    let opened = open();
    let mapped = opened.mapped("user").expect("it is mapped");
    assert_eq!(*mapped.expect("a table"), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let mapped = opened.mapped_ids("user").expect("it is mapped");
    assert_eq!(*mapped.expect("a table"), [3, 40, u64::MAX]);
    let half = opened.mapped("half").expect("it is no error");
    assert!(half.is_none(), "halves are converted, and not mapped");
    assert_eq!(opened.checked().collect::<Vec<_>>(), ["user", "user/ids"]);
    for name in ["user", "user/ids", "half"] {
        opened.verify(name).expect("nothing has changed");
    }
    let mut flipped = values.clone();
    flipped[9] ^= 4;
    std::fs::remove_file(folder.path().join("model.safetensors")).expect("it is there");
    write(&flipped);
    let told = open()
        .verify("user")
        .expect_err("a bit differs")
        .to_string();
    assert!(told.contains("user: crc32c"), "{told}");
}
