//! State shared by all parts of a worker: its settings, and the channel of its replies.

use std::cell::OnceCell;
use std::io::Write;
use std::sync::Mutex;

use opdata::Status;
use tvm_bridge::{IrModule, KernelModule, Target, Tensor};

use crate::device::Session;
use crate::protocol::{Contents, Reply, Setup};
use crate::schedule::Scheduler;

use super::whole_model::Kernels;

/// The state that every part of a worker needs.
pub(super) struct Shared {
    pub setup: Setup,
    pub contents: Contents,
    pub module: IrModule,
    pub target: Target,
    pub scheduler: Scheduler,
    pub session: Box<dyn Session>,
    /// The import's whole model in plain loops, once something was compared with its outputs.
    pub plain: OnceCell<PlainModel>,
    /// Compiled functions of whole models.
    pub kernels: Kernels,
}

/// The whole model in plain loops, after a run on the host.
pub(super) struct PlainModel {
    /// Its outputs for the seeded inputs.
    pub outputs: Vec<Tensor>,
    /// Its functions. Each computes the expected outputs of an operator.
    pub functions: Vec<KernelModule>,
}

impl Shared {
    /// Does `work` with the module and files of another import.
    pub fn within<T>(
        &mut self,
        module: IrModule,
        contents: Contents,
        work: impl FnOnce(&Shared) -> T,
    ) -> T {
        let own = (
            std::mem::replace(&mut self.module, module),
            std::mem::replace(&mut self.contents, contents),
            std::mem::take(&mut self.plain),
        );
        let done = work(self);
        (self.module, self.contents, self.plain) = own;
        done
    }
}

/// Where replies go; builds answer from several threads.
pub(super) struct Replies(Mutex<Box<dyn Write + Send>>);

impl Replies {
    /// Replies that are written to a stream.
    pub fn to(out: impl Write + Send + 'static) -> Replies {
        Replies(Mutex::new(Box::new(out)))
    }

    /// Sends one reply. If the parent is gone, nobody hears it; the worker then ends at its next request.
    pub fn send(&self, reply: &Reply) {
        let line = serde_json::to_string(reply).unwrap_or_else(|error| {
            // A parent that gets no answer would wait for it until its time is up.
            serde_json::json!({ "reply": "refused", "id": null, "status": Status::Crashed, "reason": error.to_string() })
                .to_string()
        });
        if let Ok(mut out) = self.0.lock() {
            let _ = writeln!(out, "{line}");
            let _ = out.flush();
        }
    }
}
