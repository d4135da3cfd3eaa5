//! Facts about a source's kernels from the assembler, the cubin and the disassembler.

use std::collections::BTreeMap;

use object::{Object, ObjectSection};

/// The assembler's report on one kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// Registers of a thread.
    pub registers: Option<u64>,
    /// Shared memory that the kernel declares, in bytes.
    pub shared_bytes: Option<u64>,
    /// Stack frame of a thread, in bytes.
    pub stack_bytes: Option<u64>,
    /// Bytes stored because registers ran out.
    pub spill_store_bytes: Option<u64>,
    /// Bytes loaded for the same reason.
    pub spill_load_bytes: Option<u64>,
}

/// The assembler's report (`--ptxas-options=-v`), by kernel.
///
/// Each kernel has a section that begins with `Compiling entry function 'NAME' for 'ARCH'`. Two lines follow for the kernel
/// and for each function that was not inlined: `Function properties for NAME`, and the properties. The last line is
/// `Used N registers, …`, with the shared memory if there is any.
pub(super) fn reports(log: &str) -> BTreeMap<String, Report> {
    let mut all: BTreeMap<String, Report> = BTreeMap::new();
    let mut kernel = String::new();
    let mut function = String::new();
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            kernel = rest.split('\'').next().unwrap_or_default().to_owned();
            all.insert(kernel.clone(), Report::default());
        } else if let Some((_, name)) = line.split_once("Function properties for ") {
            function = name.trim().to_owned();
        }
        let Some(report) = all.get_mut(&kernel) else {
            continue;
        };
        if line.contains("bytes stack frame") && function == kernel {
            report.stack_bytes = number_before(line, " bytes stack frame");
            report.spill_store_bytes = number_before(line, " bytes spill stores");
            report.spill_load_bytes = number_before(line, " bytes spill loads");
        } else if line.contains(" registers") {
            report.registers = number_before(line, " registers");
            // It is left out where a kernel has none.
            report.shared_bytes = Some(number_before(line, " bytes smem").unwrap_or(0));
        }
    }
    all
}

/// The number that stands in a line before some words.
fn number_before(line: &str, words: &str) -> Option<u64> {
    let head = &line[..line.find(words)?];
    let digits = head.rsplit(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Machine code of each kernel of a cubin.
pub(super) fn code(cubin: &[u8]) -> BTreeMap<String, &[u8]> {
    let Ok(file) = object::File::parse(cubin) else {
        return BTreeMap::new();
    };
    let sections = file.sections().filter_map(|section| {
        let name = section.name().ok()?.strip_prefix(CODE_OF)?.to_owned();
        Some((name, section.data().ok()?))
    });
    sections.collect()
}

/// Prefix of the name of a kernel's section.
pub(super) const CODE_OF: &str = ".text.";

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k2' for 'sm_80'
ptxas info    : Function properties for k2
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers, 360 bytes cmem[0]
ptxas info    : Compile time = 1.438 ms
ptxas info    : Compiling entry function 'k' for 'sm_80'
ptxas info    : Function properties for k
ptxas         .     16 bytes stack frame, 24 bytes spill stores, 28 bytes spill loads
ptxas info    : Function properties for helper
ptxas         .     999 bytes stack frame, 9 bytes spill stores, 9 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 1200 bytes smem, 368 bytes cmem[0]
";

    #[test]
    fn the_report_of_the_assembler_is_read_by_kernel() {
        let reports = reports(LOG);
        let plain = Report {
            registers: Some(8),
            shared_bytes: Some(0),
            stack_bytes: Some(0),
            spill_store_bytes: Some(0),
            spill_load_bytes: Some(0),
        };
        let spilling = Report {
            registers: Some(32),
            shared_bytes: Some(1200),
            stack_bytes: Some(16),
            spill_store_bytes: Some(24),
            spill_load_bytes: Some(28),
        };
        let expected = [("k".to_owned(), spilling), ("k2".to_owned(), plain)];
        assert_eq!(reports, expected.into());
    }

    #[test]
    fn what_is_no_cubin_has_no_code() {
        assert!(code(b"no ELF").is_empty());
        assert!(reports("no report").is_empty());
    }
}
