//! Writes drawn digits as CSV: `make-digits [FOLDER]`, `runs/digits` by default.
#![expect(clippy::disallowed_methods, reason = "a program of one argument")]

mod digit;

use std::fs::File;
use std::io::{BufWriter, Result, Write};
use std::path::{Path, PathBuf};

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use digit::{PIXELS, draw};

/// Files, images in each, and seeds.
const FILES: [(&str, usize, u64); 2] = [("train.csv", 10_000, 1), ("test.csv", 2_000, 2)];

fn main() -> Result<()> {
    let folder = std::env::args_os()
        .nth(1)
        .map_or(PathBuf::from("runs/digits"), PathBuf::from);
    if folder.to_string_lossy().starts_with('-') {
        return writeln!(
            std::io::stdout(),
            "usage: make-digits [FOLDER]   (runs/digits by default)"
        );
    }
    std::fs::create_dir_all(&folder)?;
    for (name, images, seed) in FILES {
        let path = folder.join(name);
        write(&path, images, seed)?;
        writeln!(std::io::stdout(), "{images} digits: {}", path.display())?;
    }
    Ok(())
}

/// Writes a header, then a label and 784 grey values a line.
fn write(path: &Path, images: usize, seed: u64) -> Result<()> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut file = BufWriter::new(File::create(path)?);
    write!(file, "label")?;
    (0..PIXELS).try_for_each(|pixel| write!(file, ",px{pixel}"))?;
    for label in (0..10).cycle().take(images) {
        write!(file, "\n{label}")?;
        draw(label, &mut random)
            .iter()
            .try_for_each(|pixel| write!(file, ",{pixel}"))?;
    }
    writeln!(file)?;
    file.flush()
}
