//! Ctrl-C: the first one lets the point under way end, the second one does not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts how often the user has asked to stop. Clones share the count.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicUsize>);

impl Interrupt {
    /// Counts SIGINT, SIGTERM and SIGHUP of this process from this call on.
    ///
    /// # Errors
    /// Fails if the signals cannot be caught.
    pub fn install() -> anyhow::Result<Interrupt> {
        let interrupt = Interrupt::default();
        let count = Arc::clone(&interrupt.0);
        ctrlc::set_handler(move || {
            count.fetch_add(1, Ordering::Relaxed);
        })?;
        Ok(interrupt)
    }

    /// Whether to stop at the next good moment.
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// Whether to stop at once.
    pub fn urgent(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 1
    }

    /// Asks to stop, as the user would.
    pub fn request(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
