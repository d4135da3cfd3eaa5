//! The marks between the commands of a block of nodes: resets of ids, batches, names and ends of kernels.
//!
//! A runtime writes the same marks for each kernel. A core without some marks that most others have has lost them.
//! There is no other sign that a reset of an idle engine, the end of a kernel or its name is lost.

use crate::chip::NodeEngine;

/// A mark, in the order in which a kernel has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Ids of TIU (0), GDMA (1) or SDMA (2) begin again.
    Reset(u32),
    /// A batch of this number begins.
    Batch(u32),
    /// A kernel's name.
    Name,
    /// A kernel ends.
    End,
}

/// Bits of a kernel's marks.
const RESETS: u8 = 0b111;
const BATCH: u8 = 1 << 3;
const NAME: u8 = 1 << 4;
const END: u8 = 1 << 5;

impl Mark {
    fn bit(self) -> u8 {
        match self {
            Mark::Reset(engine) => 1 << engine,
            Mark::Batch(_) => BATCH,
            Mark::Name => NAME,
            Mark::End => END,
        }
    }
}

/// TIU and GDMA: their ids refer to each other, so they are reset together.
const TOGETHER: u8 = 0b11;

/// Maximum number of an engine's commands before and after a program, outside of its kernels.
const FRAME: usize = 2;

/// The marks of each kernel of a block.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    kernels: Vec<u8>,
    open: u8,
    /// Numbers of batches.
    batches: Vec<u32>,
    /// Names seen.
    names: usize,
    /// Whether a command was sent since the latest of them.
    busy: bool,
    /// Kernels by name without any command.
    idle: usize,
    /// Commands of TIU and GDMA before the first name.
    nameless: [usize; 2],
    /// Commands of TIU and GDMA after the first name.
    named: [usize; 2],
}

impl Marks {
    /// Takes the next mark: one that does not follow those of the kernel so far begins another kernel.
    pub fn see(&mut self, mark: Mark) {
        let bit = mark.bit();
        let stays = match mark {
            Mark::Reset(_) => self.open & !RESETS == 0 && self.open & bit == 0,
            _ => self.open < bit,
        };
        if !stays {
            self.kernels.push(self.open);
            self.open = 0;
        }
        self.open |= bit;
        if let Mark::Batch(number) = mark {
            self.batches.push(number);
        }
        if mark == Mark::Name {
            self.idle = self.idle_kernels();
            self.names += 1;
            self.busy = false;
        }
    }

    /// A command was sent, for one engine if that is known.
    pub fn sent(&mut self, engine: Option<NodeEngine>) {
        self.busy = true;
        let counts = if self.names == 0 {
            &mut self.nameless
        } else {
            &mut self.named
        };
        match engine {
            Some(NodeEngine::Tiu) => counts[0] += 1,
            Some(NodeEngine::Gdma) => counts[1] += 1,
            _ => {}
        }
    }

    /// Kernels with a name and no command.
    pub fn idle_kernels(&self) -> usize {
        self.idle + usize::from(self.names > 0 && !self.busy)
    }

    /// Number of skipped batch numbers, if most increase by one.
    pub fn batches_skipped(&self) -> usize {
        let steps = self.batches.windows(2).map(|w| w[1].saturating_sub(w[0]));
        let (ones, more): (Vec<u32>, Vec<u32>) = steps.partition(|&step| step == 1);
        let skipped = more.iter().map(|step| step.saturating_sub(1) as usize);
        if ones.len() > 2 * more.len() {
            skipped.sum()
        } else {
            0
        }
    }

    /// Resets that a kernel lacks although it has others that come with them.
    fn resets_missing(&self) -> u64 {
        let all = self.kernels.iter().fold(self.open, |all, bits| all | bits);
        let mut custom = all & RESETS;
        if custom & TOGETHER != 0 && !self.named.contains(&0) {
            custom |= TOGETHER;
        }
        let begins = |bits: &&u8| **bits & RESETS != 0 && **bits & (NAME | BATCH) != 0;
        let lacks = self.kernels.iter().chain([&self.open]).filter(begins);
        lacks
            .map(|bits| u64::from((custom & !bits).count_ones()))
            .sum()
    }

    /// Number of missing marks: of kernels that have fewer than most, resets that come with others, and skipped
    /// batches. Last, the name of the commands before all names.
    pub fn missing(&self) -> u64 {
        let nameless = self.names > 0 && self.nameless.iter().any(|&n| n > FRAME);
        let marks = self.fewer_than_most().max(self.resets_missing());
        marks.max(self.batches_skipped() as u64) + u64::from(nameless)
    }

