#!/usr/bin/python3
"""Whether compare.py does what it says, on the smallest net. How fast anything is does not matter. The compiler is $POCKC.

Skipped (status 77) where python3-torch is missing.
"""
import importlib.util
import os
import pathlib
import tempfile
import unittest

import compare
import threads


class CompareTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.place = place = compare.Place(max(os.sched_getaffinity(0)), 0, pathlib.Path(os.environ["POCKC"]),
                                          pathlib.Path(cls.folder.name))
        cls.case = compare.parse_case("mlp:1")
        cls.kept = []
        [cls.result] = compare.measure_all([cls.case], place, rounds=2, seconds=0.02, keep=cls.kept.extend)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_both_sides_are_measured(self):
        r = self.result
        self.assertEqual([(p["layout"], p["tuned"]) for p in r["pytorch"]], compare.SETTINGS)
        for side in [r, *r["pytorch"]]:
            self.assertGreaterEqual(side["steps"], 6)
            self.assertGreater(side["seconds"], 0)
            self.assertLessEqual(side["seconds"], side["median"])
        self.assertAlmostEqual(r["times_default"] * r["seconds"], min(p["seconds"] for p in r["pytorch"][:2]))
        self.assertAlmostEqual(r["times_tuned"] * r["seconds"], min(p["seconds"] for p in r["pytorch"]))
        # Forward and the weights' gradients of three layers, the input's gradients of two.
        self.assertEqual(r["flop"], 2 * (2 * 784 * 256 + 3 * 256 * 128 + 3 * 128 * 10))
        # Weights and momentum are 0.9 MB each; no PyTorch does with less.
        self.assertGreater(r["memory"], 2 * 4 * (785 * 256 + 257 * 128 + 129 * 10))
        self.assertGreater(r["pytorch_memory"], r["memory"])
        self.assertEqual(r["page_faults"], 0)
        self.assertEqual(self.kept, [r])

    def test_other_losses_are_refused(self):
        def check(ours, theirs):
            return compare.check_losses(self.case, ours, theirs, [2.0, 1.0])

        self.assertAlmostEqual(check([2.0, 1.00009], [[2.0, 1.0], [2.0, 1.0]]), 9e-5)
        self.assertAlmostEqual(check([2.0, 1.003], [[2.0, 1.0], [2.0, 1.001]]), 3e-3)
        for wrong, theirs in (([2.0, 1.003], [2.0, 1.0]), ([2.01, 1.0], [2.0, 1.001]), ([2.0], [2.0, 1.0]), ([], []),
                              ([2.0, float("nan")], [2.0, 1.0]), ([float("inf"), 1.0], [2.0, 1.0]),
                              ([2.0, 1.0], [2.0, float("nan")]),
                              ([2.0, 1.0], [2.0, 1.5])):
            with self.assertRaises(SystemExit):
                check(wrong, [theirs])

    def test_steps_that_float32_cannot_tell_are_left_out(self):
        reference, theirs = [4.0, 3.0, 2.0, 1.0], [4.0, 3.0, 2.0, 1.5]
        self.assertEqual(compare.check_losses(self.case, [4.0, 3.0, 2.0, 7.0], [theirs], reference), 0)
        for ours in ([4.0, 3.0, 2.1, 1.0], [4.0, 3.0]):
            with self.assertRaises(SystemExit):
                compare.check_losses(self.case, ours, [theirs], reference)
        with self.assertRaises(SystemExit):  # two steps are too few
            compare.check_losses(self.case, reference, [[4.0, 3.0, 3.0, 1.0]], reference)

    def test_a_document_gets_new_rows_and_keeps_others(self):
        other = {**self.result, "batch": 64}
        document = pathlib.Path(self.folder.name) / "doc.md"
        document.write_text("before\n\n" + compare.table(compare.TIMES, [compare.times_row(other)]) + "\nbetween\n\n" +
                            compare.table(compare.MEMORY, [compare.memory_row(other)]) + "\nafter\n")
        compare.write_rows(document, [self.result])
        once = document.read_text()
        self.assertIn(compare.line(compare.times_row(other)) + "\n" + compare.line(compare.times_row(self.result)), once)
        self.assertIn(compare.line(compare.memory_row(self.result)) + "\n\nafter\n", once)
        changed = {**self.result, "seconds": 7.0}
        compare.write_rows(document, [changed])
        old, new = (compare.line(compare.times_row(r)) for r in (self.result, changed))
        self.assertEqual(document.read_text(), once.replace(old, new))

    def test_a_part_is_compared_with_the_whole(self):
        cases = [compare.parse_case(f"mlp:1:{scheme}") for scheme in ("full", "last:1")]
        full, part = compare.measure_all(cases, self.place, rounds=1, seconds=0.02)  # refuses other losses than PyTorch's
        row = dict(zip(compare.SPARSE_TIMES, compare.sparse_row(part, [full, part])))
        self.assertEqual((row["net"], row["batch"], row["scheme"]), ("mlp", 1, "last:1"))
        self.assertEqual(row["faster than full"], f"{full['seconds'] / part['seconds']:.2f}")
        self.assertLess(part["memory"], full["memory"])
        self.assertEqual([heads for heads, _, _ in compare.tables([full, part])], [compare.SPARSE_TIMES])

    def test_threads_are_compared(self):
        one, more = threads.measure(self.case, self.place, 2, 1)
        self.assertEqual(threads.row(self.case, 2, 0.5, 0.25)[:7], ("mlp", 1, 2, "500", "250", "2.00", ""))
        self.assertNotEqual(one, more)

    @unittest.skipUnless(importlib.util.find_spec("matplotlib"), "needs python3-matplotlib")
    def test_plot_is_drawn(self):
        results = [{**self.result, "net": c.net, "batch": c.batch} for c in compare.PLOT_BATCHES + compare.PLOT_WIDTHS]
        path = pathlib.Path(self.folder.name) / "steps.png"
        compare.plot(results, path)
        self.assertEqual(path.read_bytes()[:4], b"\x89PNG")


if __name__ == "__main__":
    compare.need("torch", "onnx")
    unittest.main()
