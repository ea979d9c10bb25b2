//! An alternate screen of the terminal, which is restored at the end.

use std::io::Write as _;

use console::{Key, Term};
use tokio::sync::mpsc;
use trainyard_diagnostic::{Code, Diagnostic};

/// Opens the alternate screen, and hides the cursor.
const OPEN: &str = "\x1b[?1049h\x1b[?25l";
/// Shows the cursor, and closes the alternate screen.
const CLOSE: &str = "\x1b[?25h\x1b[?1049l";

/// The terminal with an open alternate screen.
pub(super) struct Screen {
    terminal: Term,
    ends: mpsc::Receiver<()>,
}

impl Screen {
    /// Opens the screen, and starts to listen for `q`, escape and Ctrl-C.
    ///
    /// # Errors
    /// The terminal is closed.
    pub(super) fn open() -> Result<Self, Diagnostic> {
        let (sender, ends) = mpsc::channel(1);
        let keys = sender.clone();
        std::thread::spawn(move || {
            let terminal = Term::stdout();
            loop {
                match terminal.read_key() {
                    Ok(Key::Char('q' | 'Q') | Key::Escape | Key::CtrlC) | Err(_) => break,
                    Ok(_) => {}
                }
            }
            let _ = keys.blocking_send(());
        });
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                let _ = sender.send(()).await;
            }
        });
        let screen = Self {
            terminal: Term::stdout(),
            ends,
        };
        screen.write(OPEN)?;
        Ok(screen)
    }

    /// Returns the columns of the terminal.
    pub(super) fn width(&self) -> usize {
        usize::from(self.terminal.size().1).max(20)
    }

    /// Shows as many lines as fit. A pending read of a key keeps the terminal in raw mode, in which a line break does
    /// not return to the left margin.
    pub(super) fn draw(&self, lines: &[String]) -> Result<(), Diagnostic> {
        let rows = usize::from(self.terminal.size().0).max(2);
        let mut text = "\x1b[H".to_owned();
        for line in lines.iter().take(rows - 1) {
            text.push_str(line);
            text.push_str("\x1b[K\r\n");
        }
        text.push_str("\x1b[J\x1b[7m q \x1b[0m ends");
        self.write(&text)
    }

    /// Waits until a key or a signal ends the display.
    pub(super) async fn told_to_end(&mut self) {
        self.ends.recv().await;
    }

    fn write(&self, text: &str) -> Result<(), Diagnostic> {
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())
            .and_then(|()| out.flush())
            .map_err(|error| {
                Diagnostic::error(
                    Code::E9002,
                    format!("the terminal cannot be written to: {error}"),
                )
            })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.write(CLOSE);
    }
}
