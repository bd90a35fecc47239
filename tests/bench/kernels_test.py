#!/usr/bin/python3
"""Whether kernels.py does what it says, on small layers. How fast anything is does not matter. The compiler is $POCKC.

Skipped (status 77) where python3-onnx is missing.
"""
import os
import pathlib
import tempfile
import unittest

import compare

compare.need("onnx", "numpy")
import kernels  # noqa: E402


class KernelsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        place = compare.Place(max(os.sched_getaffinity(0)), 0, pathlib.Path(os.environ["POCKC"]), self.folder)
        self.bench = kernels.Bench(place, 1, ("--rounds", "2"))

    def test_operations_of_each_kernel(self):
        taps = (3 * 8 - 2) ** 2  # of 3x3 over 8x8: along each axis the outermost two lie outside
        for layer, flop in ((kernels.product(32, (0, 0, 0)), 2 * 32 ** 3),
                            (kernels.Layer(16, 32, 8, (0, 0, 0)), 2 * 16 * 32 * 64),
                            (kernels.Layer(16, 32, 8, (0, 0, 0), kernel=3), 2 * 16 * 32 * taps),
                            (kernels.depthwise(16, 8, (0, 0, 0)), 2 * 16 * taps)):
            found, peak, triad = self.bench.kernels(layer)
            name = "conv" if layer.kernel else "matmul"
            for end in ("", "_input_grad", "_weight_grad"):
                self.assertAlmostEqual(found[name + end]["flop"] / flop, 1, delta=0.1, msg=f"{layer.name} {end}")
            self.assertGreater(min(peak, triad), 0)

    def test_rows(self):
        easy = kernels.layer_row(kernels.Layer(16, 32, 8, (0, 0, 0)), self.bench)
        hard = kernels.layer_row(kernels.Layer(16, 32, 8, (0, 1000, 0)), self.bench)
        self.assertEqual((easy[0], easy[-1], hard[-2:]), ("1x1, 16 to 32 @8", "yes", ("- / 1000 / -", "no")))
        self.assertIn(kernels.epilogue_row(self.bench)[-1], ("yes", "no"))
        document = self.folder / "doc.md"
        document.write_text("before\n\n" + compare.table(kernels.HEADS, [(*hard, "old")]) + "\nafter\n")
        compare.write_table(document, kernels.HEADS, [(*easy, "new")], 1)
        self.assertEqual(document.read_text(),
                         "before\n\n" + compare.table(kernels.HEADS, [(*easy, "new")]) + "\nafter\n")


if __name__ == "__main__":
    unittest.main()
