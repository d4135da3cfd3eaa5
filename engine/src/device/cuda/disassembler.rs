//! Machine instructions of a kernel: opcodes in its code, counted.
//!
//! NVIDIA's disassembler knows the names. It takes a fifth of a second to start, more than most kernels take to
//! compile. So it is asked only for code with an instruction not met before. The bits that select an instruction are
//! the same wherever it stands. After a few kernels all that a generator uses are known.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;

use super::cubin;

/// Opcodes in a kernel's code, counted.
pub(super) type Counts = BTreeMap<String, u64>;

/// Bytes of an instruction, on every architecture since compute capability 7.0.
const INSTRUCTION_BYTES: usize = 16;
/// The lowest bits of an instruction, which select what it does and the form of its operands.
const SELECTING_BITS: u16 = 0xfff;
/// Opcode that pads a kernel's code after its last instruction.
const FILLING: &str = "NOP";

/// Counts the instructions of cubins for one architecture.
#[derive(Debug)]
pub(super) struct Disassembler {
    /// NVIDIA's disassembler. Without it no instruction is counted.
    program: Option<PathBuf>,
    names: Mutex<Names>,
}

impl Disassembler {
    /// A disassembler that runs this program.
    pub fn new(program: Option<PathBuf>) -> Disassembler {
        Disassembler {
            program,
            names: Mutex::default(),
        }
    }

    /// Instructions of each kernel of a cubin by opcode. Empty if there is no disassembler, or if it fails.
    pub fn instructions(&self, cubin: &[u8]) -> BTreeMap<String, Counts> {
        let code = cubin::code(cubin);
        let known = |names: &Names| {
            let all = code.iter();
            all.map(|(kernel, code)| Some((kernel.clone(), names.count(code)?)))
                .collect::<Option<BTreeMap<_, _>>>()
        };
        if let Some(found) = self.names.lock().ok().and_then(|names| known(&names)) {
            return found;
        }
        let Some(listing) = self.listing(cubin) else {
            return BTreeMap::new();
        };
        let instructions = listed(&listing);
        if let Ok(mut names) = self.names.lock() {
            names.learn(&instructions);
        }
        let mut counts: BTreeMap<String, Counts> = BTreeMap::new();
        for instruction in instructions {
            let counts = counts.entry(instruction.kernel.to_owned()).or_default();
            *counts.entry(instruction.name.to_owned()).or_default() += 1;
        }
        for counts in counts.values_mut() {
            counts.remove(FILLING);
        }
        counts
    }

    fn listing(&self, cubin: &[u8]) -> Option<String> {
        let program = self.program.as_ref()?;
        let mut file = tempfile::NamedTempFile::new().ok()?;
        file.write_all(cubin).ok()?;
        let output = Command::new(program)
            .args(["-c", "-hex"])
            .arg(file.path())
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&output.stdout);
        output.status.success().then(|| text.into_owned())
    }
}

/// Names of instructions by the bits that select them. `None` if the same bits had two names, which makes them
/// ambiguous.
#[derive(Debug, Default)]
struct Names(BTreeMap<u16, Option<String>>);

impl Names {
    /// Counts the instructions of a kernel's code. `None` if one of them is not known.
    fn count(&self, code: &[u8]) -> Option<Counts> {
        let mut by_bits: BTreeMap<u16, u64> = BTreeMap::new();
        for instruction in code.chunks_exact(INSTRUCTION_BYTES) {
            let bits = u16::from_le_bytes([instruction[0], instruction[1]]) & SELECTING_BITS;
            *by_bits.entry(bits).or_default() += 1;
        }
        let mut counts = Counts::new();
        for (bits, count) in by_bits {
            let name = self.0.get(&bits)?.as_ref()?;
            *counts.entry(name.clone()).or_default() += count;
        }
        counts.remove(FILLING);
        Some(counts)
    }

    fn learn(&mut self, instructions: &[Listed<'_>]) {
        for instruction in instructions {
            let name = Some(instruction.name.to_owned());
            let known = self.0.entry(instruction.bits).or_insert(name.clone());
            if *known != name {
                *known = None;
            }
        }
    }
}

/// An instruction in a listing.
struct Listed<'a> {
    kernel: &'a str,
    name: &'a str,
    bits: u16,
}

