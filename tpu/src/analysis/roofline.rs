//! Roofline: what the chip could reach against what a kernel, layer or dump did.
//!
//! Peak operations are those of the cubes: lanes × input channels × four outputs × 2 per cycle for bytes. 16-bit types
//! have half of them, 32-bit ones one channel and a quarter of the vector units. The memory roof is the chip's DDR
//! limit of a core. Formula: attainable = min(peak, intensity × bandwidth), intensity = operations over DDR bytes.

use serde::Serialize;

use crate::analysis::rollup::Group;
use crate::chip::ChipSpec;
use crate::chip::names::data_type_bytes;
use crate::profile::Profile;
use crate::report::Engine;
use crate::view::{Detail, Viewer};

/// One group against the roofs; per core.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Name of the group.
    pub name: String,
    /// Operations over DDR bytes, if both are known.
    pub intensity: Option<f64>,
    /// Operations over time in Gop/s, if known.
    pub achieved_gops: Option<f64>,
    /// The lower of the two roofs in Gop/s, if the intensity is known.
    pub attainable_gops: Option<f64>,
    /// DDR bytes over time in GB/s, if directions are known.
    pub achieved_gbps: Option<f64>,
    /// The DDR rate over the chip's limit.
    pub ddr_share: Option<f64>,
    /// Operations over the peak's in the same time, whatever DDR did; if they are known.
    pub peak_share: Option<f64>,
    /// The lower one of the roofs.
    pub bound: Option<Bound>,
}

/// The limit of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// Operations.
    Compute,
    /// DDR bandwidth.
    Memory,
}

/// Peak of one core in Gop/s for elements of this many bytes.
pub fn peak_gops(spec: &ChipSpec, tiu_mhz: f64, element_bytes: f64) -> f64 {
    let lanes = spec.lanes as f64;
    let per_cycle = if element_bytes >= 4.0 {
        lanes * spec.eu_per_lane as f64 / 4.0 * 2.0
    } else {
        lanes * spec.cube_ic as f64 / element_bytes * 4.0 * 2.0
    };
    per_cycle * tiu_mhz / 1000.0
}

/// Places a group under the roofs. `element_bytes` is that of the work's element type.
pub fn place(spec: &ChipSpec, tiu_mhz: f64, element_bytes: f64, group: &Group) -> Point {
    let ns = group.total_ns as f64;
    let ddr_bytes = (group.ddr_read_bytes + group.ddr_write_bytes) as f64;
    let known = !group.direction_unknown && ns > 0.0;
    let achieved_gbps = (known && ddr_bytes > 0.0).then(|| ddr_bytes / ns);
    let intensity = group
        .alg_ops
        .filter(|_| known && ddr_bytes > 0.0)
        .map(|ops| ops / ddr_bytes);
    let peak = peak_gops(spec, tiu_mhz, element_bytes);
    let attainable_gops = intensity.map(|i| peak.min(i * spec.ddr_gbps));
    Point {
        name: group.name.clone(),
        intensity,
        achieved_gops: group.alg_ops.filter(|_| ns > 0.0).map(|ops| ops / ns),
        attainable_gops,
        achieved_gbps,
        peak_share: group
            .alg_ops
            .filter(|_| ns > 0.0)
            .map(|ops| ops / ns / peak),
        ddr_share: achieved_gbps.map(|gbps| gbps / spec.ddr_gbps),
        bound: intensity.map(|i| {
            if i * spec.ddr_gbps < peak {
                Bound::Memory
            } else {
                Bound::Compute
            }
        }),
    }
}

/// Bytes of the element type of most TIU work; 1 if it is unknown.
pub fn element_bytes(profile: &Profile) -> f64 {
    let mut cycles = [0u64; 16];
    let tiu = profile.streams().filter(|(s, _)| s.engine == Engine::Tiu);
    for viewer in tiu.filter_map(|(stream, _)| Viewer::new(profile, stream)) {
        for view in viewer.views() {
            if let Detail::Tiu(tiu) = view.detail
                && let Some(dtype) = tiu.dtype.filter(|&d| d < 16)
            {
                cycles[dtype as usize] += view.event.cycles();
            }
        }
        viewer.release();
    }
    let code = (0..16u32)
        .max_by_key(|&code| (cycles[code as usize], 16 - code))
        .unwrap_or(0);
    data_type_bytes(code).unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::Chip;

    #[test]
    fn peaks_by_hand() {
        // BM1690: 64 lanes of 64 × 4 multiply-adds at 1 GHz are 32.768 Tops a core, 262 Tops on eight.
        assert_eq!(peak_gops(Chip::Aks.spec(), 1000.0, 1.0), 32_768.0);
        assert_eq!(peak_gops(Chip::Aks.spec(), 1000.0, 2.0), 16_384.0);
    }
}
