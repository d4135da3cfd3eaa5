//! From one machine to another: a trained model, and a few measurements on the new machine.
//!
//! | module | for |
//! | --- | --- |
//! | [`choose`] | which points to measure there: those that leave none far from what is known |
//! | [`correction`] | what the new machine does to times: a factor, how it turns with intensity, what is left by kind |
//! | [`own`] | a model of the new machine alone, and how much it counts |
//! | [`gain`] | what that brings over no measurement and over starting afresh |

pub mod choose;
pub mod correction;
pub mod gain;
pub mod own;

pub use choose::spread_out;
pub use correction::Correction;
pub use gain::{Adapted, Gain, gain};
pub use own::Own;
