//! Pages and files that show a run to people: the chief's page and its API, the curves that outlive the chief, and summaries for TensorBoard.

mod clock;
mod evaluations;
pub mod history_file;
mod page;
mod run_history;
mod summary_writer;
mod time_series;

pub use clock::Clock;
pub use evaluations::evaluations;
pub use page::{RunPage, missing};
pub use run_history::{Published, RunHistory, Saved};
pub use summary_writer::SummaryWriter;
