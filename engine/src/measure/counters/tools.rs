//! Programs that sources run.

use std::path::PathBuf;

/// The first of these programs that is in a folder of `PATH`, which is looked for in their order.
pub(super) fn find_program<S: AsRef<str>>(names: &[S]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let places = |name: &S| {
        folders
            .iter()
            .map(|f| f.join(name.as_ref()))
            .collect::<Vec<_>>()
    };
    names.iter().flat_map(places).find(|place| place.is_file())
}
