//! The table of a store and its statements, which SQLite and PostgreSQL both take (the latter with `$1` for `?1`).

use super::entry::COLUMNS;

/// Format of the store; raised when a column changes its meaning.
pub(super) const FORMAT: i64 = 1;

pub(super) const CREATE: &str = "
create table if not exists schedules (
    workload text not null,
    target text not null,
    machine text not null,
    threads integer not null,
    cache text not null,
    program_hash text not null,
    operator text not null,
    kind text not null,
    shapes text not null,
    knobs text not null,
    trace text,
    time_ns double precision not null check (time_ns > 0),
    half_width_ns double precision,
    quality text,
    model text,
    source text not null,
    tool text,
    tvm text,
    measured_at text,
    primary key (workload, target, machine, threads, cache, program_hash)
);
create index if not exists by_kind on schedules (kind, target, machine);
";

/// Adds a schedule, or takes the place of a slower measurement of the same program.
pub(super) const UPSERT: &str = "
insert into schedules values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)
on conflict (workload, target, machine, threads, cache, program_hash) do update set
    knobs = excluded.knobs, trace = excluded.trace, time_ns = excluded.time_ns, half_width_ns = excluded.half_width_ns,
    quality = excluded.quality, model = excluded.model, source = excluded.source, tool = excluded.tool,
    tvm = excluded.tvm, measured_at = excluded.measured_at
where excluded.time_ns < schedules.time_ns
";

/// [`Choice::rewrites_program`](opengine::schedule::Choice::rewrites_program) of a record.
const REWRITES_PROGRAM: &str =
    r#"(knobs like '%"algorithm":"%' and knobs not like '%"algorithm":"pixels"%')"#;

/// Removes all but the fastest schedules of a workload that rewrite its program (`?6`), or of those that do not.
pub(super) fn prune() -> String {
    let alike = format!(
        "workload = ?1 and target = ?2 and machine = ?3 and threads = ?4 and cache = ?5 and {REWRITES_PROGRAM} = ?6"
    );
    format!(
        "delete from schedules where {alike} and program_hash not in \
         (select program_hash from schedules where {alike} order by time_ns limit ?7)"
    )
}

/// The schedules of a workload, for a target, on a machine; the fastest first.
pub(super) fn of_workload() -> String {
    format!(
        "select {COLUMNS} from schedules where workload = ?1 and target = ?2 and machine = ?3 order by time_ns"
    )
}

/// The fastest schedule of each workload of a kind, for a target, on a machine; those measured last first.
pub(super) fn of_kind() -> String {
    let rest = "where place = 1 order by measured_at desc, workload";
    ranked("where kind = ?1 and target = ?2 and machine = ?3", rest)
}

/// The fastest schedule of each workload under equal conditions.
pub(super) fn fastest() -> String {
    ranked("", "where place = 1 order by model, operator, threads")
}

/// The fastest schedules of one kind, operator, model or workload.
pub(super) fn fastest_named() -> String {
    let own = "where kind = ?1 or operator = ?1 or model = ?1 or workload = ?1";
    ranked(own, "where place = 1 order by model, operator, threads")
}

/// The statement that selects all entries.
pub(super) fn all() -> String {
    format!(
        "select {COLUMNS} from schedules order by workload, target, machine, threads, cache, time_ns"
    )
}

/// Schedules of `own`, each with its `place` among those of its workload under equal conditions.
fn ranked(own: &str, rest: &str) -> String {
    format!(
        "select {COLUMNS} from (select {COLUMNS}, row_number() over \
         (partition by workload, target, machine, threads, cache order by time_ns, program_hash) as place \
         from schedules {own}) ranked {rest}"
    )
}
