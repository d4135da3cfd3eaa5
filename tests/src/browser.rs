//! A headless Chromium, where one is installed: what a page becomes when its scripts have run.

use std::path::Path;
use std::process::Command;

/// A browser of this machine.
#[derive(Debug, Clone, Copy)]
pub struct Browser(&'static str);

impl Browser {
    /// One that starts, if any does.
    pub fn find() -> Option<Browser> {
        let starts = |name: &&str| {
            let version = Command::new(name).arg("--version").output();
            version.is_ok_and(|output| output.status.success())
        };
        let names = ["chromium", "chromium-browser", "google-chrome"];
        names.into_iter().find(starts).map(Browser)
    }

    /// The DOM of a page's file after its scripts, in a window of this width in pixels; Chromium's are not narrower than 500.
    ///
    /// # Panics
    /// The browser does not start any more.
    pub fn dom(self, page: &Path, width: u32) -> String {
        let output = Command::new(self.0)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-background-networking",
                "--virtual-time-budget=5000",
                "--dump-dom",
            ])
            .arg(format!("--window-size={width},900"))
            .arg(format!("file://{}", page.display()))
            .output()
            .expect("the browser starts");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}
