//! Loops compiled for the vectors of the processor.

/// Runs `work` compiled for AVX2 and FMA where the processor has them, else for what every processor has. Closures and what
/// they call are to be marked `#[inline(always)]`, or they stay as they were compiled. Results are the same bits either way.
#[inline(always)]
pub fn vectorize<T>(work: impl FnOnce() -> T) -> T {
    #[cfg(target_arch = "x86_64")]
    if let Some(avx2) = pulp::x86::V3::try_new() {
        return avx2.vectorize(work);
    }
    pulp::Arch::new().dispatch(work)
}
