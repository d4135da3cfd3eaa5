//! The work of one thread of the reference kernel.

use std::hint::black_box;
use std::time::Instant;

use crate::interference::LINE_BYTES;

/// Rows and columns of the matrices: three of them fit into a first-level cache of 32 KiB.
const SIDE: usize = 48;
/// Rows of the product that are worked on at once.
const ROWS: usize = 4;
/// Products in one run, about 100 µs in all. Without optimisation, as in tests, one product alone takes longer.
const PRODUCTS: usize = if cfg!(debug_assertions) { 1 } else { 6 };
/// Cache lines that are handed over, a power of two. Over a slow interconnect, reading them takes as long as the
/// products.
const LINES: usize = 512;
/// Words in a cache line.
const LINE: usize = LINE_BYTES / size_of::<usize>();

/// Two matrices and their product, and the lines that another thread reads.
#[derive(Debug)]
pub(super) struct Work {
    left: [[f32; SIDE]; SIDE],
    right: [[f32; SIDE]; SIDE],
    product: [[f32; SIDE]; SIDE],
    /// The first word of each line is the number of the line to read after it.
    handed: [[usize; LINE]; LINES],
}

impl Work {
    pub fn new() -> Work {
        let full = |value| [[value; SIDE]; SIDE];
        Work {
            left: full(0.5),
            right: full(0.25),
            product: full(0.0),
            handed: std::array::from_fn(|line| [next(line); LINE]),
        }
    }

    /// Time of a few products, ns.
    pub fn products_ns(&mut self) -> f64 {
        let start = Instant::now();
        for _ in 0..PRODUCTS {
            black_box(&mut *self).multiply();
        }
        elapsed_ns(start)
    }

    /// Writes the lines to be handed over, so that they are in the cache of this thread's core.
    pub fn write(&mut self) {
        for (number, line) in black_box(&mut self.handed).iter_mut().enumerate() {
            line[0] = next(number);
        }
    }

    /// Time to read what another thread has written, line by line, ns.
    pub fn read_ns(&self) -> f64 {
        let start = Instant::now();
        let handed = black_box(&self.handed);
        black_box((0..LINES).fold(0, |line, _| handed[line][0]));
        elapsed_ns(start)
    }

    fn multiply(&mut self) {
        let rows = self.left.chunks_exact(ROWS);
        for (left, product) in rows.zip(self.product.chunks_exact_mut(ROWS)) {
            product.iter_mut().for_each(|row| row.fill(0.0));
            for (k, right) in self.right.iter().enumerate() {
                for (left, product) in left.iter().zip(product.iter_mut()) {
                    // Not `mul_add`: without the instruction in the baseline that is a call of the C library.
                    let terms = product.iter_mut().zip(right);
                    terms.for_each(|(sum, right)| *sum += left[k] * right);
                }
            }
        }
    }
}

/// The line to read after this one. The order visits all of them (a linear congruential sequence of full period), and
/// no prefetcher foresees it.
fn next(line: usize) -> usize {
    (5 * line + 3) % LINES
}

fn elapsed_ns(start: Instant) -> f64 {
    start.elapsed().as_nanos().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_is_a_product() {
        let mut work = Work::new();
        work.products_ns();
        work.products_ns();
        assert_eq!(work.product, [[0.5 * 0.25 * SIDE as f32; SIDE]; SIDE]);
    }

    #[test]
    fn every_line_is_read() {
        let mut work = Work::new();
        work.handed = [[0; LINE]; LINES];
        work.write();
        let mut seen: Vec<usize> = Vec::new();
        let mut line = 0;
        for _ in 0..LINES {
            line = work.handed[line][0];
            seen.push(line);
        }
        seen.sort_unstable();
        assert!(seen.iter().copied().eq(0..LINES));
        assert!(work.read_ns() >= 1.0);
    }
}
