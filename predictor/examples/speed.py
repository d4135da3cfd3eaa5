"""Trains the trees of the first member with Python's xgboost on the matrix that the Rust example wrote: FILE COLUMNS."""

import json
import sys
import time

import numpy
import xgboost

rows = numpy.fromfile(sys.argv[1], dtype="<f4").reshape(-1, int(sys.argv[2]) + 1)
parameters = {
    "objective": "reg:squarederror", "max_depth": 6, "eta": 0.1, "subsample": 0.6, "colsample_bytree": 0.5,
    "min_child_weight": 4, "reg_lambda": 2, "max_bin": 64, "tree_method": "hist", "seed": 42, "nthread": 1,
}
start = time.perf_counter()
matrix = xgboost.DMatrix(rows[:, :-1], rows[:, -1], nthread=1)
xgboost.train(parameters, matrix, 150)
print(json.dumps({"rows": len(rows), "train_s": time.perf_counter() - start}))
