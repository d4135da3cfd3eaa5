//! The events of one stream: in memory if they are few, else in a file that has no name and vanishes with them.
//!
//! Tens of millions of events are gigabytes. In a file they take memory only while they are read, which can be released
//! ([`EventList::release`]).

use std::fmt;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::ops::{Deref, Range};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use memmap2::Mmap;

use crate::error::{Result, io_at};
use crate::input::source::{map, release};
use crate::matching::event::Event;

/// Longer lists are kept in files.
const LONG: usize = 1 << 18;

/// Events that are changed in a file at a time.
const CHUNK: usize = 1 << 16;

/// Events in the order of their records.
pub struct EventList {
    store: Store,
    /// Events that are left: some at both ends may have been taken off.
    kept: Range<usize>,
    earliest_ns: Option<i64>,
}

enum Store {
    Memory(Vec<Event>),
    File { file: File, map: Mmap },
}

impl EventList {
    /// A list without events.
    pub fn empty() -> EventList {
        EventList {
            store: Store::Memory(Vec::new()),
            kept: 0..0,
            earliest_ns: None,
        }
    }

    /// Keeps events; if they are many, in a file in the folder `scratch`.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn new(events: Vec<Event>, scratch: &Path) -> Result<EventList> {
        let kept = 0..events.len();
        let earliest_ns = events.iter().map(|event| event.start_ns).min();
        let store = if events.len() < LONG {
            Store::Memory(events)
        } else {
            let failed = || io_at(scratch, "cannot keep events in a file there");
            let mut file = tempfile::tempfile_in(scratch).map_err(failed())?;
            file.write_all(bytemuck::cast_slice(&events))
                .map_err(failed())?;
            let map = map(&file).map_err(failed())?;
            Store::File { file, map }
        };
        Ok(EventList {
            store,
            kept,
            earliest_ns,
        })
    }

    /// Start of the earliest event in ns, of all events that the list was made with.
    pub fn earliest_ns(&self) -> Option<i64> {
        self.earliest_ns
    }

    /// Moves all events in time.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn shift(&mut self, by_ns: i64) -> Result<()> {
        let move_all = |events: &mut [Event]| {
            for event in events {
                event.start_ns += by_ns;
                event.end_ns += by_ns;
            }
        };
        self.earliest_ns = self.earliest_ns.map(|ns| ns + by_ns);
        match &mut self.store {
            _ if by_ns == 0 => Ok(()),
            Store::Memory(events) => {
                move_all(events);
                Ok(())
            }
            Store::File { file, map } => {
                // The file is written instead of changed in the map, because a full disk is then an error and no
                // signal.
                let all: &[Event] = bytemuck::cast_slice(map);
                let mut chunk = Vec::with_capacity(CHUNK);
                for (number, events) in all.chunks(CHUNK).enumerate() {
                    chunk.clear();
                    chunk.extend_from_slice(events);
                    move_all(&mut chunk);
                    let bytes: &[u8] = bytemuck::cast_slice(&chunk);
                    let at = (number * CHUNK * size_of::<Event>()) as u64;
                    file.write_all_at(bytes, at)
                        .map_err(io_at(Path::new("events"), "cannot change the file of"))?;
                }
                release(map);
                Ok(())
            }
        }
    }

    /// Takes events off both ends: those at these places are left.
    pub fn keep(&mut self, places: Range<usize>) {
        let first = self.kept.start;
        self.kept = first + places.start..first + places.end;
    }

    /// Keeps the events that are `wanted`.
    ///
    /// # Errors
    /// Fails if a file in the folder `scratch` cannot be written.
    pub fn retain(&mut self, scratch: &Path, wanted: impl Fn(&Event) -> bool) -> Result<()> {
        let earliest_ns = self.earliest_ns;
        let count = self.iter().filter(|event| wanted(event)).count();
        self.release();
        if count == self.len() {
            return Ok(());
        }
        if count < LONG {
            let events = self.iter().copied().filter(wanted).collect();
            *self = EventList::new(events, scratch)?;
        } else {
            let failed = || io_at(scratch, "cannot keep events in a file there");
            let file = tempfile::tempfile_in(scratch).map_err(failed())?;
            let mut out = BufWriter::with_capacity(1 << 20, &file);
            for event in self.iter().filter(|event| wanted(event)) {
                out.write_all(bytemuck::bytes_of(event)).map_err(failed())?;
            }
            out.flush().map_err(failed())?;
            drop(out);
            let map = map(&file).map_err(failed())?;
            self.store = Store::File { file, map };
            self.kept = 0..count;
        }
        self.earliest_ns = earliest_ns;
        Ok(())
    }

    /// Gives back the memory of events that lie in a file; it is read again when they are looked at again.
    pub fn release(&self) {
        if let Store::File { map, .. } = &self.store {
            release(map);
        }
    }
}

impl Deref for EventList {
    type Target = [Event];

    fn deref(&self) -> &[Event] {
        let all = match &self.store {
            Store::Memory(events) => events.as_slice(),
            Store::File { map, .. } => bytemuck::cast_slice(map),
        };
        &all[self.kept.clone()]
    }
}

impl<'a> IntoIterator for &'a EventList {
    type Item = &'a Event;
    type IntoIter = std::slice::Iter<'a, Event>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for EventList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching::bind::Bound;
    use crate::matching::order::Record;

    fn events(count: usize) -> Vec<Event> {
        let event = |i: usize| {
            let (start, offset) = (i as i64 * 10, i as u64);
            let record = Record {
                start,
                end: start + 4,
                id: i as u32,
                offset,
            };
            Event::new((start, start + 4), &record, &Bound::UNMATCHED, None)
        };
        (0..count).map(event).collect()
    }

    #[test]
    fn a_file_holds_what_memory_holds() {
        let dir = tempfile::tempdir().unwrap();
        for count in [9, LONG + 2 * CHUNK + 5] {
            let plain = events(count);
            let mut list = EventList::new(plain.clone(), dir.path()).unwrap();
            assert_eq!(matches!(list.store, Store::File { .. }), count > LONG);
            assert_eq!(list[..], plain[..]);
            list.shift(-7).unwrap();
            list.release();
            assert_eq!(list.earliest_ns(), Some(-7));
            assert!(
                list.iter()
                    .zip(&plain)
                    .all(|(a, b)| a.start_ns == b.start_ns - 7 && a.end_ns == b.end_ns - 7)
            );
            list.keep(2..count - 1);
            assert_eq!((list.len(), list[0].id), (count - 3, 2));
            list.retain(dir.path(), |event| event.id % 5 != 0).unwrap();
            assert!(list.iter().all(|event| event.id % 5 != 0));
            assert_eq!(
                list.last().map(|e| e.id),
                plain[..count - 1]
                    .iter()
                    .rev()
                    .map(|e| e.id)
                    .find(|id| id % 5 != 0)
            );
            list.shift(7).unwrap();
            assert_eq!(list[0].start_ns, i64::from(list[0].id) * 10);
        }
        assert_eq!(
            std::fs::read_dir(dir.path()).unwrap().count(),
            0,
            "files have no names"
        );
    }
}
