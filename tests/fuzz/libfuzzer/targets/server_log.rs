//! See `server_log` in trainyard-fuzz.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| trainyard_fuzz::server_log::run(data));
