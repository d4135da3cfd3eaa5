//! A simulated run for people: disassembly, a Gantt chart of the stages as text and SVG, a Perfetto trace, what limits it.

use opreport::svg::{Bar, gantt};
use opreport::trace::{Order, Writer};
use opreport::units;

use crate::error::StreamError;
use crate::isa::{Operation, Stage};
use crate::lower::Program;
use crate::profile::Profile;
use crate::timing::{Simulated, Span, run};

/// The intervals of all instructions.
#[derive(Debug, Clone)]
pub struct Timeline<'a> {
    profile: &'a Profile,
    program: &'a Program,
    spans: Vec<Span>,
    cycles: f64,
}

impl<'a> Timeline<'a> {
    /// Runs a program in the timing model.
    ///
    /// # Errors
    /// Fails if its tokens do not come.
    pub fn of(profile: &'a Profile, program: &'a Program) -> Result<Timeline<'a>, StreamError> {
        let mut spans = Vec::with_capacity(program.instructions.len());
        let cycles = run(
            &program.instructions,
            &profile.timing,
            &profile.hardware,
            |span| {
                spans.push(span);
                Ok(())
            },
        )?;
        Ok(Timeline {
            profile,
            program,
            spans,
            cycles,
        })
    }

    fn ns(&self, cycles: f64) -> f64 {
        cycles * 1e3 / self.profile.hardware.clock_mhz as f64
    }

    fn stage(&self, span: &Span) -> Stage {
        self.program.instructions[span.at].stage()
    }

    /// A row for each stage, `columns` wide: how busy it was, from ` ` over `.:-=` to `#`.
    pub fn text(&self, columns: usize) -> String {
        const SHADES: [char; 6] = [' ', '.', ':', '-', '=', '#'];
        let columns = columns.max(1);
        let mut busy = [vec![0.0; columns], vec![0.0; columns], vec![0.0; columns]];
        let width = (self.cycles / columns as f64).max(f64::MIN_POSITIVE);
        for span in &self.spans {
            let row = &mut busy[self.stage(span) as usize];
            let first = ((span.begin / width) as usize).min(columns - 1);
            let last = ((span.end / width) as usize).min(columns - 1);
            for (column, busy) in row.iter_mut().enumerate().take(last + 1).skip(first) {
                let (begin, end) = (column as f64 * width, (column + 1) as f64 * width);
                *busy += (span.end.min(end) - span.begin.max(begin)).max(0.0) / width;
            }
        }
        let mut text = String::new();
        for stage in Stage::ALL {
            let shade = |busy: &f64| SHADES[(busy * 5.0).ceil().clamp(0.0, 5.0) as usize];
            let row: String = busy[stage as usize].iter().map(shade).collect();
            text.push_str(&format!("{:<8}|{row}|\n", stage.word()));
        }
        let end = units::time(self.ns(self.cycles));
        text.push_str(&format!("{:<8}0{end:>columns$}\n", ""));
        text
    }

    /// The same as a picture; instructions less than a pixel apart are joined.
    pub fn svg(&self, title: &str) -> String {
        const PIXELS: f64 = 800.0;
        let pixel = self.cycles / PIXELS;
        let mut bars: Vec<Bar<'_>> = Vec::new();
        for stage in Stage::ALL {
            let first = bars.len();
            let of_stage = |span: &&Span| self.stage(span) == stage && span.end > span.begin;
            for span in self.spans.iter().filter(of_stage) {
                match bars[first..].last_mut() {
                    Some(last) if span.begin - last.end < pixel => last.end = span.end,
                    _ => bars.push(Bar {
                        lane: stage as usize,
                        begin: span.begin,
                        end: span.end,
                        name: stage.word(),
                        colour: stage as usize,
                    }),
                }
            }
        }
        for bar in &mut bars {
            let end = bar.end.max(bar.begin + pixel);
            [bar.begin, bar.end] = [bar.begin, end].map(|cycles| self.ns(cycles) / 1e3);
        }
        gantt(title, "µs", &Stage::ALL.map(Stage::word), &bars)
    }

    /// A Perfetto trace: a track for each stage, a slice for each instruction.
    pub fn perfetto(&self) -> Vec<u8> {
        const INSTRUCTION: usize = 0;
        let mut writer = Writer::new(1, self.spans.len() * 64, &["instruction"]);
        for stage in Stage::ALL {
            let mut track = writer.track(stage.word(), None, Order::Free, false);
            for span in self.spans.iter().filter(|s| self.stage(s) == stage) {
                let instruction = &self.program.instructions[span.at];
                let name = match &instruction.operation {
                    Operation::Load(t) if t.columns > 0 => format!("LOAD {}", t.memory),
                    Operation::Store(t) if t.columns > 0 => format!("STORE {}", t.memory),
                    Operation::Load(_) | Operation::Store(_) => "tokens".to_owned(),
                    Operation::Gemm { reset: true, .. } => "GEMM reset".to_owned(),
                    Operation::Gemm { .. } => "GEMM".to_owned(),
                    Operation::Alu { op, .. } => format!("ALU {}", op.word()),
                    Operation::Finish => "FINISH".to_owned(),
                };
                let [begin, end] = [span.begin, span.end].map(|at| self.ns(at) as i64);
                writer.begin(&mut track, begin, &name, None, |track, event| {
                    let key = track.key(INSTRUCTION);
                    event.message(4, |argument| {
                        argument.uint(1, key);
                        argument.uint(4, span.at as u64);
                    });
                });
                writer.end(&mut track, end);
            }
        }
        writer.out.0
    }
}

/// One line for each instruction: its place, then what it does.
pub fn disassembly(program: &Program) -> String {
    let lines = program.instructions.iter().enumerate();
    lines
        .map(|(at, instruction)| format!("{at:>6} {instruction}\n"))
        .collect()
}

/// Time of a simulated run and its limit, a line each.
pub fn summary(profile: &Profile, simulated: &Simulated) -> String {
    let ns = |cycles: f64| cycles * 1e3 / profile.hardware.clock_mhz as f64;
    let share = |ns: f64| units::percent(ns / simulated.total_ns);
    let [load, compute, store] = simulated.busy_cycles.map(ns);
    let gemm = ns(simulated.gemm_cycles);
    let bytes = simulated.bytes_read + simulated.bytes_written;
    let bus = profile.hardware.bus_bytes as f64;
    let at_rate = ns(bytes as f64 / bus);
    let line = |name: &str, ns: f64, note: String| {
        format!(
            "{name:<22}{:>12} {:>7}  {note}\n",
            units::time(ns),
            share(ns)
        )
    };
    [
        line(
            "simulated time",
            simulated.total_ns,
            format!("{} instructions", simulated.instructions),
        ),
        line(
            "host",
            simulated.host_ns,
            "before and after the fabric runs".to_owned(),
        ),
        line("load stage", load, "inputs and weights".to_owned()),
        line(
            "compute stage",
            compute,
            format!("GEMM {}", units::time(gemm)),
        ),
        line("store stage", store, "outputs".to_owned()),
        line(
            "bytes at the bus rate",
            at_rate,
            format!(
                "{} read, {} written",
                units::bytes(simulated.bytes_read as f64),
                units::bytes(simulated.bytes_written as f64)
            ),
        ),
        format!("limited by {}\n", simulated.limit(&profile.hardware).word()),
    ]
    .concat()
}