/// The instructions of a listing: lines `/*0010*/ @P0 FFMA.FTZ R1, … ; /* 0x…7223 */` after a label `.text.NAME:`.
fn listed(listing: &str) -> Vec<Listed<'_>> {
    let mut kernel = "";
    let mut all = Vec::new();
    for line in listing.lines() {
        let line = line.trim();
        if let Some(name) = line
            .strip_prefix(cubin::CODE_OF)
            .and_then(|l| l.strip_suffix(':'))
        {
            kernel = name;
        }
        all.extend(instruction(line).map(|(name, bits)| Listed { kernel, name, bits }));
    }
    all
}

/// Opcode and selecting bits of a line that has an instruction.
fn instruction(line: &str) -> Option<(&str, u16)> {
    let (_, rest) = line.strip_prefix("/*")?.split_once("*/")?;
    let (text, code) = rest.split_once("/*")?;
    let word = text
        .split_whitespace()
        .find(|word| !word.starts_with('@') && *word != "{")?;
    let name = word.trim_end_matches(';').split('.').next()?;
    let code = code.trim().strip_prefix("0x")?.split_whitespace().next()?;
    let code = u64::from_str_radix(code, 16).ok()?;
    (!name.is_empty()).then_some((name, code as u16 & SELECTING_BITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTING: &str = "\
k2:
.text.k2:
        /*0000*/                   MOV R1, c[0x0][0x28] ;          /* 0x00000a0000017a02 */
                                                                   /* 0x000fe40000000f00 */
        /*0060*/              @!P0 STG.E [R2.64], R5 ;             /* 0x0000000502008986 */
                                                                   /* 0x000fe2000c101904 */
        /*0070*/                   EXIT ;                          /* 0x000000000000794d */
.L_x_0:
        /*0090*/                   NOP;                            /* 0x0000000000007918 */
.text.k:
        /*0000*/                   FFMA.FTZ R1, R2, R3, R1 ;       /* 0x0000000302017223 */
        /*0010*/                   FFMA R1, R2, R3, R1 ;           /* 0x0000000302011223 */
";

    #[test]
    fn opcodes_are_read_without_variants_and_predicates() {
        let all = listed(LISTING);
        let found: Vec<String> = all
            .iter()
            .map(|i| format!("{} {} {:x}", i.kernel, i.name, i.bits))
            .collect();
        let expected = [
            "k2 MOV a02",
            "k2 STG 986",
            "k2 EXIT 94d",
            "k2 NOP 918",
            "k FFMA 223",
            "k FFMA 223",
        ];
        assert_eq!(found, expected);
    }

    /// An instruction whose selecting bits are these; the rest differs from place to place.
    fn encoded(bits: u16, rest: u8) -> [u8; INSTRUCTION_BYTES] {
        let mut instruction = [rest; INSTRUCTION_BYTES];
        let low = bits | u16::from(rest & 0xf) << 12;
        instruction[..2].copy_from_slice(&low.to_le_bytes());
        instruction
    }

    #[test]
    fn known_instructions_are_counted_and_strangers_are_no_guess() {
        let mut names = Names::default();
        names.learn(&listed(LISTING));
        let code = [(0xa02, 1), (0x223, 2), (0x223, 9), (0x918, 0)].map(|(b, r)| encoded(b, r));
        let counts = names.count(code.as_flattened()).unwrap();
        assert_eq!(
            counts,
            [("FFMA".to_owned(), 2), ("MOV".to_owned(), 1)].into()
        );
        assert_eq!(names.count(&encoded(0x224, 1)), None, "never met");
        let other = "/*0000*/ IMAD R1, R2 ; /* 0x0000000302017223 */";
        names.learn(&listed(other));
        assert_eq!(names.count(code.as_flattened()), None, "two names");
        names.learn(&listed(LISTING));
        assert_eq!(names.count(code.as_flattened()), None, "and so it stays");
    }

    #[test]
    fn without_a_disassembler_nothing_is_counted() {
        for program in [None, Some("/nonexistent/nvdisasm".into())] {
            let found = Disassembler::new(program).instructions(b"no ELF");
            assert!(found.is_empty());
        }
    }
}
