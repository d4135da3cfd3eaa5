//! One session of a server, in a process of its own: TVM's loop over a connection that has been greeted.
//!
//! Files are read and written in the session's folder alone, and only libraries from there are loaded. Names that lead
//! out of it are refused, and TVM's functions that take any path are removed. The process bounds what else an uploaded
//! kernel may do.

use std::os::fd::RawFd;
use std::path::{Component, Path, PathBuf};

use tvm_ffi::{Any, AnyView, Function};

use crate::call::{call, int, register, text};
use crate::error::{Error, Result};
use crate::libs::Libraries;

/// TVM's functions that read, write or load files by any path.
const BY_ANY_PATH: [&str; 9] = [
    "ffi.ModuleLoadFromFile",
    "ffi.ModuleWriteToFile",
    "ffi.Module.load_from_file.so",
    "ffi.Module.load_from_file.relax.VMExecutable",
    "relax.ExecutableLoadFromFile",
    "runtime.ModuleLoadStaticLibrary",
    "runtime.SaveParamsToFile",
    "runtime.LoadParamsFromFile",
    "runtime.LoadMetaDataFromJSON",
];

/// A function that answers clients under a name.
pub struct Answer {
    /// The name of the function.
    pub name: &'static str,
    /// Its answer to a text.
    pub says: Box<dyn Fn(&str) -> String>,
}

/// Serves the client at the other end of `socket` until it leaves; files are those of `folder`.
///
/// # Errors
/// Fails if TVM cannot be loaded, or a name is taken already.
pub fn serve(socket: RawFd, folder: &Path, answers: Vec<Answer>) -> Result<()> {
    Libraries::load_runtime()?;
    let load =
        Function::get_global(BY_ANY_PATH[0]).map_err(|e| Error::from_tvm(BY_ANY_PATH[0], &e))?;
    let own = folder.to_owned();
    register("tvm.rpc.server.workpath", move |arguments| {
        let path = inside(&own, &text_of(arguments)?)?;
        Ok(Any::from(tvm_ffi::String::from(
            path.to_string_lossy().as_ref(),
        )))
    })?;
    let own = folder.to_owned();
    register("tvm.rpc.server.load_module", move |arguments| {
        let path = inside(&own, &text_of(arguments)?)?;
        let path = text(&path.to_string_lossy());
        load.call_packed(&[path.view()])
            .map_err(|error| error.message().to_string())
    })?;
    for answer in answers {
        register(answer.name, move |arguments| {
            let said = (answer.says)(&text_of(arguments)?);
            Ok(Any::from(tvm_ffi::String::from(said.as_str())))
        })?;
    }
    // The loader of libraries is called by name from the one kept above.
    for name in BY_ANY_PATH.iter().filter(|name| !name.ends_with(".so")) {
        // A runtime without the function needs no removal.
        let _ = call("ffi.FunctionRemoveGlobal", &[&text(name)]);
    }
    call("rpc.ServerLoop", &[&int(socket.into())]).map(drop)
}

fn text_of(arguments: &[AnyView<'_>]) -> std::result::Result<String, String> {
    let text = arguments.first().ok_or("a text is expected")?;
    // TVM passes text from the connection as a C string, which only a conversion accepts.
    let text: tvm_ffi::String = (*text)
        .try_into()
        .map_err(|error: tvm_ffi::Error| error.message().to_string())?;
    Ok(text.as_str().to_owned())
}

/// The file of a name in the folder.
fn inside(folder: &Path, name: &str) -> std::result::Result<PathBuf, String> {
    let mut components = Path::new(name).components();
    match (components.next(), components.next()) {
        (Some(Component::Normal(file)), None) if !name.contains('\0') => Ok(folder.join(file)),
        _ => Err(format!(
            "the name {name:?} leads out of the session's folder"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_out_of_the_folder_are_refused() {
        let folder = Path::new("/session");
        assert_eq!(
            inside(folder, "lib.so").unwrap(),
            Path::new("/session/lib.so")
        );
        for name in [
            "../x",
            "/etc/passwd",
            "a/../../x",
            "a/b",
            "",
            ".",
            "..",
            "a\0b",
        ] {
            assert!(inside(folder, name).is_err(), "{name:?}");
        }
    }
}
