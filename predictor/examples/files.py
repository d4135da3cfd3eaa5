"""Reads this project's files with Python alone: a run's rows, batches of answers, the trees of a model, the HTTP server.

    python predictor/examples/files.py rows runs/RUN                  # or any rows.csv; .parquet with pandas installed
    python predictor/examples/files.py queries runs/RUN             # its convolutions, as queries for `oppredict batch`
    python predictor/examples/files.py answers queries.jsonl answers.jsonl
    python predictor/examples/files.py trees models/cpu.opm
    python predictor/examples/files.py ask http://127.0.0.1:8642/

The functions are made to be imported or copied. Only the standard library is needed, and `xgboost` for the trees.
"""

import base64
import csv
import json
import struct
import sys
import urllib.request
from pathlib import Path


def read_rows(path):
    """The measured rows of a run's folder or file, as dictionaries of text; a missing value is empty text."""
    path = Path(path)
    if path.is_dir():
        path = path / "rows.csv"
    if path.suffix == ".parquet":
        import pandas  # with pyarrow

        rows = pandas.read_parquet(path).astype(object)
        rows = rows.where(rows.notna(), "").astype(str).to_dict("records")
    else:
        # Schedule traces are longer than the default limit of the csv module.
        csv.field_size_limit(1 << 30)
        with open(path, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    return [row for row in rows if row["status"] == "measured"]


def extents(text):
    """`1x64x56x56` as [1, 64, 56, 56]."""
    return [int(extent) for extent in text.split("x")]


def queries_of(rows):
    """The convolutions among rows as queries for `oppredict batch` or `POST /v1/batch`, each once."""
    seen = {}
    for row in rows:
        if row["op_kind"] == "conv2d" and row["threads"]:
            query = {
                "op": "conv2d",
                "input": extents(row["input_shapes"].split(";")[0]),
                "kernel": extents(row["kernel"]),
                "stride": extents(row["stride"]),
                "channels": int(row["out_channels"]),
                "threads": [int(row["threads"])],
            }
            seen[json.dumps(query)] = query
    return list(seen.values())


def read_answers(queries, answers):
    """Pairs of a query and its lines, from the input and the output of `oppredict batch`; refused ones are left out."""
    with open(queries, encoding="utf-8") as asked, open(answers, encoding="utf-8") as given:
        asked = [json.loads(line) for line in asked if line.strip()]
        given = [json.loads(line) for line in given]
    return [(query, answer["lines"]) for query, answer in zip(asked, given, strict=True) if "lines" in answer]


def read_model(path):
    """The content of a `.opm` file, and each of its models: what it is, and its trees as XGBoost's bytes.

    The members of the ensemble come first, then the surrogate that explains it. What an adapted model learned of its new machine is not read here.
    """
    data = Path(path).read_bytes()
    magic, form = struct.unpack_from("<8sI", data)
    if magic != b"OPBENCHM" or form != 10:
        raise ValueError(f"{path} is no model of oppredict that this script can read")
    # A checksum of 32 bytes comes last.
    content = json.loads(data[12:-32])
    model = content["model"]
    members = [*model["ensemble"]["members"], model["surrogate"]]
    return content, [(member["spec"], base64.b64decode(member["trees"])) for member in members]


def ask(url, query):
    """The lines for one query, from `oppredict serve`."""
    request = urllib.request.Request(
        url.rstrip("/") + "/v1/query", json.dumps(query).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=10) as response:
        return json.load(response)["lines"]


def main(what, *arguments):
    if what == "rows":
        rows = read_rows(arguments[0])
        best = {}
        for row in rows:
            key = row["op_name"], row["input_shapes"], row["threads"]
            best[key] = min(best.get(key, float("inf")), float(row["time_median_ns"]))
        for (name, shapes, threads), time_ns in sorted(best.items(), key=lambda item: -item[1]):
            print(f"{time_ns / 1e6:10.3f} ms  {threads:>2} threads  {name} {shapes}")
    elif what == "queries":
        for query in queries_of(read_rows(arguments[0])):
            print(json.dumps(query))
    elif what == "answers":
        for query, lines in read_answers(*arguments):
            for line in lines:
                print(f"{line['time_ns'] / 1e6:10.3f} ms  {line['threads']} threads  {query['op']} {query['input']}")
    elif what == "trees":
        import xgboost

        content, models = read_model(arguments[0])
        print(f"{len(content['features'])} features, {content['model']['facts']['samples']} samples")
        for spec, data in models:
            booster = xgboost.Booster(model_file=bytearray(data))
            print(f"{booster.num_boosted_rounds()} trees over {booster.num_features()} features correct the estimate `{spec['base']}`")
    elif what == "ask":
        query = {"op": "conv2d", "input": [1, 64, 56, 56], "kernel": [3, 3], "channels": 64, "threads": [1, 2]}
        for line in ask(arguments[0], query):
            print(f"{line['time_ns'] / 1e6:10.3f} ms  {line['threads']} threads")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main(*(sys.argv[1:] or ["help"]))
    except BrokenPipeError:
        sys.stderr.close()  # whoever read has had enough
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
