#!/usr/bin/python3
"""LeNet's step for a Raspberry Pi: sums are fused multiply-adds of four lanes, none of them waits on the stack, and no
instruction is newer than the Cortex-A72. ($POCKC, $LLVM_OBJDUMP)"""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import spills_test

MODEL = pathlib.Path(__file__).resolve().parent.parent / "train" / "lenet" / "model.onnx"
FMLA = re.compile(r"\tfmla\tv\d+\.4s")


def run(*argv):
    return subprocess.run([str(a) for a in argv], capture_output=True, text=True, check=True).stdout


class LeNetTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            step = (os.environ["POCKC"], "compile", MODEL, "--target", "aarch64-linux", "--batch", 8, "--loss", "cross-entropy",
                    "--optimizer", "sgd:momentum=0.9", "--emit")
            cls.assembly = run(*step, "asm")
            run(*step, "obj", "-o", folder + "/step.o")
            cls.disassembly = run(os.environ["LLVM_OBJDUMP"], "-d", "--no-show-raw-insn", "--mcpu=cortex-a72", folder + "/step.o")

    def test_sums_are_multiply_adds_of_vectors_in_registers(self):
        hot = {name for name, _ in spills_test.hot_loops(self.assembly)}
        contractions = {name for name, _ in spills_test.kernels(self.assembly) if re.search("conv|matmul", name)}
        self.assertGreaterEqual(len(contractions), 10)  # four layers, forwards, their inputs and their weights
        self.assertEqual(contractions - hot, set())
        self.assertEqual(spills_test.problems(self.assembly), [])

    def test_object_is_the_same_code(self):
        self.assertIn("elf64-littleaarch64", self.disassembly)
        fmas = len(FMLA.findall(self.disassembly))
        self.assertGreater(fmas, 100)
        self.assertEqual(fmas, len(FMLA.findall(self.assembly)))
        self.assertNotIn("<unknown>", self.disassembly)


if __name__ == "__main__":
    unittest.main()
