//! Configurations of a convolution, and which of them TVM's compiler and driver could run.
//!
//! The knobs are those of the template `conv2d_packed.vta` in AutoTVM. The rules were compared with the real compiler: see
//! docs/vta.md.

use serde::{Deserialize, Serialize};

use crate::error::Invalid;
use crate::profile::Hardware;
use crate::workload::Packed;

/// How a convolution is cut into tiles. Sizes are in blocks or output pixels; each divides its extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Blocks of images in a tile.
    pub tile_b: u64,
    /// Output rows in a tile.
    pub tile_h: u64,
    /// Output columns in a tile.
    pub tile_w: u64,
    /// Blocks of input channels in a tile.
    pub tile_ci: u64,
    /// Blocks of output channels in a tile.
    pub tile_co: u64,
    /// Virtual threads over output channels, 1 or 2.
    pub oc_nthread: u64,
    /// Virtual threads over output rows, 1 or 2.
    pub h_nthread: u64,
}

impl Config {
    /// Tiles of one element and one thread: the start for a reader that sets knob by knob.
    pub const ONES: Config = Config {
        tile_b: 1,
        tile_h: 1,
        tile_w: 1,
        tile_ci: 1,
        tile_co: 1,
        oc_nthread: 1,
        h_nthread: 1,
    };

    /// The knobs by name, in AutoTVM's order.
    pub fn knobs(&self) -> [(&'static str, u64); 7] {
        [
            ("tile_b", self.tile_b),
            ("tile_h", self.tile_h),
            ("tile_w", self.tile_w),
            ("tile_ci", self.tile_ci),
            ("tile_co", self.tile_co),
            ("oc_nthread", self.oc_nthread),
            ("h_nthread", self.h_nthread),
        ]
    }

    /// Sets a knob by name. Returns false if there is no such knob.
    pub fn set(&mut self, knob: &str, value: u64) -> bool {
        let place = match knob {
            "tile_b" => &mut self.tile_b,
            "tile_h" => &mut self.tile_h,
            "tile_w" => &mut self.tile_w,
            "tile_ci" => &mut self.tile_ci,
            "tile_co" => &mut self.tile_co,
            "oc_nthread" => &mut self.oc_nthread,
            "h_nthread" => &mut self.h_nthread,
            _ => return false,
        };
        *place = value;
        true
    }

    /// Virtual threads.
    pub fn threads(&self) -> u64 {
        self.oc_nthread * self.h_nthread
    }

    /// Checks what does not need the instructions: divisors, threads, padding, sizes of memories.
    ///
    /// # Errors
    /// Fails if the configuration is impossible, and says why.
    pub fn check(&self, p: &Packed, hardware: &Hardware, has_bias: bool) -> Result<(), Invalid> {
        for (knob, value) in [
            ("oc_nthread", self.oc_nthread),
            ("h_nthread", self.h_nthread),
        ] {
            if !(1..=2).contains(&value) {
                return Err(Invalid::Threads(knob));
            }
        }
        let extents = [
            ("tile_b", self.tile_b, p.batch),
            ("tile_h", self.tile_h, p.out_height),
            ("tile_w", self.tile_w, p.out_width),
            ("tile_ci", self.tile_ci, p.ci),
            ("tile_co", self.tile_co, p.co),
        ];
        for (knob, value, extent) in extents {
            if value == 0 || extent % value != 0 {
                return Err(Invalid::Divides {
                    knob,
                    value,
                    extent,
                });
            }
        }
        let halves = [
            ("oc_nthread", self.oc_nthread, p.co / self.tile_co),
            ("h_nthread", self.h_nthread, p.out_height / self.tile_h),
        ];
        for (knob, value, extent) in halves {
            if extent % value != 0 {
                return Err(Invalid::Divides {
                    knob,
                    value,
                    extent,
                });
            }
        }
        if self.threads() > 2 {
            return Err(Invalid::BothThreads);
        }
        if p.padding != [0, 0] && self.tile_ci != 1 {
            return Err(Invalid::PaddedChannels(self.tile_ci));
        }
        let [_, wgt, inp, acc, _] = hardware.depths();
        let [rows, columns] = self.input_tile(p);
        let bias = if has_bias { self.tile_co } else { 0 };
        let taps = p.kernel[0] * p.kernel[1];
        let sizes = [
            ("input", self.tile_b * self.tile_ci * rows * columns, inp),
            ("weight", self.tile_co * self.tile_ci * taps, wgt),
            ("accumulator", self.output_tile() + bias, acc),
        ];
        for (memory, one, depth) in sizes {
            let elements = one * self.threads();
            if elements > depth as u64 {
                return Err(Invalid::Overflow {
                    memory,
                    elements,
                    depth: depth as u64,
                });
            }
        }
        Ok(())
    }

    /// Rows and columns of the input that an output tile needs, padding included.
    pub fn input_tile(&self, p: &Packed) -> [u64; 2] {
        [
            (self.tile_h - 1) * p.stride[0] + p.kernel[0],
            (self.tile_w - 1) * p.stride[1] + p.kernel[1],
        ]
    }

    /// Elements of an output tile.
    pub fn output_tile(&self) -> u64 {
        self.tile_b * self.tile_co * self.tile_h * self.tile_w
    }
}

impl std::fmt::Display for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let knobs = self.knobs().map(|(name, value)| format!("{name}={value}"));
        f.write_str(&knobs.join(" "))
    }
}

/// All configurations of a workload, the impossible ones included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Space {
    /// The values of each knob, in AutoTVM's order.
    pub values: [(&'static str, Vec<u64>); 7],
}

impl Space {
    /// The space of a packed workload.
    pub fn of(p: &Packed) -> Space {
        Space {
            values: [
                ("tile_b", divisors(p.batch)),
                ("tile_h", divisors(p.out_height)),
                ("tile_w", divisors(p.out_width)),
                ("tile_ci", divisors(p.ci)),
                ("tile_co", divisors(p.co)),
                ("oc_nthread", vec![1, 2]),
                ("h_nthread", vec![1, 2]),
            ],
        }
    }

    /// Number of configurations.
    pub fn len(&self) -> usize {
        self.values.iter().map(|(_, values)| values.len()).product()
    }

    /// Whether there are no tasks.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All configurations of the space, in order.
    pub fn configs(&self) -> impl Iterator<Item = Config> + '_ {
        (0..self.len()).map(|mut index| {
            let mut knobs = [0; 7];
            for (knob, (_, values)) in knobs.iter_mut().zip(&self.values) {
                *knob = values[index % values.len()];
                index /= values.len();
            }
            let [
                tile_b,
                tile_h,
                tile_w,
                tile_ci,
                tile_co,
                oc_nthread,
                h_nthread,
            ] = knobs;
            Config {
                tile_b,
                tile_h,
                tile_w,
                tile_ci,
                tile_co,
                oc_nthread,
                h_nthread,
            }
        })
    }
}

fn divisors(extent: u64) -> Vec<u64> {
    (1..=extent).filter(|d| extent.is_multiple_of(*d)).collect()
}
