//! Bytes per second of each rule beside a memory copy: `cargo bench -p trainyard-optimizer`.
//!
//! Bytes are those that an update must move: values and slots read and written, gradients read. The copy moves as many
//! bytes, half of them read and half written. The ratio to the copy shows how much of the memory's speed a rule keeps.
//! 64 MiB of values exceed every cache, 256 KiB do not.

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use serde_json::json;
use trainyard_optimizer::OptimizerConfig;

/// The allocator of the daemons. The default allocator does not align blocks to cache lines.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Values of a large table, and of a dense layer.
const LENGTHS: [usize; 2] = [1 << 24, 1 << 16];
const KINDS: [&str; 12] = [
    "sgd",
    "momentum",
    "keras_momentum",
    "adagrad",
    "adagrad_da",
    "adadelta",
    "adam",
    "rmsprop",
    "keras_rmsprop",
    "ftrl",
    "proximal_sgd",
    "proximal_adagrad",
];

fn main() {
    divan::main();
}

fn rule(kind: &str) -> OptimizerConfig {
    serde_json::from_value(json!({"kind": kind, "learning_rate": 0.01}))
        .expect("every rule has defaults")
}

/// Returns the bytes that an update of `length` values moves.
fn moved(rule: &OptimizerConfig, length: usize) -> usize {
    length * 4 * (2 * (1 + rule.slots().len()) + 1)
}

#[divan::bench(args = KINDS, consts = LENGTHS, sample_count = 20)]
fn update<const LENGTH: usize>(bencher: Bencher<'_, '_>, kind: &str) {
    let rule = rule(kind);
    let gradient: Vec<f32> = (0..LENGTH)
        .map(|place| (place % 97) as f32 * 1e-3 - 0.04)
        .collect();
    let mut values = vec![0.1; LENGTH];
    let mut slots: Vec<Vec<f32>> = rule
        .slots()
        .iter()
        .map(|slot| vec![slot.initial; LENGTH])
        .collect();
    let mut step = 0;
    bencher
        .counter(BytesCount::new(moved(&rule, LENGTH)))
        .bench_local(|| {
            step += 1;
            let mut views: Vec<&mut [f32]> = slots.iter_mut().map(Vec::as_mut_slice).collect();
            rule.apply_dense(
                step,
                black_box(&mut values),
                &mut views,
                black_box(&gradient),
            );
        });
}

/// Copies as many bytes as Adagrad moves.
#[divan::bench(consts = LENGTHS, sample_count = 20)]
fn memory_copy<const LENGTH: usize>(bencher: Bencher<'_, '_>) {
    let bytes = moved(&rule("adagrad"), LENGTH);
    let from = vec![1.0_f32; bytes / 8];
    let mut to = vec![0.0_f32; bytes / 8];
    bencher.counter(BytesCount::new(bytes)).bench_local(|| {
        black_box(&mut to).copy_from_slice(black_box(&from));
    });
}
