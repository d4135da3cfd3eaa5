//! From one machine to another: a trained model, and a few measurements on the new machine.
//!
//! | module | for |
//! | --- | --- |
//! | [`choose`] | which points to measure there: those that stand for most others |
//! | [`alike`] | which of the machines that the model was trained on the new one is like |
//! | [`fit`] | adapts a model by them |
//! | [`stack`] | how much each of several predictions counts |
//! | [`gain`] | what that brings over no measurement and over starting afresh |
//! | [`machines`] | … for every machine of a dataset, held out in turn |

pub mod alike;
pub mod choose;
pub mod fit;
pub mod gain;
pub mod machines;
pub mod stack;

pub use gain::Gain;
