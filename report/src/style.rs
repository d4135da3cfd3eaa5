//! Width and colour of the terminal that text is rendered for.

use std::io::IsTerminal;

/// Whether escape sequences may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// Bold, red, yellow and green.
    On,
    /// Text only.
    Off,
}

/// The terminal's capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Columns of the terminal; `None` where nothing is cut (files, pipes).
    pub width: Option<usize>,
    /// Columns beyond which the rows of a table go on in further lines, where nothing is cut; `None` to never fold.
    pub fold: Option<usize>,
    /// Colour or not.
    pub colour: Colour,
}

impl Style {
    /// Text only, nothing cut: for files, pipes and tests.
    pub const PLAIN: Self = Self {
        width: None,
        fold: None,
        colour: Colour::Off,
    };
    /// Columns of a pipe, unless the variable `COLUMNS` says otherwise.
    const PIPE_COLUMNS: usize = 80;

    /// The capabilities of standard output. A pipe gets plain text, and so does a dumb terminal or one with `NO_COLOR`
    /// set and not empty.
    pub fn for_stdout() -> Self {
        let stream = std::io::stdout();
        if !stream.is_terminal() {
            let columns = std::env::var("COLUMNS")
                .ok()
                .and_then(|text| text.parse().ok());
            return Self {
                fold: Some(columns.filter(|n| *n > 0).unwrap_or(Self::PIPE_COLUMNS)),
                ..Self::PLAIN
            };
        }
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            fold: None,
            width: terminal_size::terminal_size_of(&stream).map(|(width, _)| usize::from(width.0)),
            colour: if set("NO_COLOR") || dumb {
                Colour::Off
            } else {
                Colour::On
            },
        }
    }

    /// `text` in bold.
    pub fn bold(self, text: &str) -> String {
        self.paint(text, "1")
    }

    /// `text` in red: failures.
    pub fn red(self, text: &str) -> String {
        self.paint(text, "31")
    }

    /// `text` in yellow: doubts.
    pub fn yellow(self, text: &str) -> String {
        self.paint(text, "33")
    }

    /// `text` in green: all well.
    pub fn green(self, text: &str) -> String {
        self.paint(text, "32")
    }

    /// `text` dimmed: detail.
    pub fn dim(self, text: &str) -> String {
        self.paint(text, "2")
    }

    fn paint(self, text: &str, code: &str) -> String {
        match self.colour {
            Colour::On if !text.is_empty() => format!("\x1b[{code}m{text}\x1b[0m"),
            _ => text.to_owned(),
        }
    }
}
