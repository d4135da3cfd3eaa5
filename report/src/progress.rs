//! Progress on standard error: a bar with rate and time left on a terminal, one plain line a point
//! elsewhere, nothing when quiet.
//!
//! The engine talks to [`Progress`] and knows none of the forms; tests use [`Recorded`].

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::safe::printable;
use crate::{Colour, Verbosity, units};

/// Receiver of a run's progress.
pub trait Progress {
    /// A phase of `total` points begins, e.g. `compile` or `measure`.
    fn begin(&mut self, phase: &str, total: u64);

    /// Work on a point has begun.
    fn working(&mut self, label: &str);

    /// A point has ended, with its outcome in a few words (`1.234 ms ±1.2 %`, `crashed: …`).
    fn point(&mut self, label: &str, outcome: &str);

    /// The phase has ended, complete or not.
    fn end(&mut self);

    /// Something worth a line: a warning, a retry.
    fn note(&mut self, text: &str);

    /// Something that only a verbose run is to say.
    fn detail(&mut self, _text: &str) {}
}

/// Shows progress in the form that suits the verbosity and standard error.
pub fn for_stderr(verbosity: Verbosity) -> Box<dyn Progress> {
    match verbosity {
        Verbosity::Quiet => Box::new(Silent),
        Verbosity::Normal if std::io::stderr().is_terminal() => Box::new(Bar::new()),
        // The messages of a verbose run would break up a bar.
        Verbosity::Normal => Box::new(Lines::new(std::io::stderr())),
        Verbosity::Verbose => Box::new(Lines::verbose(std::io::stderr())),
    }
}

/// Says nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&mut self, _phase: &str, _total: u64) {}
    fn working(&mut self, _label: &str) {}
    fn point(&mut self, _label: &str, _outcome: &str) {}
    fn end(&mut self) {}
    fn note(&mut self, _text: &str) {}
}

/// One line a point: `measure 3/40  conv2d_add_relu (2 threads, hot)  1.234 ms ±1.2 %`.
#[derive(Debug)]
pub struct Lines<W: Write> {
    out: W,
    phase: String,
    done: u64,
    total: u64,
    began: Instant,
    says_details: bool,
}

impl<W: Write> Lines<W> {
    /// Lines to `out`.
    pub fn new(out: W) -> Self {
        Self {
            out,
            phase: String::new(),
            done: 0,
            total: 0,
            began: Instant::now(),
            says_details: false,
        }
    }

    /// Lines of a verbose run.
    pub fn verbose(out: W) -> Self {
        Self {
            says_details: true,
            ..Self::new(out)
        }
    }

    /// Prints a line. A closed pipe is no reason to stop measuring.
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{}", printable(text, Colour::Off));
    }
}

impl<W: Write> Progress for Lines<W> {
    fn begin(&mut self, phase: &str, total: u64) {
        self.phase = phase.to_owned();
        self.done = 0;
        self.total = total;
        self.began = Instant::now();
    }

    fn working(&mut self, _label: &str) {}

    fn point(&mut self, label: &str, outcome: &str) {
        self.done += 1;
        let width = self.total.to_string().len();
        let line = format!(
            "{} {:>width$}/{}  {label}  {outcome}",
            self.phase, self.done, self.total
        );
        self.line(&line);
    }

    fn end(&mut self) {
        let line = format!(
            "{} {} of {} in {}",
            self.phase,
            self.done,
            self.total,
            units::wall(self.began.elapsed().as_nanos() as u64)
        );
        self.line(&line);
    }

    fn note(&mut self, text: &str) {
        self.line(text);
    }

    fn detail(&mut self, text: &str) {
        if self.says_details {
            self.line(text);
        }
    }
}

/// A bar that names the current point and shows rate and time left.
#[derive(Debug)]
pub struct Bar {
    bar: ProgressBar,
}

impl Bar {
    /// A bar on standard error.
    pub fn new() -> Self {
        Self {
            bar: ProgressBar::hidden(),
        }
    }
}

impl Default for Bar {
    fn default() -> Self {
        Self::new()
    }
}

impl Progress for Bar {
    fn begin(&mut self, phase: &str, total: u64) {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
        bar.set_style(style());
        bar.set_prefix(phase.to_owned());
        // The clock must run on during a slow point. It is redrawn no faster, because each redraw takes time from the
        // measured cores.
        bar.enable_steady_tick(Duration::from_millis(500));
        self.bar = bar;
    }

    fn working(&mut self, label: &str) {
        self.bar
            .set_message(printable(label, Colour::Off).into_owned());
    }

    fn point(&mut self, _label: &str, _outcome: &str) {
        self.bar.inc(1);
    }

    fn end(&mut self) {
        self.bar.finish_and_clear();
    }

    fn note(&mut self, text: &str) {
        let text = printable(text, Colour::Off);
        // Before its first phase the bar is hidden, and would hide its messages as well.
        if self.bar.is_hidden() {
            let _ = writeln!(std::io::stderr(), "{text}");
        } else {
            self.bar.println(text);
        }
    }
}

/// `measure ━━━━━╸──── 12/40 4.1/s 7s left  conv2d_add_relu (2 threads)`.
const TEMPLATE: &str = "{prefix} {bar:24} {pos}/{len} {rate} {eta} left  {wide_msg}";

fn style() -> ProgressStyle {
    ProgressStyle::with_template(TEMPLATE)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .with_key(
            "rate",
            |state: &ProgressState, out: &mut dyn std::fmt::Write| {
                let _ = write!(out, "{:.1}/s", state.per_sec());
            },
        )
        .progress_chars("━╸─")
}

/// Records progress messages for tests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recorded(
    /// One entry a call.
    pub Vec<String>,
);

impl Progress for Recorded {
    fn begin(&mut self, phase: &str, total: u64) {
        self.0.push(format!("begin {phase} {total}"));
    }

    fn working(&mut self, label: &str) {
        self.0.push(format!("working {label}"));
    }

    fn point(&mut self, label: &str, outcome: &str) {
        self.0.push(format!("point {label}: {outcome}"));
    }

    fn end(&mut self) {
        self.0.push("end".to_owned());
    }

    fn note(&mut self, text: &str) {
        self.0.push(format!("note {text}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drive(progress: &mut dyn Progress) {
        progress.begin("measure", 12);
        progress.working("dense (1 thread)");
        progress.point("dense (1 thread)", "61.00 µs ±1.2 %");
        progress.note("warning: the machine is busy");
        progress.point("softmax (1 thread)", "crashed: signal 11");
        progress.end();
    }

    #[test]
    fn one_line_a_point() {
        let mut out = Vec::new();
        drive(&mut Lines::new(&mut out));
        insta::assert_snapshot!(String::from_utf8(out).unwrap(), @r"
        measure  1/12  dense (1 thread)  61.00 µs ±1.2 %
        warning: the machine is busy
        measure  2/12  softmax (1 thread)  crashed: signal 11
        measure 2 of 12 in 0.0 s
        ");
    }

    #[test]
    fn the_bar_has_a_template_that_parses() {
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
        drive(&mut Bar::new());
    }

    #[test]
    fn a_closed_pipe_stops_nothing() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        drive(&mut Lines::new(Closed));
        let mut recorded = Recorded::default();
        drive(&mut recorded);
        assert_eq!(recorded.0.len(), 6);
    }
}
