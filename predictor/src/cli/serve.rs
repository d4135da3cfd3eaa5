//! `oppredict serve`.

use anyhow::Context;
use opinstall::Home;
use opmodels::Importer;
use opreport::output::{print, say};

use super::args::ServeArgs;
use super::model_path;
use crate::serve;

/// Serves until a signal ends it; prints the address once it listens.
pub fn run(args: &ServeArgs) -> anyhow::Result<()> {
    let trained = model_path::load(args.model.as_deref())?;
    let importer = Home::find()
        .ok()
        .and_then(|home| Importer::new(&home, None).ok());
    serve::serve(trained, importer, args.listen, |address| {
        if !address.ip().is_loopback() {
            say(&format!(
                "listening on {address}: everyone who reaches this machine can ask; there is no password"
            ));
        }
        // A pipe may wait for this line. Serving goes on if nobody reads it.
        let _ = print(format!("http://{address}/\n").as_bytes());
    })
    .with_context(|| {
        format!(
            "cannot serve on {}; another address and port go with --listen, where port 0 takes a free one",
            args.listen
        )
    })
}
