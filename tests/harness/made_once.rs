//! What several tests of the suite read, and the first of them makes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Names the folder of a run of the suite.
pub(crate) const FOLDER: &str = "TRAINYARD_SUITE_FOLDER";

/// Returns a folder with what `make` puts there: once in a run of the suite, whichever tests ask for the name. None of
/// them may write there. Where a test dies meanwhile, the next one makes it anew.
pub fn made_once(name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let suite = std::env::var_os(FOLDER).expect("the suite names its folder to its tests");
    let suite = Path::new(&suite);
    // The system lets go of the lock when the process that holds it ends.
    let lock = File::create(suite.join(format!("{name}.lock"))).expect("a lock file");
    lock.lock().expect("the lock");
    let folder = suite.join(name);
    let made = suite.join(format!("{name}.made"));
    if !made.exists() {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        make(&folder);
        File::create(made).expect("a mark");
    }
    folder
}
