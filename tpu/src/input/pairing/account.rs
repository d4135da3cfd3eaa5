//! The results of pairing, in words.

use opreport::units::plural;

use crate::input::details::{Detail, Meaning};
use crate::report::Report;

/// The results of pairing.
#[derive(Default)]
pub(super) struct Account {
    /// Number of details that occur twice.
    pub doubled: u64,
    /// Number of places where the ids of details decrease.
    pub moved: u64,
    /// Number of nodes replaced by another.
    pub swapped: u64,
    /// Number of nodes that contradict their details.
    pub contrary: u64,
    /// Whether so large a share differs that it is no accident.
    pub habit: bool,
    /// Nodes whose details are lost.
    pub lost: u64,
    /// Nodes that are no command of their own.
    pub doubles: u64,
    /// Commands whose nodes are lost.
    pub restored: u64,
    /// Number of commands that ids or details refer to, and that are lost for good.
    pub gone: u64,
}

impl Account {
    /// Writes the findings.
    pub fn write(&self, details: &[Detail], meanings: &[Meaning], name: &str, report: &mut Report) {
        let undecodable = undecodable(details, meanings);
        for (kind, count, text) in self.findings().into_iter().chain([undecodable]) {
            if count > 0 {
                report.lose(kind, name, count, text);
            }
        }
    }

    /// Possible faults: kind, number and text.
    fn findings(&self) -> [(&'static str, u64, String); 8] {
        let commands = |count| plural(count, "command");
        let nodes = |count| plural(count, "command node");
        let contrary = if self.habit { 0 } else { self.contrary };
        [
            (
                "details_doubled",
                self.doubled,
                format!("details of {} stood there twice", commands(self.doubled)),
            ),
            (
                "details_out_of_order",
                self.moved,
                format!(
                    "ids of details fall at {}; put in the order of their ids",
                    plural(self.moved, "place")
                ),
            ),
            (
                "nodes_out_of_order",
                self.swapped,
                format!(
                    "{} beside details of another command; put where its own are",
                    nodes(self.swapped)
                ),
            ),
            (
                "nodes_contradicted",
                contrary,
                format!(
                    "{} of another kind than the details; the details are believed",
                    nodes(contrary)
                ),
            ),
            (
                "nodes_restored",
                self.restored,
                format!(
                    "the nodes of {} are lost; restored from their details",
                    commands(self.restored)
                ),
            ),
            (
                "nodes_doubled",
                self.doubles,
                format!(
                    "{} without details where no details are missing: no commands of their own, left out",
                    nodes(self.doubles)
                ),
            ),
            (
                "details_lost",
                self.lost,
                format!(
                    "the details of {} are lost; their nodes are used",
                    commands(self.lost)
                ),
            ),
            (
                "commands_lost",
                self.gone,
                format!("the nodes and details of {} are lost", commands(self.gone)),
            ),
        ]
    }
}

/// Details that are no commands of the chip.
fn undecodable(details: &[Detail], meanings: &[Meaning]) -> (&'static str, u64, String) {
    let unread = |m: &&Meaning| m.tiu.is_none() && m.dma.is_none();
    let bad = meanings.iter().filter(unread).count() as u64;
    let first = meanings.iter().position(|m| unread(&m));
    let offset = first.map_or(0, |first| details[first].offset);
    let commands = plural(bad, "command");
    let text = format!(
        "the details of {commands} are no commands of the chip, the first at byte {offset}; their nodes are used"
    );
    ("undecodable_command", bad, text)
}
