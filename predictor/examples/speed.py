"""Trains the trees of the first member with Python's xgboost on what the Rust example wrote to FOLDER, and compares them.

`train_s` is the processor time from the matrix in memory to the trees; reading it does not count.
"""

import json
import sys
import time
from pathlib import Path

import numpy
import xgboost

folder = Path(sys.argv[1])
facts = json.loads((folder / "speed.json").read_text())
rows = numpy.fromfile(folder / "speed.f32", dtype="<f4").reshape(-1, facts["columns"] + 1)
values, targets = numpy.ascontiguousarray(rows[:, :-1]), numpy.ascontiguousarray(rows[:, -1])
start = time.thread_time()
matrix = xgboost.DMatrix(values, targets, nthread=1)
booster = xgboost.train(facts["parameters"], matrix, facts["rounds"])
train_s = time.thread_time() - start
same = booster.get_dump() == xgboost.Booster(model_file=folder / "speed.ubj").get_dump()
print(json.dumps({"rows": len(rows), "train_s": train_s, "same_trees": same}))
