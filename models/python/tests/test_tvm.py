"""Relax modules of TVM's own: both forms of files agree with TVM's compilation, and what is refused in which words."""

from __future__ import annotations

import runpy
import unittest
from pathlib import Path

from opbench_import import pipeline
from opbench_import.errors import ImportFailure
from opbench_import.request import Request

import tvm
from tvm import relax, te
from tvm.s_tir import Schedule
import tvm_ffi

from . import support

HEAD = "from tvm.script import ir as I, relax as R\n\n@I.ir_module\nclass Net:\n    @R.function\n"
NET = HEAD + (
    "    def main(x: R.Tensor((1, 16, 14, 14), 'float32'), w: R.Tensor((8, 16, 3, 3), 'float32'), v: R.Tensor((8, 10), 'float32')):\n"
    "        with R.dataflow():\n"
    "            a = R.nn.relu(R.nn.conv2d(x, w, padding=[1, 1, 1, 1]))\n"
    "            b = R.matmul(R.mean(a, axis=[2, 3]), v)\n"
    "            R.output(a, b)\n"
    "        return (a, b)\n"
)


def written(name: str, text: str) -> str:
    """A file of this text."""
    path = Path(support.scratch()) / name
    path.write_text(text)
    return str(path)


def imported(path: str, **options: object) -> support.Imported:
    """A module in a fresh folder of imports."""
    folder = support.scratch()
    pipeline.run(Request("tvm", "net", folder, file=path, **options))
    return support.Imported(folder)


class Forms(unittest.TestCase):
    """What is imported."""

    def test_script_and_json_give_the_same_checked_operators(self) -> None:
        """Three operators, compared with what TVM itself compiles."""
        script = written("net.py", NET)
        module = runpy.run_path(script)["Net"]
        for path in (script, written("net.json", tvm.ir.save_json(module))):
            graph = imported(path).graph
            self.assertEqual([o["name"] for o in graph["operators"]], ["conv2d_relu", "global_avg_pool", "matmul"])
            self.assertIn("TVM", graph["check"]["reference"])
            self.assertIsNone(graph["check"]["reason"])


    def test_legalised_and_fused_modules_keep_their_tensor_functions(self) -> None:
        """Kinds follow from blocks; outputs agree with TVM's compilation of the same module."""
        legal = relax.transform.LegalizeOps()(runpy.run_path(written("net.py", NET))["Net"])
        fused = tvm.transform.Sequential(
            [relax.transform.AnnotateTIROpPattern(), relax.transform.FuseOps(), relax.transform.FuseTIR()]
        )(legal)
        for name, module in (("legal", legal), ("fused", fused)):
            graph = imported(written(f"{name}.json", tvm.ir.save_json(module))).graph
            kinds = [o["kind"] for o in graph["operators"]]
            self.assertEqual((kinds[0], kinds[-1]), ("conv2d", "matmul"), name)
            self.assertIn("TVM", graph["check"]["reference"])

    def test_functions_that_came_with_a_module_stay_as_tvm_wrote_them(self) -> None:
        """Fused ones and single ones, with and without a pattern: by them a database of MetaSchedule is searched."""
        text = NET.replace("R.mean(a, axis=[2, 3])", "R.nn.softmax(R.mean(a, axis=[2, 3]))")
        legal = relax.transform.LegalizeOps()(runpy.run_path(written("net.py", text))["Net"])
        patterns = relax.transform.AnnotateTIROpPattern()(legal)
        fused = tvm.transform.Sequential(
            [relax.transform.FuseOps(), relax.transform.FuseTIR(), relax.transform.DeadCodeElimination()]
        )(patterns)
        for name, module, fusion in (("legal", legal, "none"), ("fused", fused, "full")):
            done = imported(written(f"{name}.json", tvm.ir.save_json(module)), fusion=fusion)
            functions = [f for f in module.functions.values() if isinstance(f, tvm.tirx.PrimFunc)]
            for operator in done.graph["operators"]:
                own = done.module[operator["symbol"]]
                self.assertTrue(any(tvm_ffi.structural_equal(own, f) for f in functions), (name, operator["symbol"]))

    def test_tensor_functions_alone_are_operators(self) -> None:
        """Each is called once on inputs of its own; the loops of a scheduled one stay."""
        left = te.placeholder((16, 32), name="left")
        right = te.placeholder((32, 8), name="right")
        k = te.reduce_axis((0, 32))
        product = te.compute((16, 8), lambda i, j: te.sum(left[i, k] * right[k, j], axis=k), name="product")
        function = te.create_prim_func([left, right, product])
        schedule = Schedule(tvm.IRModule({"main": function}))
        rows = schedule.get_loops(schedule.get_sblock("product", "main"))[0]
        schedule.parallel(rows)
        both = tvm.IRModule({"plain": function, "scheduled": schedule.mod["main"]})
        done = imported(written("tensor.json", tvm.ir.save_json(both)))
        self.assertEqual([o["kind"] for o in done.graph["operators"]], ["matmul", "matmul"])
        self.assertEqual([len(i["shape"]) for i in done.graph["inputs"]], [2, 2, 2, 2])
        loops = [done.module[o["symbol"]].script() for o in done.graph["operators"]]
        self.assertEqual(["T.parallel" in text for text in loops], [False, True])


class Refusals(unittest.TestCase):
    """What is not."""

    def refused(self, path: str, kind: str, words: str, **options: object) -> None:
        """Holds an import to its error."""
        with self.assertRaises(ImportFailure) as caught:
            imported(path, **options)
        self.assertEqual(caught.exception.kind, kind)
        self.assertIn(words, str(caught.exception))

    def test_files_that_are_no_such_module(self) -> None:
        """By name, with what to do."""
        self.refused(written("empty.py", "x = 1\n"), "corrupt_model", "it has 0 modules")
        self.refused(written("broken.py", "raise RuntimeError('no')\n"), "corrupt_model", "no")
        self.refused(written("net.json", "{}"), "corrupt_model", "no Relax module")
        self.refused(written("tensor.json", tvm.ir.save_json(tvm.IRModule())), "corrupt_model", "it has no function")
        self.refused(written("net.py", NET), "bad_shape", "shapes of a TVM module are its own", batch=4)
        symbolic = HEAD + "    def main(x: R.Tensor(('n', 4), 'float32')):\n        return R.nn.relu(x)\n"
        self.refused(written("symbolic.py", symbolic), "bad_shape", "the shape of x is not known")


if __name__ == "__main__":
    unittest.main()
