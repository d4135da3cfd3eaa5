//! Names of functions by their codes in command nodes and descriptors, as bigTpuProfile 0.3.7 writes them.
//!
//! The tables differ between the AKS family and the two newer chips; codes without a name get one made of the code.

use std::borrow::Cow;

use crate::chip::Chip;

/// Code of tasks that synchronise in TIU commands.
pub const TIU_SYS: u32 = 15;
/// Code of commands that synchronise in GDMA and SDMA commands.
pub const DMA_SYS: u32 = 6;
/// Code of commands that synchronise in CDMA commands.
pub const CDMA_SYS: u32 = 7;
/// Code standing for "no command known": -1 in the five bits that hold it.
pub const UNKNOWN: u32 = 31;

/// Names of the element types that DMA commands carry.
const DATA_TYPES: [&str; 10] = [
    "INT8", "FP16", "FP32", "INT16", "INT32", "BFP16", "INT4", "FP8", "FP20", "TF32",
];

/// The element type with this code, if there is one.
pub fn data_type(code: u32) -> Option<&'static str> {
    DATA_TYPES.get(code as usize).copied()
}

/// Bytes of an element of the type with this code.
pub fn data_type_bytes(code: u32) -> Option<f64> {
    Some(match code {
        0 | 7 => 1.0,
        1 | 3 | 5 => 2.0,
        2 | 4 | 9 => 4.0,
        6 => 0.5,
        8 => 2.5,
        _ => return None,
    })
}

/// Type and name of a TIU task known from its node.
pub fn tiu(task: u32, function: u32) -> (Cow<'static, str>, Cow<'static, str>) {
    let kind: Cow<'static, str> = match tiu_type(task) {
        Some(name) => name.into(),
        None => format!("cmd_type_{task}").into(),
    };
    let name = match tiu_name(task, function) {
        Some(name) => name.into(),
        None => format!("{kind}_{function}").into(),
    };
    (kind, name)
}

fn tiu_type(task: u32) -> Option<&'static str> {
    Some(match task {
        0 => "conv",
        1 => "dw/pool",
        2 => "mm/mm2",
        3 => "arith/SEG",
        4 => "RQ/DQ",
        5 => "TRANS/BC",
        6 => "gather/scatter",
        7 => "linear_arithmetic",
        8 => "rand_gen",
        9 => "md/sfu",
        10 => "md_linear",
        12 => "WR_IMM",
        13 => "fused_cmpare",
        14 => "vector_correlation",
        15 => "sys",
        31 => "unknown",
        _ => return None,
    })
}

