//! Packets of tracks: descriptions, slices, counters, with texts interned per track.

use std::collections::HashMap;
use std::sync::Arc;

use super::Message;

/// A track's place among its siblings.
#[derive(Clone, Copy)]
pub enum Order {
    /// The viewer chooses the order.
    Free,
    /// The order follows from this rank.
    Ranked(i32),
    /// A parent whose children have ranks.
    Explicit,
}

/// Packets of one sequence of tracks.
///
/// Tracks are described once, then written to in order of time:
///
/// ```
/// use opreport::trace::{Order, Writer};
///
/// let mut writer = Writer::new(1, 0, &["threads"]);
/// let mut track = writer.track("conv2d", None, Order::Free, false);
/// writer.begin(&mut track, 0, "sample", None, |track, event| {
///     let key = track.key(0);
///     event.message(4, |argument| {
///         argument.uint(1, key);
///         argument.uint(4, 2);
///     });
/// });
/// writer.end(&mut track, 1_000);
/// assert!(!writer.out.0.is_empty());
/// ```
pub struct Writer {
    /// The message for the file.
    pub out: Message,
    body: Message,
    next_id: u64,
    keys: Arc<[String]>,
}

/// A cheap hash: texts are few and come from the dump's own tables.
#[derive(Default, Clone, Copy)]
struct TextHasher(u64);

impl TextHasher {
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

impl std::hash::Hasher for TextHasher {
    fn finish(&self) -> u64 {
        // Hash tables use the low bits, which the multiplication mixes least.
        self.0.rotate_left(26)
    }

    fn write(&mut self, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            self.add(
                chunk
                    .iter()
                    .rev()
                    .fold(0, |word, &b| word << 8 | u64::from(b)),
            );
        }
        let rest = chunks.remainder();
        if !rest.is_empty() {
            self.add(
                rest.iter()
                    .rev()
                    .fold(0, |word, &b| word << 8 | u64::from(b)),
            );
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.add(u64::from(byte));
    }
}

type Texts = HashMap<String, u64, std::hash::BuildHasherDefault<TextHasher>>;

/// A track that packets are written to.
pub struct TrackState {
    /// Its number.
    pub id: u64,
    name: String,
    parent: Option<u64>,
    /// Texts already sent on this track, by their kind.
    interned: [Texts; 3],
    /// The text that was requested last, by kind or argument, with its number: slices in a row are often alike.
    latest: Vec<(String, u64)>,
    /// Keys already sent on this track.
    keys: Vec<bool>,
    names: Arc<[String]>,
    fresh: Message,
    begun: bool,
}

/// Kinds of interned texts, with their field in `InternedData`.
const CATEGORY: usize = 0;
const NAME: usize = 1;
/// Texts of arguments.
const TEXT: usize = 2;
const INTERNED_FIELDS: [u32; 3] = [1, 2, 29];
const KEY_FIELD: u32 = 3;

impl TrackState {
    /// The number of an argument's name, by its place among the writer's names; it is sent when it is used first.
    pub fn key(&mut self, key: usize) -> u64 {
        let (id, name) = (key as u64 + 1, &self.names[key]);
        if !std::mem::replace(&mut self.keys[key], true) {
            self.fresh.message(KEY_FIELD, |entry| {
                entry.uint(1, id);
                entry.bytes(2, name.as_bytes());
            });
        }
        id
    }

    /// The number of an argument's text, which is sent when it is used first; `key` is the argument's place.
    pub fn text(&mut self, key: usize, text: &str) -> u64 {
        self.intern(TEXT, TEXT + key, text)
    }

    /// The number of a text of a kind; `place` is its index in [`TrackState::latest`].
    fn intern(&mut self, kind: usize, place: usize, text: &str) -> u64 {
        let (latest, id) = &self.latest[place];
        if *id > 0 && latest == text {
            return *id;
        }
        let id = self.number(kind, text);
        let (latest, known) = &mut self.latest[place];
        text.clone_into(latest);
        *known = id;
        id
    }

    fn number(&mut self, kind: usize, text: &str) -> u64 {
        if let Some(&id) = self.interned[kind].get(text) {
            return id;
        }
        let id = self.interned[kind].len() as u64 + 1;
        self.interned[kind].insert(text.to_string(), id);
        self.fresh.message(INTERNED_FIELDS[kind], |entry| {
            entry.uint(1, id);
            entry.bytes(2, text.as_bytes());
        });
        id
    }
}

/// One slice before it is given a track.
pub struct Slice<A> {
    /// Start in ns.
    pub start_ns: i64,
    /// End in ns.
    pub end_ns: i64,
    /// Its arguments.
    pub args: A,
}

impl Writer {
    /// Tracks get numbers from `first_id` on. `bytes` is an estimate of the size, `keys` are the names that arguments
    /// of slices can have.
    pub fn new<S: AsRef<str>>(first_id: u64, bytes: usize, keys: &[S]) -> Writer {
        Writer {
            keys: keys.iter().map(|key| key.as_ref().to_owned()).collect(),
            out: Message(Vec::with_capacity(bytes)),
            body: Message::default(),
            next_id: first_id,
        }
    }

