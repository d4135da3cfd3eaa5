//! The commit of a path's checkout, read from `.git` without starting git.

use std::path::Path;

/// The commit checked out around `path` (the program's own, usually); `None` outside a checkout.
/// Changes not committed do not show.
pub fn revision_near(path: &Path) -> Option<String> {
    let git = path
        .ancestors()
        .map(|folder| folder.join(".git"))
        .find(|git| git.exists())?;
    // In a linked work tree `.git` is a file that names the real folder.
    let git = if git.is_file() {
        let text = std::fs::read_to_string(&git).ok()?;
        git.parent()?.join(text.strip_prefix("gitdir:")?.trim())
    } else {
        git
    };
    let head = std::fs::read_to_string(git.join("HEAD")).ok()?;
    let Some(reference) = head.strip_prefix("ref:").map(str::trim) else {
        return is_commit(head.trim());
    };
    // Branches of a linked work tree are kept in the main one.
    let common = std::fs::read_to_string(git.join("commondir"))
        .map_or_else(|_| git.clone(), |text| git.join(text.trim()));
    if let Ok(text) = std::fs::read_to_string(common.join(reference)) {
        return is_commit(text.trim());
    }
    let packed = std::fs::read_to_string(common.join("packed-refs")).ok()?;
    packed
        .lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(_, name)| *name == reference)
        .and_then(|(commit, _)| is_commit(commit))
}

fn is_commit(text: &str) -> Option<String> {
    let plausible = text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    plausible.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn loose_packed_and_detached() {
        let folder = tempfile::tempdir().unwrap();
        let git = folder.path().join(".git");
        std::fs::create_dir_all(git.join("refs/heads")).unwrap();
        let deep = folder.path().join("target/release");
        std::fs::create_dir_all(&deep).unwrap();
        let revision = || revision_near(&deep.join("opcollect"));
        assert_eq!(revision(), None);
        std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        assert_eq!(revision(), None);
        std::fs::write(
            git.join("packed-refs"),
            format!("# pack-refs\n{COMMIT} refs/heads/main\n"),
        )
        .unwrap();
        assert_eq!(revision().as_deref(), Some(COMMIT));
        let newer = COMMIT.replace('0', "f");
        std::fs::write(git.join("refs/heads/main"), format!("{newer}\n")).unwrap();
        assert_eq!(revision(), Some(newer));
        std::fs::write(git.join("HEAD"), COMMIT).unwrap();
        assert_eq!(revision().as_deref(), Some(COMMIT));
    }
}