/// The name of a TIU function. Long as a table is: one line for each.
fn tiu_name(task: u32, function: u32) -> Option<&'static str> {
    Some(match (task, function) {
        (0, 0) => "conv",
        (0, 1) => "conv_normal",
        (0, 2) => "conv_tf32",
        (1, 0) => "depthwise",
        (1, 1) => "avg pooling",
        (1, 3) => "min pooling",
        (1, 4) => "max pooling",
        (1, 5) => "ROI depthwise",
        (1, 6) => "ROI avg pooling",
        (1, 7) => "ROI max pooling",
        (1, 8) => "ROI min pooling",
        (2, 0) => "MM_NORMAL",
        (2, 4) => "MM2_NN",
        (2, 5) => "MM2_NT",
        (2, 6) => "MM2_TT",
        (2, 7) => "MM_NN_TF32",
        (2, 8) => "MM_NT_TF32",
        (2, 9) => "MM_TT_TF32",
        (3, 0) => "mul",
        (3, 1) => "not",
        (3, 2) => "add",
        (3, 3) => "sub",
        (3, 4) => "max",
        (3, 5) => "min",
        (3, 6) => "logic_shift",
        (3, 7) => "and",
        (3, 8) => "or",
        (3, 9) => "xor",
        (3, 10) => "select_great",
        (3, 11) => "select_equal",
        (3, 12) => "div",
        (3, 13) => "select_less",
        (3, 14) => "data_convert",
        (3, 15) => "add_satu",
        (3, 16) => "sub_satu",
        (3, 18) => "mac",
        (3, 19) => "copy",
        (3, 20) => "mul_satu",
        (3, 21) => "arith shift",
        (3, 22) => "rotate shift",
        (3, 23) => "mulDHR [N]",
        (3, 26) => "ABS",
        (3, 27) => "FSUBABS",
        (3, 28) => "copy_mb [N]",
        (3, 29) => "get_first_one",
        (3, 30) => "get_first_zero",
        (4, 0) => "RQ_0",
        (4, 1) => "RQ_1",
        (4, 3) => "DQ_0",
        (4, 4) => "DQ_1",
        (5, 0) => "C_W_transpose",
        (5, 1) => "W_C_transpose",
        (5, 2) => "lane_copy",
        (5, 3) => "lane_broad",
        (5, 4) => "static_broad",
        (5, 5) => "static_distribute",
        (6, 0) => "PL_gather_d1coor",
        (6, 1) => "PL_gather_d2coor",
        (6, 2) => "PL_gather_rec [N]",
        (6, 3) => "PL_scatter_d1coor",
        (6, 4) => "PL_scatter_d2coor",
        (6, 5) => "PE_S_gather_d1coor",
        (6, 6) => "PE_S_scatter_d1coor",
        (6, 7) => "PE_M_gather_d1coor [N]",
        (6, 8) => "PE_S_mask_select",
        (6, 9) => "PE_S_nonzero",
        (6, 10) => "PE_S_scatter_pp_d1coor [N]",
        (6, 13) => "PE_S_gather_hzd",
        (6, 14) => "PE_S_scatter_hzd",
        (6, 15) => "PE_S_mask_selhzd",
        (6, 16) => "PE_S_nonzero_hzd",
        (6, 17) => "PE_S_gather_line",
        (6, 18) => "PE_S_scatter_line",
        (7, 0) => "linear_mul",
        (7, 1) => "linear_not",
        (7, 2) => "linear_add",
        (7, 3) => "linear_sub",
        (7, 4) => "linear_max",
        (7, 5) => "linear_min",
        (7, 6) => "linear_logic_shift",
        (7, 7) => "linear_and",
        (7, 8) => "linear_or",
        (7, 9) => "linear_xor",
        (7, 10) => "linear_select_great",
        (7, 11) => "linear_select_equal",
        (7, 12) => "linear_div",
        (7, 13) => "linear_select_less",
        (7, 14) => "linear_data_convert",
        (7, 15) => "linear_add_satu",
        (7, 16) => "linear_sub_satu",
        (7, 17) => "linear_clamp",
        (7, 18) => "linear_mac",
        (7, 19) => "linear_copy",
        (7, 20) => "linear_mul_satu",
        (8, 0) => "prng ",
        (8, 1) => "prng with intial seed",
        (8, 2) => ":prng with loaded states",
        (9, 12) => "tailor_4x",
        (9, 13) => "tailor",
        (9, 15) => "normalize",
        (9, 17) => "rsqrt",
        (10, 1) => "mac",
        (10, 20) => "(a+b)^2",
        (10, 21) => "(a-b)^2",
        (12, 0) => "WR_IMM",
        (13, 22) => "CMP_gt and CMP_sel_gt",
        (13, 23) => "CMP_sel_gt",
        (13, 24) => "CMP_sel_eq",
        (13, 25) => "CMP_lt and CMP_sel_lt",
        (13, 26) => "CMP_sel_lt",
        (13, 27) => "CMP_srch_bin",
        (14, 0) => "vc_mul",
        (14, 2) => "vc_add",
        (14, 3) => "vc_sub",
        (14, 4) => "vc_max",
        (14, 5) => "vc_min",
        (14, 7) => "vc_and",
        (14, 8) => "vc_or",
        (14, 9) => "xor",
        (14, 10) => "select_great",
        (14, 11) => "select_equal",
        (14, 12) => "div",
        (14, 13) => "select_less",
        (14, 15) => "add_satu",
        (14, 16) => "sub_satu",
        (14, 20) => "mul_satu",
        (14, 23) => "mulDHR",
        (15, 0) => "intr barrier[N]",
        (15, 1) => "spb",
        (15, 2) => "swr",
        (15, 3) => "swr_from_lmem",
        (15, 4) => "swr_collect_from_lmem",
        (15, 5) => "ata barrier[N]",
        (15, 8) => "send_msg",
        (15, 9) => "wait_msg",
        (15, 10) => "sys_fork",
        (15, 11) => "sys_join",
        (15, 12) => "sys_exit",
        (15, 13) => "rand_seed",
        (15, 30) => "nop",
        (15, 31) => "end",
        (31, 0) => "unknown",
        _ => return None,
    })
}

