//! Perfetto traces: tracks with slices and counters.
//!
//! [`message`] writes protocol buffers, [`writer`] the packets of tracks, with texts interned per track. What the tracks
//! are of is the caller's business.

pub mod arguments;
pub mod message;
pub mod writer;

pub use arguments::Arguments;
pub use message::Message;
pub use writer::{Order, Slice, TrackState, Writer};
