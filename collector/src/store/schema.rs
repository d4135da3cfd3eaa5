//! The tables of the store.

/// Format of the store; raised when a column changes its meaning.
pub const FORMAT: i64 = 1;

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
    time_ns real not null check (time_ns > 0),
    half_width_ns real,
    quality text,
    model text,
    source text not null,
    tool text,
    tvm text,
    measured_at text,
    primary key (workload, target, machine, threads, cache, program_hash)
);
create index if not exists by_kind on schedules (kind, target, machine);
pragma user_version = 1;
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

/// Removes all but the fastest schedules of a workload.
pub(super) const PRUNE: &str = "
delete from schedules where workload = ?1 and target = ?2 and machine = ?3 and threads = ?4 and cache = ?5
    and program_hash not in (
        select program_hash from schedules where workload = ?1 and target = ?2 and machine = ?3 and threads = ?4
            and cache = ?5 order by time_ns limit ?6)
";
