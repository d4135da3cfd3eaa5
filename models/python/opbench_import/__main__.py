"""Entry point: one JSON request on stdin, one JSON line on stdout, messages on stderr.

The answer is ``{"ok": {...}}`` or ``{"error": {"kind": ..., "message": ..., ...}}``. The exit status is 0 in both
cases; anything else means that the importer itself broke, and stderr then tells where.
"""

from __future__ import annotations

import json
import os
import sys


def main() -> int:
    """Reads the request, runs the import, prints the answer."""
    # Libraries print to stdout at will: keep the real one for the answer alone.
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    from . import request
    from .errors import ImportFailure

    try:
        try:
            parsed = request.parse(json.load(sys.stdin))
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ImportFailure("bad_request", f"the request is not valid: {error}") from error
        from . import pipeline

        result = {"ok": pipeline.run(parsed)}
    except ImportFailure as failure:
        result = {"error": failure.to_json()}
    answer.write(json.dumps(result) + "\n")
    answer.close()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        # Ctrl-C is the user's wish, not a failure worth a traceback; 130 is how programs say so.
        sys.exit(130)
