#!/usr/bin/env python3
"""Puts SQL to two Perfetto traces and compares the answers, in Perfetto's own trace processor.

Usage: sql.py NODE ENGINE_BUNDLE A B, or sql.py NODE ENGINE_BUNDLE TRACE to put the questions of standard input, one a line,
to one trace of any program and print each answer as a line of JSON. Needs the package `perfetto` (its messages only), which bigTpuProfile brings; the
rest install.py installs. The questions are those of bigTpuProfile's README, to the letter but for their comments, and
some for everything that there is but lanes of layers, which are ours alone. Numbers that a trace processor gives out while it reads (ids of slices, tracks and
argument sets) are not compared. Prints the number of rows of each answer; exits 1 where answers differ.
"""
import json
import subprocess
import sys
from pathlib import Path

from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory

APPEND, FINALIZE, QUERY = 1, 2, 3
GIVEN_OUT = {"id", "track_id", "parent_id", "arg_set_id", "stack_id", "parent_stack_id", "slice_id"}
QUESTIONS = {
    "commands by name": """
        select * from slice s
        where s.name="mm.normal"
        order by dur desc
        """,
    "kernels of a core": """
        SELECT s.*
        FROM slice s
        JOIN track t ON s.track_id = t.id
        JOIN track parent ON t.parent_id = parent.id
        WHERE parent.name = 'Core 0' AND t.name = 'Kernel Function'
        ORDER BY s.dur DESC;
        """,
    "transfers by bandwidth": """
        SELECT a.real_value AS ddr_bandwidth, s.*  FROM slice s
        JOIN args a ON s.arg_set_id = a.arg_set_id
        WHERE a.key = 'debug.DDR Bandwidth(GB/s)'
          AND ddr_bandwidth BETWEEN 5 AND 20
        order by ddr_bandwidth desc;
        """,
    "low utilisation": """
        SELECT a.display_value  AS uArchRate, s.* FROM slice s
        JOIN args a ON s.arg_set_id = a.arg_set_id
        WHERE a.key = 'debug.uArch Rate'
          AND CAST(a.display_value  AS DOUBLE) < 40
        order by CAST(uArchRate AS DOUBLE) desc;
        """,
    "all slices with all arguments": """
        SELECT parent.name AS parent, t.name AS track, s.name, s.category, s.ts, s.dur, a.key, a.display_value
        FROM slice s JOIN track t ON s.track_id = t.id LEFT JOIN track parent ON t.parent_id = parent.id
        LEFT JOIN args a ON s.arg_set_id = a.arg_set_id
        WHERE t.name NOT LIKE 'Layers%'
        """,
    "all counters": """
        SELECT parent.name AS parent, t.name AS track, c.ts, c.value
        FROM counter c JOIN track t ON c.track_id = t.id LEFT JOIN track parent ON t.parent_id = parent.id
        """,
    "what could not be read": "SELECT name, value FROM stats WHERE value > 0 AND severity IN ('error', 'data_loss')",
}


def requests(protos, trace, questions):
    def request(kind, **what):
        nonlocal number
        number += 1
        stream = protos.TraceProcessorRpcStream()
        message = stream.msg.add(seq=number, request=kind)
        for field, value in what.items():
            if isinstance(value, bytes):
                setattr(message, field, value)
            else:
                getattr(message, field).MergeFrom(value)
        return stream.SerializeToString()

    number = 0
    yield request(APPEND, append_trace_data=trace)
    yield request(FINALIZE)
    for sql in questions:
        yield request(QUERY, query_args=protos.QueryArgs(sql_query=sql))


def ask(protos, node, engine, trace, questions):
    """The rows of every answer: the columns that are compared, in no particular order of rows."""
    asked = b"".join(requests(protos, Path(trace).read_bytes(), questions))
    script = Path(__file__).with_name("engine.js")
    answered = subprocess.run([node, script, engine], input=asked, capture_output=True)
    if answered.returncode:
        sys.exit(f"{trace}: the trace processor ended with {answered.returncode}: {answered.stderr.decode()[-2000:]}")
    stream = protos.TraceProcessorRpcStream()
    stream.ParseFromString(answered.stdout)
    answers, columns, values = [], None, []
    for message in stream.msg:
        if message.fatal_error:
            sys.exit(f"{trace}: {message.fatal_error}")
        if not message.HasField("query_result"):
            continue
        result = message.query_result
        if result.error:
            sys.exit(f"{trace}: {result.error}")
        columns = columns or list(result.column_names)
        for batch in result.batch:
            values += cells(batch)
        if result.batch and result.batch[-1].is_last_batch:
            width = max(len(columns), 1)
            rows = [values[at : at + width] for at in range(0, len(values), width)]
            kept = [i for i, name in enumerate(columns) if name not in GIVEN_OUT]
            answers.append([[row[i] for i in kept] for row in rows])
            columns, values = None, []
    return answers


def cells(batch):
    texts = batch.string_cells.split("\0")
    kinds = {
        1: iter([None] * len(batch.cells)),
        2: iter(batch.varint_cells),
        3: iter(batch.float64_cells),
        4: iter(texts),
        5: iter(batch.blob_cells),
    }
    return [next(kinds[kind]) for kind in batch.cells]


def main(node, engine, *traces):
    protos = ProtoFactory(PlatformDelegate())
    if len(traces) == 1:
        for answer in ask(protos, node, engine, traces[0], sys.stdin.read().splitlines()):
            print(json.dumps(answer))
        return 0
    asked = [ask(protos, node, engine, trace, QUESTIONS.values()) for trace in traces]
    a, b = (dict(zip(QUESTIONS, (sorted(map(repr, rows)) for rows in answers), strict=True)) for answers in asked)
    failed = False
    for question in QUESTIONS:
        print(f"{len(b[question])} {question}")
        if a[question] != b[question]:
            lost, made = set(a[question]) - set(b[question]), set(b[question]) - set(a[question])
            print(f"  {len(a[question])} expected; lost {sorted(lost)[:2]}, made {sorted(made)[:2]}")
            failed = True
    return 1 if failed else 0


sys.exit(main(*sys.argv[1:]))
