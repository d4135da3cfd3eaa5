//! Completions and the manual page, both made from the parser.

use clap::CommandFactory as _;

use super::args::Args;

/// The completion script for a shell.
pub fn completions(shell: clap_complete::Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "oppredict", &mut script);
    script
}

/// The manual page in roff.
///
/// # Errors
/// Never fails, because the page is written to memory.
pub fn man_page() -> std::io::Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Args::command()).render(&mut page)?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_name_the_commands_the_flags_shared_with_opcollect_and_the_exit_codes() {
        let script = String::from_utf8(completions(clap_complete::Shell::Bash)).unwrap();
        for word in ["correlate", "--modelsource", "--modelname", "--batchsize"] {
            assert!(script.contains(word), "{word}");
        }
        let page = String::from_utf8(man_page().unwrap()).unwrap();
        assert!(page.contains("Exit codes: 0 done, 1 failed, 2 usage"));
    }
}