    fn fewer_than_most(&self) -> u64 {
        let mut kernels = self.kernels.clone();
        // Resets after the last kernel belong to no kernel.
        if self.open & !RESETS != 0 {
            kernels.push(self.open);
        }
        let mut counts = [0u32; 1 << 6];
        for &kernel in &kernels {
            counts[usize::from(kernel)] += 1;
        }
        let usual = (0..counts.len()).max_by_key(|&k| (counts[k], k.count_ones()));
        let mut usual = usual.unwrap_or(0) as u8;
        let most = |bit: &u8| kernels.iter().filter(|&&k| k & bit != 0).count() * 2 > kernels.len();
        usual |= [BATCH, NAME].iter().filter(|bit| most(bit)).sum::<u8>();
        // Where one kernel has its end, each that has a name should; batches may be written only where they begin.
        if kernels.iter().any(|k| k & END != 0) && usual & NAME != 0 {
            usual |= END;
        }
        // Ids of the first kernel may begin at 0 without a reset.
        if let Some(first) = kernels.first_mut()
            && *first & RESETS == 0
        {
            *first |= usual & RESETS;
        }
        let mut missing = 0;
        let mut at = 0;
        while at < kernels.len() {
            let mut kernel = kernels[at];
            // A reset in the midst of a kernel parts it.
            if let Some(&next) = kernels.get(at + 1)
                && kernel == usual & !END
                && next & !(RESETS | END) == 0
            {
                kernel |= next;
                at += 1;
            }
            if kernel & !usual == 0 {
                missing += u64::from((usual & !kernel).count_ones());
            }
            at += 1;
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(kernels: &[&[Mark]]) -> u64 {
        let mut marks = Marks::default();
        kernels
            .iter()
            .copied()
            .flatten()
            .for_each(|&m| marks.see(m));
        marks.missing()
    }

    const WHOLE: &[Mark] = &[
        Mark::Reset(0),
        Mark::Reset(1),
        Mark::Reset(2),
        Mark::Batch(0),
        Mark::Name,
        Mark::End,
    ];

    #[test]
    fn kernels_alike_miss_nothing() {
        assert_eq!(missing(&[]), 0);
        assert_eq!(missing(&[WHOLE, WHOLE, WHOLE]), 0);
        assert_eq!(missing(&[&WHOLE[3..], WHOLE, WHOLE]), 0);
        assert_eq!(missing(&[WHOLE, WHOLE, &WHOLE[..3]]), 0);
        let parted: &[Mark] = &[&WHOLE[..5], &[Mark::Reset(0), Mark::End]].concat();
        assert_eq!(missing(&[WHOLE, parted, WHOLE]), 0);
        assert_eq!(missing(&[&[Mark::Reset(0)], &[Mark::Reset(0)]]), 0);
    }

    #[test]
    fn each_mark_that_is_gone_is_missed() {
        for gone in 0..WHOLE.len() {
            let mut kernel = WHOLE.to_vec();
            kernel.remove(gone);
            assert_eq!(missing(&[WHOLE, &kernel, WHOLE]), 1, "{gone}");
        }
        assert_eq!(missing(&[WHOLE, &WHOLE[3..]]), 3);
        let open = &WHOLE[..5];
        assert_eq!(missing(&[WHOLE, open, open, open]), 3);
    }

    #[test]
    fn resets_of_tiu_and_gdma_come_together() {
        let kernel = &WHOLE[3..];
        let tiu = &[&WHOLE[..1], kernel].concat();
        assert_eq!(missing(&[WHOLE, tiu, tiu, tiu]), 6);
        let mut marks = Marks::default();
        for _ in 0..2 {
            marks.see(Mark::Reset(1));
            kernel.iter().for_each(|&mark| marks.see(mark));
            marks.sent(Some(NodeEngine::Tiu));
            marks.sent(Some(NodeEngine::Gdma));
        }
        assert_eq!(marks.missing(), 2);
    }

    #[test]
    fn kernels_without_commands_and_commands_without_kernel_are_seen() {
        let mut marks = Marks::default();
        (0..FRAME).for_each(|_| marks.sent(Some(NodeEngine::Tiu)));
        for batch in [0, 1, 2, 3, 7] {
            marks.see(Mark::Batch(batch));
            marks.see(Mark::Name);
            (0..batch % 2).for_each(|_| marks.sent(Some(NodeEngine::Tiu)));
        }
        assert_eq!((marks.idle_kernels(), marks.batches_skipped()), (2, 3));
        assert_eq!(marks.missing(), 3);
        let mut marks = Marks::default();
        (0..=FRAME).for_each(|_| marks.sent(Some(NodeEngine::Gdma)));
        marks.see(Mark::Name);
        assert_eq!(marks.missing(), 1);
    }
}
