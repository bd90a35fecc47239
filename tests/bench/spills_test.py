#!/usr/bin/python3
"""No hot loop of an emitted kernel may keep vectors on the stack: that costs a contraction half of its speed.

Hot is an innermost loop with several fused multiply-adds of vectors. In none may a vector be stored to the stack; where most
of the work is multiply-adds, as in contractions, none may be read from it either. (Elsewhere that may be a constant.)

    spills_test.py FILE.s...     what pockc compile --emit asm wrote; without files, real nets are compiled ($POCKC)

Skipped (status 77) where python3-torch is missing.
"""
import os
import pathlib
import re
import sys
import tempfile
import unittest

import compare
from recipe import POCKC

VECTOR, STACK, STORE = re.compile(r"%[yz]mm\d"), re.compile(r"\(%rsp[,)]"), re.compile(r"\(%rsp[^)]*\)$")
FMAS = 4


def kernels(assembly):
    """Names and lines of the functions of kernels."""
    name, lines = None, []
    for line in assembly.splitlines():
        if found := re.match(r"(k\d+_[\w.]*):", line):
            name, lines = found[1], []
        elif line.startswith(".Lfunc_end"):
            if name:
                yield name, lines
            name = None
        elif name:
            lines.append(line)


def innermost_loops(lines):
    """Each from the label that is jumped back to, to that jump, and with no other such loop inside."""
    labels = {found[1]: i for i, line in enumerate(lines) if (found := re.match(r"(\.L\w+):", line))}
    jumps = [(labels[found[1]], i) for i, line in enumerate(lines)
             if (found := re.match(r"\tj\w+\t(\.L\w+)", line)) and labels.get(found[1], i + 1) <= i]
    for first, last in jumps:
        if not any((a, b) != (first, last) and first <= a and b <= last for a, b in jumps):
            yield [line.strip() for line in lines[first:last + 1] if line.startswith("\t")]


def spills(loop):
    """Instructions of a hot loop that should not be there."""
    fmas = sum(bool(re.match(r"vfn?m(add|sub)", line) and VECTOR.search(line)) for line in loop)
    if fmas < FMAS:
        return []
    on_stack = [line for line in loop if VECTOR.search(line) and STACK.search(line)]
    contraction = 3 * fmas > len(loop)
    return [line for line in on_stack if contraction or STORE.search(line)]


def problems(assembly):
    return [f"{name}: {line}" for name, lines in kernels(assembly)
            for loop in innermost_loops(lines) for line in spills(loop)]


class SpillsTest(unittest.TestCase):
    def test_are_found(self):
        fma = "\tvfmadd231ps\t%zmm1, %zmm2, %zmm3\n"
        kernel = "k3_conv:\n.LBB3_1:\n{outer}.LBB3_2:\n{inner}\tjne\t.LBB3_2\n\tjne\t.LBB3_1\n.Lfunc_end3:\n"
        store, load = "\tvmovups\t%zmm3, 64(%rsp)\n", "\tvaddps\t64(%rsp,%rax), %zmm3, %zmm3\n"
        other = "\tvaddps\t(%rdi), %zmm3, %zmm3\n"
        for outer, inner, expected in ((store, 4 * fma, []), ("", 3 * fma + store, []), ("", 4 * fma + other, []),
                                       ("", 4 * fma + store, [store]), ("", 4 * fma + load, [load]),
                                       ("", 4 * fma + 12 * other + load, []),
                                       ("", 4 * fma + 12 * other + load + store, [store])):
            self.assertEqual(problems(kernel.format(outer=outer, inner=inner)), [f"k3_conv: {l.strip()}" for l in expected])

    def test_nets_have_none(self):
        pockc = os.environ["POCKC"]
        few, many = "x86-64-v3", "x86-64-v4"  # 16 vector registers, and 32
        # The 49 sums of a 7x7 weight gradient of mcunet-5fps have no room in 16.
        cpus = {"mobilenetv2-0.35@128:8": (few, many), "resnet18@224:8": (few, many), "mcunet-5fps@128:8": (many,)}
        cases = [compare.parse_case(c) for c in cpus]
        with tempfile.TemporaryDirectory() as folder:
            compare.run(["/usr/bin/python3", "-B", compare.HERE / "nets.py", folder, *(c.net for c in cases)])
            for case in cases:
                for cpu in cpus[case.name]:
                    with self.subTest(case.name, cpu=cpu):
                        assembly = compare.run([pockc, "compile", pathlib.Path(folder) / case.net / "model.onnx", "--batch",
                                                case.batch, *POCKC, "--cpu", cpu, "--emit", "asm"])
                        hot = sum(line.count("vfmadd") for line in assembly.splitlines())
                        self.assertGreater(hot, 100)
                        self.assertEqual(problems(assembly), [])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        for file in sys.argv[1:]:
            print(f"{file}:", *problems(pathlib.Path(file).read_text()), sep="\n  ")
        sys.exit()
    compare.need("torch", "onnx")
    unittest.main()
