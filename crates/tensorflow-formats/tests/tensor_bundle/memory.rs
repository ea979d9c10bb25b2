//! A limit on memory, so that a test fails at a large allocation.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Bytes of address space: far more than any test needs, far less than a damaged length may request.
const ADDRESS_SPACE_BYTES_MAX: u64 = 2 << 30;

/// Limits the address space of this process from now on.
pub(crate) fn limit() {
    let maximum = getrlimit(Resource::As).maximum;
    setrlimit(
        Resource::As,
        Rlimit {
            current: Some(ADDRESS_SPACE_BYTES_MAX),
            maximum,
        },
    )
    .expect("a limit can be lowered");
}
