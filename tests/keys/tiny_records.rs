//! The data of the tiny jobs: the same records in every format, and some with mistakes.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use trainyard_tests::Program;

use crate::keys::site::LIMIT;

/// Records.
const ROWS: usize = 48;
/// Columns of `rows.csv`.
pub(crate) const COLUMNS: &str = "x,z,n,word,user,rare,tags,tag_weights,ids,padded,pair,pair_semicolons,gaps,gaps_na,spaced,\
                                  w,y,y2,answer,answer_dot,k,color,labels,labels_semicolons,r,count,r_pair,moment";

/// Encodings, with the beginning of each word, as bytes and as text.
pub(crate) const ENCODED: [(&str, &[u8], &str); 7] = [
    ("latin1", b"\xe9", "é"),
    ("windows-1250", b"\xe8", "č"),
    ("windows-1251", b"\xe4\xe0", "да"),
    ("gb18030", b"\xba\xec", "红"),
    ("big5", b"\xac\xf5", "紅"),
    ("shift-jis", b"\x90\xd4", "赤"),
    ("euc-kr", b"\xbb\xa1", "빨"),
];

/// Parts of the golden section, which lie evenly between 0 and 1.
fn fraction(row: usize, factor: f64) -> f64 {
    ((row + 1) as f64 * factor).fract()
}

/// Fields of a record, in the order of [`COLUMNS`].
fn fields(row: usize) -> Vec<String> {
    let x = fraction(row, 0.618_034) * 4.0 - 2.0;
    let z = fraction(row, 0.414_214) * 4.0 - 2.0;
    let word = row * 3 % 5;
    let n = row * 7 % 6;
    let user = row * 5 % 6;
    let y = usize::from(x - 0.5 * z + word as f64 > 2.0);
    let y2 = usize::from(row.is_multiple_of(3));
    let answer = if y == 1 { ">50K" } else { "<=50K" };
    let dot = if row.is_multiple_of(2) { "." } else { "" };
    let k = row % 3;
    let labels = [k.to_string(), format!("{k}|{}", (k + 1) % 3)][row % 2].clone();
    let gap = row % 5 == 4;
    vec![
        format!("{x:.4}"),
        format!("{z:.4}"),
        n.to_string(),
        format!("w{word}"),
        format!("u{user}"),
        (if row == 0 { "seldom" } else { "often" }).to_owned(),
        format!("a{}|b{}", row % 3, row % 4),
        format!("0.5|{}", 1 + row % 3),
        format!("{}|{}", row % 3, 3 + row % 2),
        format!("{n:02}"),
        format!("{x:.4}|{z:.4}"),
        format!("{x:.4};{z:.4}"),
        if gap {
            String::new()
        } else {
            format!("{x:.4}")
        },
        if gap {
            "NA".to_owned()
        } else {
            format!("{x:.4}")
        },
        if row.is_multiple_of(2) {
            format!(" w{word} ")
        } else {
            format!("w{word}")
        },
        (if row.is_multiple_of(3) { "2.0" } else { "0.5" }).to_owned(),
        y.to_string(),
        y2.to_string(),
        answer.to_owned(),
        format!("{answer}{dot}"),
        k.to_string(),
        ["red", "green", "blue"][k].to_owned(),
        labels.clone(),
        labels.replace('|', ";"),
        format!("{:.4}", 2.0 * x + 0.5),
        (row % 4).to_string(),
        format!("{x:.4}|{:.4}", -z),
        // Five thousand seconds from one to the next: of 48 records, 66 hours.
        (1_600_000_000 + row * 5000).to_string(),
    ]
}

