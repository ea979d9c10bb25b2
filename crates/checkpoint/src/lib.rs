//! Checkpoints: layout on disk, manifest, writer, reader and retention.
