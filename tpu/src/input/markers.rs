//! What stands between the commands of a block of nodes: resets of ids, batches, names and ends of kernels.
//!
//! A runtime writes the same marks for each kernel. One that lacks some of what most others have has lost them: nothing
//! else shows that a reset of an idle engine, the end of a kernel or its name is gone.

/// A mark, in the order in which a kernel has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Ids of TIU (0), GDMA (1) or SDMA (2) begin again.
    Reset(u32),
    /// A batch begins.
    Batch,
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
            Mark::Batch => BATCH,
            Mark::Name => NAME,
            Mark::End => END,
        }
    }
}

/// The marks of each kernel of a block.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    kernels: Vec<u8>,
    open: u8,
}

impl Marks {
    /// The next mark: one that does not stand behind those of the kernel so far begins another.
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
    }

    /// How many marks are missing of kernels that have fewer than most.
    pub fn missing(&self) -> u64 {
        let mut kernels = self.kernels.clone();
        // Resets behind the last kernel are of none.
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
        Mark::Batch,
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
}