    /// Describes a track.
    pub fn track(
        &mut self,
        name: &str,
        parent: Option<u64>,
        order: Order,
        counter: bool,
    ) -> TrackState {
        let id = self.next_id;
        self.next_id += 1;
        self.out.message(1, |packet| {
            packet.message(60, |track| {
                track.uint(1, id);
                track.bytes(2, name.as_bytes());
                if let Some(parent) = parent {
                    track.uint(5, parent);
                }
                if counter {
                    track.bytes(8, &[]);
                }
                match order {
                    Order::Free => {}
                    Order::Ranked(rank) => track.uint(12, rank as u64),
                    Order::Explicit => track.uint(11, 3),
                }
            });
        });
        TrackState {
            id,
            name: name.to_string(),
            parent,
            interned: Default::default(),
            latest: vec![(String::new(), 0); TEXT + self.keys.len()],
            keys: vec![false; self.keys.len()],
            names: Arc::clone(&self.keys),
            fresh: Message::default(),
            begun: false,
        }
    }

    /// Writes the packet whose event is in `self.body`.
    fn packet(&mut self, track: &mut TrackState, time_ns: i64) {
        let begun = std::mem::replace(&mut track.begun, true);
        let body = &self.body.0;
        self.out.message(1, |packet| {
            packet.uint(8, time_ns as u64);
            packet.uint(10, track.id);
            packet.bytes(11, body);
            if !begun {
                // Events of this sequence are of this track unless they say otherwise.
                packet.message(59, |defaults| {
                    defaults.message(11, |event| event.uint(11, track.id));
                });
            }
            if !track.fresh.0.is_empty() {
                packet.bytes(12, &track.fresh.0);
                track.fresh.0.clear();
            }
            packet.uint(13, if begun { 2 } else { 3 });
        });
    }

    /// Begins a slice; `annotate` adds its arguments to the event.
    pub fn begin(
        &mut self,
        track: &mut TrackState,
        time_ns: i64,
        name: &str,
        category: Option<&str>,
        annotate: impl FnOnce(&mut TrackState, &mut Message),
    ) {
        let mut body = std::mem::take(&mut self.body);
        body.0.clear();
        body.uint(9, 1);
        body.uint(10, track.intern(NAME, NAME, name));
        if let Some(category) = category {
            body.uint(3, track.intern(CATEGORY, CATEGORY, category));
        }
        annotate(track, &mut body);
        self.body = body;
        self.packet(track, time_ns);
    }

    /// Ends the slice that began last.
    pub fn end(&mut self, track: &mut TrackState, time_ns: i64) {
        self.body.0.clear();
        self.body.uint(9, 2);
        self.packet(track, time_ns);
    }

    /// Sets a counter.
    pub fn count(&mut self, track: &TrackState, time_ns: i64, value: f64) {
        self.out.message(1, |packet| {
            packet.uint(8, time_ns as u64);
            packet.uint(10, track.id);
            packet.message(11, |event| {
                event.uint(9, 4);
                event.uint(11, track.id);
                if value == 0.0 {
                    // A default that readers know as well, in a third of the bytes.
                    event.uint(30, 0);
                } else {
                    event.double(44, value);
                }
            });
        });
    }

    /// Writes slices to a track, and overlapping ones to further tracks beside it.
    pub fn lanes<A>(
        &mut self,
        track: TrackState,
        mut slices: Vec<Slice<A>>,
        mut emit: impl FnMut(&mut Writer, &mut TrackState, &Slice<A>),
    ) {
        slices.sort_by_key(|s| (s.start_ns, s.end_ns));
        let mut ends: Vec<i64> = Vec::new();
        let lane_of: Vec<usize> = slices
            .iter()
            .map(
                |slice| match ends.iter().position(|end| *end <= slice.start_ns) {
                    Some(lane) => {
                        ends[lane] = slice.end_ns;
                        lane
                    }
                    None => {
                        ends.push(slice.end_ns);
                        ends.len() - 1
                    }
                },
            )
            .collect();
        let (name, parent) = (track.name.clone(), track.parent);
        let mut track = Some(track);
        for lane in 0..ends.len() {
            let mut state = match track.take() {
                Some(state) => state,
                None => self.track(&format!("{name} #{}", lane + 1), parent, Order::Free, false),
            };
            for (slice, _) in slices.iter().zip(&lane_of).filter(|(_, l)| **l == lane) {
                emit(self, &mut state, slice);
            }
        }
    }
}