/// Type and name of a GDMA or SDMA command; `direction` as in `DDR->LMEM`.
pub fn dma(
    chip: Chip,
    command: u32,
    function: u32,
    direction: &str,
) -> (Cow<'static, str>, Cow<'static, str>) {
    match chip {
        Chip::Aks | Chip::Aksv => dma_aks(command, function, direction),
        Chip::Bm1688 | Chip::Cv84x6 => dma_newer(chip, command, function, direction),
    }
}

fn tensor_name(direction: &str) -> &'static str {
    match direction {
        "DDR->DDR" | "DDR->LMEM" => "tensorLd",
        "LMEM->DDR" => "tensorSt",
        "LMEM->LMEM" => "tensorMv",
        _ => "tensor",
    }
}

fn dma_aks(command: u32, function: u32, direction: &str) -> (Cow<'static, str>, Cow<'static, str>) {
    let kind: Cow<'static, str> = match command {
        0 => "DMA_tensor",
        1 => "DMA_matrix",
        2 => "DMA_masked_select",
        3 => "DMA_general",
        4 => "DMA_cw transpose",
        5 => "DMA_nonzero",
        6 => "sys",
        7 => "DMA_gather",
        8 => "DMA_scatter",
        9 => "DMA_reverse",
        10 => "DMA_compress",
        11 => "DMA_decompress",
        12 => "DMA_lossy_compress",
        13 => "DMA_lossy_decompress",
        14 => "DMA_randmask",
        15 => "DMA_transfer",
        UNKNOWN => "unknown",
        _ => {
            return (
                format!("cmd_type_{command}").into(),
                format!("cmd_type_{command}_{function}").into(),
            );
        }
    }
    .into();
    let name: Cow<'static, str> = match (command, function) {
        (0 | 1, 0) => tensor_name(direction).into(),
        (0, 1) => "NC trans".into(),
        (0, 2) => "collect".into(),
        (0, 3) => "broadcast".into(),
        (0, 4) => "distribute".into(),
        (0, 5) => "lmem 4 bank copy".into(),
        (0, 6) => "lmem 4 bank broadcast".into(),
        (1, 1) => "matrix transpose".into(),
        (2, 1) => "ncw mode".into(),
        (3, 1) => "broadcast".into(),
        (6, 1) => "nop".into(),
        (6, 2) => "sys_tr_wr".into(),
        (6, 3) => "sys_send".into(),
        (6, 4) => "sys_wait".into(),
        (9, 1) => "h reverse".into(),
        (9, 2) => "c reverse".into(),
        (9, 3) => "n reverse".into(),
        _ => kind.clone(),
    };
    (kind, name)
}

fn dma_newer(
    chip: Chip,
    command: u32,
    function: u32,
    direction: &str,
) -> (Cow<'static, str>, Cow<'static, str>) {
    let kind = if command == DMA_SYS && chip == Chip::Cv84x6 {
        "sys"
    } else {
        dma_newer_name(command, 0).unwrap_or("unknown")
    };
    let name = match (command, function) {
        (0 | 1, 0) => tensor_name(direction),
        _ => dma_newer_name(command, function).unwrap_or("unknown"),
    };
    (kind.into(), name.into())
}

