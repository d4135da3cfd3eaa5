//! Arrows from a command to those that waited for it.

use std::collections::HashMap;

use opreport::trace::Message;

use crate::analysis::dependencies::dependencies;
use crate::profile::{CoreProfile, Profile};
use crate::report::Engine;

/// Field numbers of an event: arrows that begin at the event, and arrows that end there.
const BEGINS: u32 = 47;
const ENDS: u32 = 48;

/// The arrows of one core, by engine and place of the event.
#[derive(Default)]
pub(super) struct Flows {
    begins: HashMap<(Engine, u32), Vec<u64>>,
    ends: HashMap<(Engine, u32), u64>,
}

impl Flows {
    /// The arrows of a core, numbered from `first` on.
    pub fn of(profile: &Profile, core: &CoreProfile, first: u64) -> Flows {
        let mut flows = Flows::default();
        for (id, found) in (first..).zip(dependencies(profile, core)) {
            let other = match found.engine {
                Engine::Tiu => Engine::Gdma,
                _ => Engine::Tiu,
            };
            flows
                .begins
                .entry((other, found.source))
                .or_default()
                .push(id);
            flows.ends.insert((found.engine, found.waited), id);
        }
        flows
    }

    /// Adds the arrows of an event.
    pub fn add(&self, engine: Engine, index: usize, event: &mut Message) {
        let key = (engine, index as u32);
        for &id in self.begins.get(&key).into_iter().flatten() {
            event.fixed(BEGINS, id);
        }
        if let Some(&id) = self.ends.get(&key) {
            event.fixed(ENDS, id);
        }
    }
}
