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


def blocks_of(lines):
    """The lines of each basic block, and the numbers of those that it may go on to."""
    starts = sorted({0} | {i for i, line in enumerate(lines) if re.match(r"\.L\w+:", line)}
                    | {i + 1 for i, line in enumerate(lines[:-1]) if line.startswith("\tj")})
    blocks = [lines[a:b] for a, b in zip(starts, starts[1:] + [len(lines)])]
    labels = {found[1]: i for i, block in enumerate(blocks) if (found := re.match(r"(\.L\w+):", block[0]))}
    then = []
    for i, block in enumerate(blocks):
        jump = re.match(r"\t(j\w+)\t(\.L\w+)", block[-1])
        ends = (jump and jump[1] == "jmp") or block[-1].startswith("\tret")
        then.append({labels[jump[2]]} if jump and jump[2] in labels else set())
        if not ends and i + 1 < len(blocks):
            then[i].add(i + 1)
    return blocks, then


def innermost_loops(lines):
    """The instructions of each loop without another one inside: of the blocks on the ways from its head back to it."""
    blocks, then = blocks_of(lines)
    loops = []
    for latch, heads in enumerate(then):
        for head in (h for h in heads if h <= latch):
            inside, rest = {head}, [latch]
            while rest:
                block = rest.pop()
                if block not in inside:
                    inside.add(block)
                    rest += [i for i, following in enumerate(then) if block in following]
            if head == 0 or 0 not in inside:  # else it is only placed in front, and entered elsewhere
                loops.append(inside)
    for loop in loops:
        if not any(other < loop for other in loops):
            yield [line.strip() for i in sorted(loop) for line in blocks[i] if line.startswith("\t")]


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
