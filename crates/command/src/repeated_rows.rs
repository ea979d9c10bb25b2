//! Records that are both trained on and evaluated with, under other names of files: such metrics are those of records that the model
//! has learnt.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_input::{Cell, Error, Options, TableReader, Value};

use crate::data_sample::Extent;

/// Records of the evaluation input that are looked for.
const EVALUATED_MAX: u64 = 1000;

/// Fewest records that allow conclusions.
const EVALUATED_MIN: usize = 20;

/// Least share of records that are different from each other. Records of few values are alike by chance.
const DISTINCT_SHARE_MIN: f64 = 0.9;

/// Least share of repeated records that is no chance.
const REPEATED_SHARE_MIN: f64 = 0.5;

/// Returns a warning if most of the first records of the evaluation input are among those of the training input, of which `extent` is
/// read.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn repeated_rows(
    train: &Options,
    eval: &Options,
    extent: Extent,
) -> Result<Option<Diagnostic>, Diagnostic> {
    let mut first = Vec::new();
    each_row(eval, EVALUATED_MAX, &mut |row| first.push(row))?;
    let evaluated: HashSet<u64> = first.iter().copied().collect();
    if first.len() < EVALUATED_MIN || evaluated.len() < 2 {
        return Ok(None);
    }
    if (evaluated.len() as f64) < DISTINCT_SHARE_MIN * first.len() as f64 {
        // Records that are alike by chance are not so in the same order.
        let mut trained = Vec::new();
        each_row(train, EVALUATED_MAX, &mut |row| trained.push(row))?;
        return Ok((trained == first).then(|| warning(first.len(), first.len())));
    }
    let most = match extent {
        Extent::OfEachFile(rows) => rows.saturating_mul(train.files.len() as u64),
        Extent::OfAll(rows) => rows,
        Extent::Whole => u64::MAX,
    };
    let mut found = HashSet::new();
    each_row(train, most, &mut |row| {
        if evaluated.contains(&row) {
            found.insert(row);
        }
    })?;
    if (found.len() as f64) < REPEATED_SHARE_MIN * evaluated.len() as f64 {
        return Ok(None);
    }
    Ok(Some(warning(found.len(), evaluated.len())))
}

fn warning(found: usize, evaluated: usize) -> Diagnostic {
    let message = format!(
        "{found} of the first {evaluated} records of the evaluation files are in the training files, too: the metrics are those of \
         records that the model has learnt"
    );
    Diagnostic::warning(Code::E4005, message)
        .help("evaluate with records that training does not have")
}

/// Calls `each` with the hash of each of about `most` records: the first ones of each file.
fn each_row(options: &Options, most: u64, each: &mut dyn FnMut(u64)) -> Result<(), Diagnostic> {
    let of_file = most.div_ceil(options.files.len().max(1) as u64);
    let mut row = Vec::new();
    for file in &options.files {
        let reader = TableReader::new(
            vec![file.clone()],
            options.format,
            options.compression,
            options.columns.clone(),
        );
        let mut reader = reader.in_style(options.text.clone());
        if options.trim {
            reader = reader.trimmed();
        }
        for _ in 0..of_file {
            match reader.read(&mut row) {
                Ok(true) => each(hash(reader.columns(), &row)),
                Ok(false) => break,
                Err(Error::Row(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

/// Returns the hash of a record. The order of the columns says nothing.
fn hash(names: &[String], row: &[Cell]) -> u64 {
    let of_cell = |(name, cell): (&String, &Cell)| {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        for value in &cell.values {
            match value {
                Value::Int(number) => number.hash(&mut hasher),
                Value::Float(number) => number.to_bits().hash(&mut hasher),
                Value::Text(text) => text.hash(&mut hasher),
                Value::Missing => 0_u8.hash(&mut hasher),
            }
        }
        hasher.finish()
    };
    let cells = names.iter().zip(row);
    cells.map(of_cell).fold(0, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use trainyard_input::Format;

    use super::*;

    #[test]
    fn copies_of_training_records_are_told_and_records_of_few_values_are_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, header: &str, value: &dyn Fn(usize) -> String| {
            let rows: String = (0..200).map(|row| value(row) + "\n").collect();
            let path = folder.path().join(name);
            std::fs::write(&path, format!("{header}\n{rows}")).expect("written");
            Options::new(vec![path], Format::Csv)
        };
        let train = write("train.csv", "x,y", &|row| format!("{row}.5,{}", row % 2));
        let copy = write("copy.csv", "y,x", &|row| {
            let row = 199 - row;
            format!("{},{row}.5", row % 2)
        });
        let other = write("other.csv", "x,y", &|row| format!("{row}.25,{}", row % 2));
        let few = write("few.csv", "x,y", &|row| format!("{},{}", row % 3, row % 2));
        let told = |train: &Options, eval: &Options| {
            let found = repeated_rows(train, eval, Extent::OfAll(1000)).expect("read");
            found.map(|warning| warning.message)
        };
        let message = told(&train, &copy).expect("a warning");
        assert!(message.contains("200 of the first 200"), "{message}");
        assert_eq!(told(&train, &other), None);
        let shifted = write("shifted.csv", "x,y", &|row| {
            format!("{},{}", (row + 1) % 3, row % 2)
        });
        assert_eq!(told(&few, &shifted), None);
        assert!(told(&few, &few).is_some());
    }
}
