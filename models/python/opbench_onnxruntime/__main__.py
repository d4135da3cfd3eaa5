"""Entry point: one order a line on stdin, one answer a line on stdout, messages on stderr; ends with its input.

Orders and answers are those of ``libtorch/src/protocol.rs``, as JSON.
"""

from __future__ import annotations

import gc
import json
import os
import sys

from .model import Model

PROTOCOL = 2


def main() -> None:
    """Carries out one order after the other."""
    # Libraries print to stdout at will: keep the real one for the answers alone.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    # A collection in the middle of a run would count as the model's time.
    gc.disable()
    model = None
    for line in sys.stdin:
        ((name, order),) = json.loads(line).items()
        try:
            if name == "Load":
                model = Model(order)
                loaded = {"protocol": PROTOCOL, "error": model.error(order), "version": model.version}
                answer = {"Loaded": loaded}
            elif name == "Run":
                answer = {"Ran": {"ns": [model.timed() for _ in range(order["runs"])]}}
            elif name == "Record":
                answer = {"Recorded": model.record(order)}
            else:
                answer = {"Failed": {"message": f"the order {name} is not known here"}}
        # ONNX Runtime's errors have no common public class, and the user needs to see them.
        except Exception as error:  # noqa: BLE001
            lines = str(error).strip().splitlines() or [type(error).__name__]
            answer = {"Failed": {"message": lines[0]}}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
