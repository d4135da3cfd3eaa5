//! Exit codes: how both programs tell a script what became of its request.

/// How a program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The program did its work.
    Done,
    /// The program could not do its work.
    Failed,
    /// The command line was wrong.
    Usage,
    /// A comparison found a regression.
    Regression,
    /// Done, but more points failed than the allowed share.
    PointsFailed,
    /// Interrupted; all rows measured so far are kept.
    Interrupted,
}

impl Exit {
    /// The process's exit code.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Regression => 3,
            Self::PointsFailed => 4,
            Self::Interrupted => 130,
        }
    }
}

/// A request that was made wrongly; programs end with [`Exit::Usage`].
#[derive(Debug)]
pub struct Misuse(pub String);

impl std::fmt::Display for Misuse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misuse {}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_manual() {
        use Exit::*;
        let codes = [Done, Failed, Usage, Regression, PointsFailed, Interrupted].map(Exit::code);
        assert_eq!(codes, [0, 1, 2, 3, 4, 130]);
    }
}
