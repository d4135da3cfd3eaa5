//! A program with the processes that it starts.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// A program that leads a process group of its own. The whole group is killed when this is dropped: a failed test must not
/// leave processes behind that disturb the next.
#[derive(Debug)]
pub struct Group(pub(crate) Child);

impl Group {
    /// Starts a command.
    ///
    /// # Panics
    /// When the program does not start.
    #[must_use]
    pub fn start(mut command: Command) -> Group {
        Group(
            command
                .process_group(0)
                .spawn()
                .expect("the program starts"),
        )
    }

    /// Whether the program itself has not ended.
    pub fn is_running(&mut self) -> bool {
        self.0.try_wait().is_ok_and(|status| status.is_none())
    }

    /// Sends a signal to the program alone, as `kill` does.
    pub fn signal(&self, signal: i32) {
        // SAFETY: no memory is involved, and the child has not been waited for, so its id is still its own.
        unsafe { libc::kill(self.id(), signal) };
    }

    /// Sends a signal to the program and its processes, as a terminal does for Ctrl-C.
    pub fn signal_all(&self, signal: i32) {
        // SAFETY: as for `signal`; the group was made for this child.
        unsafe { libc::kill(-self.id(), signal) };
    }

    /// Whether the group has members, soon after the program has ended.
    pub(crate) fn has_members(&self) -> bool {
        // SAFETY: signal 0 only asks whether the group has members; the id is not used again so soon.
        unsafe { libc::kill(-self.id(), 0) == 0 }
    }

    fn id(&self) -> i32 {
        self.0.id().cast_signed()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.is_running() {
            self.signal_all(libc::SIGKILL);
            let _ = self.0.wait();
        }
    }
}
