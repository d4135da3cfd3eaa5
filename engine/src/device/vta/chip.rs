//! Where VTA's programs run: the simulator of this process, or that of a server behind TVM's RPC.
//!
//! Both ends: [`Chip::There`] is the client's, [`answers`] what a session of `opcollect serve-device` says. Messages are JSON.

use serde::{Deserialize, Serialize};
use tvm_bridge::rpc::Session;
use tvm_bridge::rpc::server::Answer;
use vtasim::execute::{Dram, execute};
use vtasim::timing::{Simulated, simulate};
use vtasim::{Profile, Program};

/// The names of the functions.
const SIMULATE: &str = "opbench.vta.simulate";
const EXECUTE: &str = "opbench.vta.execute";

/// Runs programs.
#[derive(Debug, Clone)]
pub(super) enum Chip {
    /// The simulator of this process.
    Here,
    /// The simulator of a server, in an RPC session.
    There(Session),
}

/// A program and the profile that it runs on.
#[derive(Debug, Serialize, Deserialize)]
struct Asked {
    profile: Profile,
    program: Program,
    /// The tensors. `None` if only the time is requested.
    dram: Option<Dram>,
}

impl Chip {
    /// The simulated time of a program.
    ///
    /// # Errors
    /// Fails if the hardware would not do it, or the connection is lost.
    pub fn simulate(&self, profile: &Profile, program: &Program) -> Result<Simulated, String> {
        match self {
            Chip::Here => simulate(profile, program).map_err(|error| error.to_string()),
            Chip::There(session) => ask(session, SIMULATE, profile, program, None),
        }
    }

    /// Runs a program on tensors in DRAM.
    ///
    /// # Errors
    /// Fails as [`Chip::simulate`] does.
    pub fn execute(
        &self,
        profile: &Profile,
        program: &Program,
        dram: &mut Dram,
    ) -> Result<(), String> {
        match self {
            Chip::Here => execute(profile, program, dram).map_err(|error| error.to_string()),
            Chip::There(session) => {
                *dram = ask(session, EXECUTE, profile, program, Some(dram.clone()))?;
                Ok(())
            }
        }
    }
}

fn ask<T: for<'a> Deserialize<'a>>(
    session: &Session,
    name: &str,
    profile: &Profile,
    program: &Program,
    dram: Option<Dram>,
) -> Result<T, String> {
    let asked = Asked {
        profile: profile.clone(),
        program: program.clone(),
        dram,
    };
    let asked = serde_json::to_string(&asked).map_err(|error| error.to_string())?;
    let said = session
        .ask(name, &asked)
        .ok_or("the server has no simulator of VTA, or the connection is lost")?;
    let said: Result<T, String> =
        serde_json::from_str(&said).map_err(|error| format!("the server's answer: {error}"))?;
    said
}

/// The messages of a session to its clients.
pub(super) fn answers() -> Vec<Answer> {
    fn answer<T: Serialize>(
        name: &'static str,
        act: impl Fn(Asked) -> Result<T, String> + 'static,
    ) -> Answer {
        let says = move |text: &str| {
            let asked = serde_json::from_str(text);
            let done = asked
                .map_err(|error| format!("not a program of VTA: {error}"))
                .and_then(&act);
            serde_json::to_string(&done).unwrap_or_default()
        };
        Answer {
            name,
            says: Box::new(says),
        }
    }
    vec![
        answer(SIMULATE, |asked| {
            Chip::Here.simulate(&asked.profile, &asked.program)
        }),
        answer(EXECUTE, |asked| {
            let mut dram = asked.dram.ok_or("no tensors were given")?;
            Chip::Here.execute(&asked.profile, &asked.program, &mut dram)?;
            Ok(dram)
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_program_is_answered_and_not_run() {
        for answer in answers() {
            for text in ["", "{}", "[[[[", "{\"profile\": 3}"] {
                let said: Result<Dram, String> =
                    serde_json::from_str(&(answer.says)(text)).unwrap();
                assert!(said.unwrap_err().contains("not a program of VTA"), "{text}");
            }
        }
    }
}
