//! Flags of `opcollect tpu` as plain requests.

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Whole {
    #[command(flatten)]
    tpu: TpuArgs,
}

fn parse(line: &str) -> TpuRequest {
    let words = std::iter::once("tpu").chain(line.split(' '));
    request(Whole::try_parse_from(words).expect(line).tpu)
}

fn read(line: &str) -> TpuReading {
    match parse(line) {
        TpuRequest::Read(reading) => reading,
        other => panic!("{other:?}"),
    }
}

#[test]
fn old_commands_work() {
    let old = read("dump out --disable_web --disable_doc --perfetto --num_core 4");
    assert_eq!(
        (old.job.dumps.len(), old.job.out.to_str(), old.cores),
        (1, Some("out"), Some(4))
    );
    assert_eq!(old.job.outputs, [Output::Perfetto].into());
    let newer = read("dump out --enable_doc --tiu_freq 800 --trace_file t.json");
    assert_eq!(
        newer.job.outputs,
        [Output::Summary, Output::Perfetto, Output::Doc].into()
    );
    assert_eq!(newer.job.ingest.tiu_mhz, Some(800.0));
}

#[test]
fn defaults_and_subcommands() {
    let window = read("d --from 1 --to 2ms").job.ingest.window;
    assert_eq!(
        (window.from_ns, window.to_ns),
        (Some(1000), Some(2_000_000))
    );
    let plain = read("a b c --out o");
    assert_eq!(
        (plain.job.dumps.len(), plain.job.outputs),
        (3, DEFAULT_OUTPUTS.into())
    );
    assert!(matches!(
        parse("diff a b c --by kernel"),
        TpuRequest::Diff {
            by: Grouping::Kernel,
            others,
            ..
        } if others.len() == 2
    ));
    let TpuRequest::Record { options, .. } = parse("record --profile-mode 2 -- run --x") else {
        panic!()
    };
    assert_eq!((options.command.len(), options.mode), (2, Some(2)));
}
