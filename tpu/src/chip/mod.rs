//! The chips whose dumps are read, with the constants that parsing and analysis need.
//!
//! Owns the chip registry; the layouts of their commands are in [`regs`]. Numbers come from bigTpuProfile
//! 0.3.7's definitions of each chip (its `*_defs.py`), the argument lists as that tool prints them.

pub mod memory;
pub mod names;
pub mod ops;
pub mod regs;

use std::fmt;

/// A Sophgo chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Chip {
    /// SG2260, sold as BM1690.
    Aks,
    /// SG2260E.
    Aksv,
    /// BM1688; its own tool prints "A2".
    Bm1688,
    /// CV84X6, once called BM1684X2.
    Cv84x6,
}

/// How the first records of a core's streams are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preamble {
    /// Two sync records and two commands per engine, not part of the profile.
    SyncPair,
    /// No preamble; stray TIU records at both ends, and the first pair kept is a send and a wait.
    Strays,
    /// No preamble.
    None,
}

/// Constants of one chip. Frequencies in MHz, bandwidths in GB/s, sizes as named.
#[derive(Debug)]
pub struct ChipSpec {
    /// The chip.
    pub chip: Chip,
    /// Name in reports.
    pub name: &'static str,
    /// Values of `arch=` in `global.profile`.
    pub arch_values: &'static [u32],
    /// Names accepted for `arch=`, in capitals.
    pub arch_names: &'static [&'static str],
    /// Cores on the chip.
    pub cores: u32,
    /// CDMA ports.
    pub cdma_ports: u32,
    /// Default TIU clock.
    pub tiu_mhz: f64,
    /// Clock of the DMA engines.
    pub dma_mhz: f64,
    /// The commands at the beginning of the streams.
    pub preamble: Preamble,
    /// Engine codes of command nodes, in the order TIU, GDMA, HAU, SDMA, CDMA, VSDMA.
    engine_codes: &'static [NodeEngine],
    /// Command id at which RVT nodes make the runtime insert a reset.
    pub rvt_wrap_id: Option<u32>,
    /// Lanes ("NPUs").
    pub lanes: u64,
    /// Vector units of one lane for bytes.
    pub eu_per_lane: u64,
    /// Multiply-add units of one lane's cube for bytes, along the input channels.
    pub cube_ic: u64,
    /// Largest DDR bandwidth of one core.
    pub ddr_gbps: f64,
    /// Largest L2 bandwidth of one core; 0 where the vendor states none.
    pub l2_gbps: f64,
    /// Bytes a DMA engine can move in one of its cycles.
    pub bus_bytes_per_cycle: u64,
    /// Local memory of a core in bytes.
    pub lmem_bytes: u64,
    /// The rest of the argument list at the beginning of RegInfo files: the values of [`ARG_NAMES`].
    args: &'static str,
}

/// The engine of a command node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeEngine {
    /// Tensor computing unit.
    Tiu,
    /// The core's DMA.
    Gdma,
    /// Hardware accelerating unit; nothing of it is profiled.
    Hau,
    /// The system DMA, from the core's side.
    Sdma,
    /// Chip-to-chip DMA.
    Cdma,
}

impl ChipSpec {
    /// The engine with this code in a command node.
    pub fn node_engine(&self, code: u32) -> Option<NodeEngine> {
        self.engine_codes.get(code as usize).copied()
    }

    /// Records (and commands) that the preamble takes from each engine.
    pub fn preamble_len(&self) -> usize {
        if self.preamble == Preamble::SyncPair {
            2
        } else {
            0
        }
    }

    /// Bytes of one PMU record of the TIU.
    pub fn tiu_record_bytes(&self) -> usize {
        if self.chip == Chip::Bm1688 { 32 } else { 16 }
    }

    /// Bytes of one PMU record of GDMA and SDMA.
    pub fn dma_record_bytes(&self) -> usize {
        if self.chip == Chip::Bm1688 { 256 } else { 64 }
    }
}

/// Bytes of one PMU record of a CDMA port.
pub const CDMA_RECORD_BYTES: usize = 128;

use NodeEngine::{Cdma, Gdma, Hau, Sdma, Tiu};

const AKS: ChipSpec = ChipSpec {
    chip: Chip::Aks,
    name: "AKS",
    arch_values: &[5, 8800],
    arch_names: &["AKS"],
    cores: 8,
    cdma_ports: 11,
    tiu_mhz: 1000.0,
    dma_mhz: 1000.0,
    preamble: Preamble::SyncPair,
    engine_codes: &[Tiu, Gdma, Hau, Sdma, Cdma, Sdma],
    rvt_wrap_id: None,
    lanes: 64,
    eu_per_lane: 64,
    cube_ic: 64,
    ddr_gbps: 68.264,
    l2_gbps: 128.0,
    bus_bytes_per_cycle: 128,
    lmem_bytes: 16 << 20,
    args: "64 16 18 14 64 2 1 128 8533 68.264 128 64 4 4 64",
};

