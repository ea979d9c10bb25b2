//! Rows of comma and tab separated files.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trainyard_input::Format;

fuzz_target!(|data: &[u8]| {
    let Some((variant, bytes)) = data.split_first() else { return };
    let format = if variant & 64 == 0 { Format::Csv } else { Format::Tsv };
    trainyard_fuzz::read_rows("csv", format, *variant, bytes);
});