fn dma_newer_name(command: u32, function: u32) -> Option<&'static str> {
    Some(match (command, function) {
        (0, 0) => "DMA_tensor",
        (0, 1) => "NC trans",
        (0, 2) => "collect",
        (0, 3) => "broadcast",
        (0, 4) => "distribute",
        (0, 5) => "lmem 4 bank copy",
        (0, 6) => "lmem 4 bank broadcast",
        (1, 0) => "DMA_matrix",
        (1, 1) => "matrix transpose",
        (2, 0) => "DMA_masked_select",
        (2, 1) => "ncw mode",
        (3, 0) => "DMA_general",
        (3, 1) => "broadcast",
        (4, 0) => "cw transpose",
        (5, 0) => "DMA_nonzero",
        (6, 0) => "chain end",
        (6, 1) => "nop",
        (6, 2) => "sys_tr_wr",
        (6, 3) => "sys_send",
        (6, 4) => "sys_wait",
        (7, 0) => "DMA_gather",
        (8, 0) => "DMA_scatter",
        (9, 0) => "w reverse",
        (9, 1) => "h reverse",
        (9, 2) => "c reverse",
        (9, 3) => "n reverse",
        (10 | 11, 0) => "non-random-access",
        (10 | 11, 1) => "random-access",
        _ => return None,
    })
}

/// Type and name of a CDMA command.
pub fn cdma(command: u32, function: u32) -> (Cow<'static, str>, Cow<'static, str>) {
    let kind: Cow<'static, str> = match command {
        0 => "send".into(),
        1 => "read".into(),
        2 => "write".into(),
        3 => "general".into(),
        4 => "receive".into(),
        5 => "lossy_compress".into(),
        6 => "lossy_decompress".into(),
        7 => "sys".into(),
        8 => "tcp_send".into(),
        9 => "tcp_receive".into(),
        UNKNOWN => "unknown".into(),
        _ => format!("cmd_type_{command}").into(),
    };
    let name = match (command, function) {
        (7, 0) => "end".into(),
        (7, 1) => "nop".into(),
        (7, 2) => "sys_tr_wr".into(),
        (7, 3) => "sys_msg_tx_send".into(),
        (7, 4) => "sys_msg_tx_wait".into(),
        (7, 5) => "sys_msg_rx_send".into(),
        (7, 6) => "sys_msg_rx_wait".into(),
        (0..=9 | UNKNOWN, 0) => kind.clone(),
        _ => format!("{kind}_{function}").into(),
    };
    (kind, name)
}

/// Whether a CDMA command of this name sends (as opposed to receives), for its sub-track.
pub fn cdma_lane(name: &str) -> CdmaLane {
    match name {
        "send" | "CDMA_send" | "sys_msg_tx_send" | "sys_msg_tx_wait" | "tcp_send"
        | "CDMA_tcp_send" => CdmaLane::Tx,
        "receive" | "CDMA_receive" | "sys_msg_rx_send" | "sys_msg_rx_wait" | "tcp_receive"
        | "CDMA_tcp_receive" | "read" => CdmaLane::Rx,
        _ => CdmaLane::Port,
    }
}

/// The sub-track of a port for a CDMA command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CdmaLane {
    /// The port's own.
    Port,
    /// Sending.
    Tx,
    /// Receiving.
    Rx,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_and_unknown_codes() {
        assert_eq!(tiu(2, 4), ("mm/mm2".into(), "MM2_NN".into()));
        assert_eq!(tiu(11, 3), ("cmd_type_11".into(), "cmd_type_11_3".into()));
        assert_eq!(dma(Chip::Aks, 0, 0, "LMEM->DDR").1, "tensorSt");
        assert_eq!(
            dma(Chip::Aks, 6, 3, "DDR->DDR"),
            ("sys".into(), "sys_send".into())
        );
        assert_eq!(
            dma(Chip::Bm1688, 6, 3, "DDR->DDR"),
            ("chain end".into(), "sys_send".into())
        );
        assert_eq!(
            dma(Chip::Cv84x6, 6, 3, "DDR->DDR"),
            ("sys".into(), "sys_send".into())
        );
        assert_eq!(cdma(7, 4).1, "sys_msg_tx_wait");
        assert_eq!(cdma_lane("sys_msg_rx_wait"), CdmaLane::Rx);
    }
}