static SPECS: [ChipSpec; 4] = [
    AKS,
    ChipSpec {
        chip: Chip::Aksv,
        name: "AKSV",
        arch_values: &[6, 140_814],
        arch_names: &["AKSV"],
        cores: 4,
        cdma_ports: 10,
        engine_codes: &[Tiu, Gdma, Sdma, Cdma, Sdma],
        rvt_wrap_id: Some(0x3ffff),
        ..AKS
    },
    ChipSpec {
        chip: Chip::Bm1688,
        name: "BM1688",
        arch_values: &[4],
        arch_names: &["BM1688"],
        cores: 2,
        cdma_ports: 0,
        tiu_mhz: 900.0,
        dma_mhz: 750.0,
        preamble: Preamble::None,
        engine_codes: &[Tiu, Gdma, Sdma, Cdma, Sdma],
        rvt_wrap_id: None,
        lanes: 32,
        eu_per_lane: 16,
        cube_ic: 32,
        ddr_gbps: 32.0,
        l2_gbps: 0.0,
        bus_bytes_per_cycle: 64,
        lmem_bytes: 4 << 20,
        args: "32 4 17 13 16 16 0 64 4266 32 0 32 4 4 16",
    },
    ChipSpec {
        chip: Chip::Cv84x6,
        name: "CV84X6",
        arch_values: &[7],
        arch_names: &["CV84X6", "BM1684X2"],
        cores: 4,
        cdma_ports: 0,
        tiu_mhz: 1400.0,
        dma_mhz: 1200.0,
        preamble: Preamble::Strays,
        engine_codes: &[Tiu, Gdma, Sdma, Cdma, Sdma],
        rvt_wrap_id: None,
        lanes: 16,
        eu_per_lane: 32,
        cube_ic: 32,
        ddr_gbps: 64.0,
        l2_gbps: 0.0,
        bus_bytes_per_cycle: 64,
        lmem_bytes: 16 << 18,
        args: "16 0.25 18 14 32 16 0 64 4266 64 0 64 4 4 16",
    },
];

/// The names of [`ChipSpec::args`].
const ARG_NAMES: &str = "NPU Num|TPU Lmem Size(MiB)|Tpu Lmem Addr Width(bits)|Tpu Bank Addr Width(bits)|\
    Execution Unit Number(int8)|Bus Max Burst|L2 Max Burst|Bus Bandwidth|DDR Frequency(MHz)|\
    DDR Max BW(GB/s/Core)|L2 Max BW(GB/s)|Cube IC Align(8bits)|Cube OHOW Align(8bits)|\
    Cube OHOW Align(16bits)|Vector OHOW Align(8bits)";

impl Chip {
    /// All chips.
    pub const ALL: [Chip; 4] = [Chip::Aks, Chip::Aksv, Chip::Bm1688, Chip::Cv84x6];

    /// Its constants.
    pub fn spec(self) -> &'static ChipSpec {
        match self {
            Chip::Aks => &SPECS[0],
            Chip::Aksv => &SPECS[1],
            Chip::Bm1688 => &SPECS[2],
            Chip::Cv84x6 => &SPECS[3],
        }
    }

    /// The chip that `arch=` in `global.profile` names, by number or by name.
    pub fn from_arch(value: &str) -> Option<Chip> {
        let upper = value.to_ascii_uppercase();
        let number = value.parse::<u32>().ok();
        Chip::ALL.into_iter().find(|chip| {
            let spec = chip.spec();
            spec.arch_names.contains(&upper.as_str())
                || number.is_some_and(|n| spec.arch_values.contains(&n))
        })
    }

    /// The argument list at the beginning of RegInfo files, at these clocks.
    pub fn args(self, tiu_mhz: f64, dma_mhz: f64) -> Vec<(&'static str, String)> {
        let spec = self.spec();
        let printed = if self == Chip::Bm1688 {
            "A2"
        } else {
            spec.name
        };
        let mut args = vec![
            ("Chip Arch", printed.to_string()),
            ("Platform", "ASIC".to_string()),
            ("Core Num", spec.cores.to_string()),
        ];
        let values = spec.args.split(' ').map(str::to_string);
        args.extend(ARG_NAMES.split('|').zip(values));
        args.push(("TIU Frequency(MHz)", tiu_mhz.to_string()));
        args.push(("DMA Frequency(MHz)", dma_mhz.to_string()));
        args
    }
}

impl fmt::Display for Chip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.spec().name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arch_by_number_name_and_old_name() {
        assert_eq!(Chip::from_arch("5"), Some(Chip::Aks));
        assert_eq!(Chip::from_arch("8800"), Some(Chip::Aks));
        assert_eq!(Chip::from_arch("140814"), Some(Chip::Aksv));
        assert_eq!(Chip::from_arch("bm1684x2"), Some(Chip::Cv84x6));
        assert_eq!(Chip::from_arch("BM1688"), Some(Chip::Bm1688));
        assert_eq!(Chip::from_arch("99"), None);
    }

    #[test]
    fn engine_codes_differ_between_the_first_chip_and_the_rest() {
        assert_eq!(Chip::Aks.spec().node_engine(2), Some(NodeEngine::Hau));
        assert_eq!(Chip::Aks.spec().node_engine(5), Some(NodeEngine::Sdma));
        assert_eq!(Chip::Aksv.spec().node_engine(2), Some(NodeEngine::Sdma));
        assert_eq!(Chip::Aksv.spec().node_engine(5), None);
    }
}
