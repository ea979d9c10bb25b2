//! The threads that compute a step (`intra_op_parallelism_threads` of TensorFlow's `ConfigProto`).

use rayon::{ThreadPool, ThreadPoolBuilder};
use trainyard_diagnostic::{Code, Diagnostic};

/// The threads that share the work of a step. The results do not depend on their number.
#[derive(Debug)]
pub struct Threads {
    /// `None` if the caller's own thread is enough.
    pool: Option<ThreadPool>,
}

impl Threads {
    /// Starts `count` threads; 0 = as many as the cores that the process may use.
    ///
    /// # Errors
    /// The system does not start as many threads.
    pub fn start(count: usize) -> Result<Self, Diagnostic> {
        let count = match count {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            count => count,
        };
        if count == 1 {
            return Ok(Self { pool: None });
        }
        let builder = ThreadPoolBuilder::new().num_threads(count);
        let pool = builder.thread_name(|index| format!("compute-{index}")).build().map_err(|error| {
            let message = format!("the {count} compute threads cannot be started: {error}");
            Diagnostic::error(Code::E9002, message)
                .help("lower run.intra_op_parallelism_threads, or raise the limit of threads (ulimit -u)")
        })?;
        Ok(Self { pool: Some(pool) })
    }

    /// Returns the number of threads, at least 1.
    pub fn count(&self) -> usize {
        self.pool
            .as_ref()
            .map_or(1, ThreadPool::current_num_threads)
    }

    /// Runs the work of a step on the threads, and returns its result. The caller waits.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        match &self.pool {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_sees_as_many_threads_as_were_asked_for() {
        for count in [1, 3] {
            let threads = Threads::start(count).expect("threads start");
            assert_eq!(
                (threads.count(), threads.run(trainyard_tensor::threads)),
                (count, count)
            );
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        assert_eq!(Threads::start(0).expect("threads start").count(), cores);
    }
}
