//! Tells for which file the start of a run waits: a disk that hangs, or a network file system whose server is away, answers nothing
//! and gives no error.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tracing::warn;

/// Time after which a line of the log names the file.
const FIRST_NOTICE_AFTER: Duration = Duration::from_secs(2);
/// Time between two such lines.
const NOTICE_INTERVAL: Duration = Duration::from_secs(10);

/// The file or folder that is being looked at, and since when.
type Look = Arc<Mutex<(PathBuf, Instant)>>;

/// Watches the start of a run until it is dropped.
#[derive(Debug)]
pub(crate) struct StartWatch {
    look: Look,
    _is_starting: Sender<()>,
}

impl StartWatch {
    /// Begins with a look at `path`.
    pub(crate) fn begin(path: &Path) -> Self {
        let look: Look = Arc::new(Mutex::new((path.to_owned(), Instant::now())));
        let (is_starting, ended) = channel::<()>();
        let watched = Arc::clone(&look);
        let watch = move || {
            let mut pause = FIRST_NOTICE_AFTER;
            while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                let (path, since) = watched
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .clone();
                let age = since.elapsed();
                pause = FIRST_NOTICE_AFTER.saturating_sub(age);
                if pause.is_zero() {
                    pause = NOTICE_INTERVAL;
                    let seconds = format!("{:.1}", age.as_secs_f64());
                    warn!(work = "start", path = %path.display(), seconds, "waiting for files: the disk is slow, or it hangs");
                }
            }
        };
        // Without a thread for it, nothing is told.
        let thread = thread::Builder::new().name("start-watch".to_owned());
        drop(thread.spawn(watch));
        Self {
            look,
            _is_starting: is_starting,
        }
    }

    /// Goes on with a look at `path`.
    pub(crate) fn look_at(&self, path: &Path) {
        *self.look.lock().unwrap_or_else(PoisonError::into_inner) =
            (path.to_owned(), Instant::now());
    }
}
