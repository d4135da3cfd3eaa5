"""MetaSchedule's worker without the modules of foreign targets, whose import takes most of its time before the first candidate."""

FOREIGN = ["cuda", "rocm", "hexagon", "arm_cpu", "riscv_cpu"]
# As a sitecustomize.py, which each of its processes runs first.
PATCH = f"""
import sys, types
for name in {FOREIGN!r}:
    sys.modules["tvm.s_tir.tensor_intrin." + name] = types.ModuleType("tvm.s_tir.tensor_intrin." + name)
"""
