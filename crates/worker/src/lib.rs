//! The worker: joins, waits for ready, trains until told to stop.
