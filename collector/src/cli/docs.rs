//! Completions and the manual page, both made from the parser.

use super::args::command;

/// The completion script for a shell.
pub fn completions(shell: clap_complete::Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "opcollect", &mut script);
    script
}

/// The manual page in roff.
pub fn man_page() -> std::io::Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command()).render(&mut page)?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_name_the_main_flags() {
        let script = String::from_utf8(completions(clap_complete::Shell::Bash)).unwrap();
        assert!(script.contains("--modelname") && script.contains("doctor"));
        let page = String::from_utf8(man_page().unwrap()).unwrap();
        assert!(page.contains("modelname") && page.contains("Exit codes"));
        assert!(!page.contains("worker(1)"), "the worker is not for people");
    }
}