/// Writes all files.
pub(crate) fn write(folder: &Path) {
    let put = |name: &str, text: &[u8]| {
        std::fs::write(folder.join(name), text).expect("the data is written")
    };
    let records: Vec<String> = (0..ROWS).map(|row| fields(row).join(",")).collect();
    let lines = |records: &[String]| {
        records
            .iter()
            .fold(String::new(), |text, line| text + line + "\n")
    };
    let table = |records: &[String]| format!("{COLUMNS}\n{}", lines(records));
    let whole = table(&records);
    put("rows.csv", whole.as_bytes());
    put(
        "reversed.csv",
        table(&records.iter().rev().cloned().collect::<Vec<_>>()).as_bytes(),
    );
    put("headless.csv", lines(&records).as_bytes());
    let semicolons = whole.replace(';', "/").replace(',', ";");
    put("semicolons.csv", semicolons.as_bytes());
    put("commas.csv", semicolons.replace('.', ",").as_bytes());
    for (encoding, begin, text) in ENCODED {
        let file = |begin: &[u8]| {
            let mut bytes = format!("{COLUMNS}\n").into_bytes();
            for record in &records {
                let (before, after) = record.split_once(",w").expect("a word");
                bytes.extend([before.as_bytes(), b",", begin, after.as_bytes(), b"\n"].concat());
            }
            bytes
        };
        put(&format!("{encoding}.csv"), &file(begin));
        put(&format!("{encoding}-as-utf-8.csv"), &file(text.as_bytes()));
    }
    // The column `moment` with groups of digits, and with a unit.
    let moments = |of: &dyn Fn(&str) -> String| {
        let with = |line: &str| match line.rsplit_once(',') {
            Some((before, moment)) if moment != "moment" => format!("{before},{}\n", of(moment)),
            _ => format!("{line}\n"),
        };
        whole.lines().map(with).collect::<String>()
    };
    let grouped = |moment: &str| {
        let (billions, rest) = moment.split_at(1);
        format!("{billions}'{}'{}'{}", &rest[..3], &rest[3..6], &rest[6..])
    };
    put("grouped.csv", moments(&grouped).as_bytes());
    put(
        "units.csv",
        moments(&|moment| format!("{moment} s")).as_bytes(),
    );
    put("rows.text", whole.replace(',', "\t").as_bytes());
    put("plain.gz", whole.as_bytes());
    put("gzip.bytes", &gzip(&whole));
    put("zlib.bytes", &zlib(&whole));
    put("first.csv", table(&records[..1]).as_bytes());
    put("second.csv", table(&records[1..2]).as_bytes());
    put("rest.csv", table(&records[2..]).as_bytes());
    let bad = |row: usize| {
        if matches!(row, 10 | 20 | 30) {
            "oops"
        } else {
            ""
        }
    };
    let spoiled: Vec<String> = (0..ROWS)
        .map(|row| format!("{}{}", bad(row), records[row]))
        .collect();
    put("bad.csv", table(&spoiled).as_bytes());
    put("words.txt", b"w0\nw1\nw3\n");
    let pairs = |base: usize| {
        (0..ROWS).fold(String::new(), |mut text, row| {
            let x = fraction(row, 0.618_034);
            let z = fraction(row, 0.414_214);
            let one = base + row % 3;
            let other = base + 3 + row % 2;
            let _ = writeln!(text, "{} {one}:{x:.4} {other}:{z:.4}", usize::from(x > z));
            text
        })
    };
    put("one.svm", pairs(1).as_bytes());
    put("zero.svm", pairs(0).as_bytes());
    put("svm.csv", svm_as_csv().as_bytes());
    // Numbers whose gradients are infinite, in one record of each batch of 8 among the first 40.
    let poison = |row: usize| row < 40 && row.is_multiple_of(8);
    let rows = |poisoned: &dyn Fn(usize) -> bool| {
        (0..80).fold("x,y\n".to_owned(), |mut text, row| {
            let x = row as f64 / 80.0;
            let _ = if poisoned(row) {
                writeln!(text, "3e38,1000")
            } else {
                writeln!(text, "{x},{}", x / 2.0)
            };
            text
        })
    };
    put("poisoned.csv", rows(&poison).as_bytes());
    put("numbers.csv", rows(&|_| false).as_bytes());
}

/// The pairs of `one.svm` as columns of numbers and weights.
fn svm_as_csv() -> String {
    (0..ROWS).fold("label,index,value\n".to_owned(), |mut text, row| {
        let x = fraction(row, 0.618_034);
        let z = fraction(row, 0.414_214);
        let _ = writeln!(
            text,
            "{},{}|{},{x:.4}|{z:.4}",
            usize::from(x > z),
            row % 3,
            3 + row % 2
        );
        text
    })
}

/// Writes `rows.csv` as TFRecord and Parquet, too.
pub(crate) fn convert(folder: &Path) {
    for name in ["rows.tfrecord", "rows.parquet"] {
        let from = folder.join("rows.csv");
        let to = folder.join(name);
        let arguments = ["convert", &from.to_string_lossy(), &to.to_string_lossy()];
        let ended = Program::start("trainyard", &arguments, &[]).wait(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.output);
    }
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}

fn zlib(text: &str) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}
