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
import typing
import unittest

import compare
from recipe import POCKC


class Syntax(typing.NamedTuple):
    """How a machine's assembly says what we look for, in a line without blanks around it."""
    jump: re.Pattern    # to a label, its group 1
    always: re.Pattern  # jumps, or returns
    fma: re.Pattern     # of vectors
    vector: re.Pattern  # register
    stack: re.Pattern   # is read or written
    store: re.Pattern   # is written


X86 = Syntax(*map(re.compile, (r"j\w+\t(\.L\w+)", r"jmp|ret", r"vfn?m(?:add|sub).*%[yz]mm", r"%[yz]mm\d", r"\(%rsp[,)]",
                               r"\(%rsp[^)]*\)$")))
AARCH64 = Syntax(*map(re.compile, (r"(?:b|b\.\w+|[ct]bn?z)\t(?:.*, )?(\.L\w+)", r"b\t|ret|br\t", r"fml[as]\tv\d+\.4s",
                                   r"\b[qv]\d+\b", r"\[sp\b", r"st\w+\t.*\[sp\b")))
FMAS = 4


def syntax_of(assembly):
    return X86 if "%r" in assembly else AARCH64


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


def blocks_of(lines, syntax):
    """The instructions of each basic block, and the numbers of those that it may go on to."""
    blocks, labels = [[]], {}
    for line in lines:
        if label := re.match(r"(\.L\w+):", line):
            blocks.append([])
            labels[label[1]] = len(blocks) - 1
        elif line.startswith("\t") and not line.startswith("\t."):
            blocks[-1].append(line.strip())
            if syntax.jump.match(line.strip()):
                blocks.append([])
    then = []
    for i, block in enumerate(blocks):
        last = block[-1] if block else ""
        jump = syntax.jump.match(last)
        then.append({labels[jump[1]]} if jump and jump[1] in labels else set())
        if not syntax.always.match(last) and i + 1 < len(blocks):
            then[i].add(i + 1)
    return blocks, then


def innermost_loops(lines, syntax):
    """The instructions of each loop without another one inside: of the blocks on the ways from its head back to it."""
    blocks, then = blocks_of(lines, syntax)
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
            yield [line for i in sorted(loop) for line in blocks[i]]


def fmas(loop, syntax):
    return sum(bool(syntax.fma.match(line)) for line in loop)


def spills(loop, syntax):
    """Instructions of a hot loop that should not be there."""
    if fmas(loop, syntax) < FMAS:
        return []
    on_stack = [line for line in loop if syntax.vector.search(line) and syntax.stack.search(line)]
    contraction = 3 * fmas(loop, syntax) > len(loop)
    return [line for line in on_stack if contraction or syntax.store.search(line)]


def hot_loops(assembly):
    syntax = syntax_of(assembly)
    return [(name, loop) for name, lines in kernels(assembly) for loop in innermost_loops(lines, syntax)
            if fmas(loop, syntax) >= FMAS]


def problems(assembly):
    syntax = syntax_of(assembly)
    return [f"{name}: {line}" for name, loop in hot_loops(assembly) for line in spills(loop, syntax)]


class SpillsTest(unittest.TestCase):
    def check(self, kernel, fma, other, store, load):
        for outer, inner, expected in ((store, 4 * fma, []), ("", 3 * fma + store, []), ("", 4 * fma + other, []),
                                       ("", 4 * fma + store, [store]), ("", 4 * fma + load, [load]),
                                       ("", 4 * fma + 12 * other + load, []),
                                       ("", 4 * fma + 12 * other + load + store, [store])):
            self.assertEqual(problems(kernel.format(outer=outer, inner=inner)), [f"k3_conv: {l.strip()}" for l in expected])

    def test_are_found(self):
        self.check("k3_conv:\n.LBB3_1:\n{outer}.LBB3_2:\n{inner}\tjne\t.LBB3_2\n\tjne\t.LBB3_1\n.Lfunc_end3:\n",
                   fma="\tvfmadd231ps\t%zmm1, %zmm2, %zmm3\n", other="\tvaddps\t(%rdi), %zmm3, %zmm3\n",
                   store="\tvmovups\t%zmm3, 64(%rsp)\n", load="\tvaddps\t64(%rsp,%rax), %zmm3, %zmm3\n")

    def test_are_found_on_aarch64(self):
        for jump in ("b.ne\t", "cbnz\tx3, ", "tbz\tw3, #2, "):
            self.check("k3_conv:\n.LBB3_1:\n{outer}.LBB3_2:\n{inner}\t%s.LBB3_2\n\tb\t.LBB3_1\n.Lfunc_end3:\n" % jump,
                       fma="\tfmla\tv2.4s, v1.4s, v0.s[1]\n", other="\tldp\tq2, q3, [x0, #32]\n",
                       store="\tstp\tq3, q4, [sp, #64]\n", load="\tldr\tq3, [sp]\n")

    def test_nets_have_none(self):
        pockc = os.environ["POCKC"]
        few, many = ("--cpu", "x86-64-v3"), ("--cpu", "x86-64-v4")  # 16 vector registers, and 32
        arm = ("--target", "aarch64-linux")  # 32, of four floats
        # The 49 sums of a 7x7 weight gradient of mcunet-5fps have no room in 16, nor has the classifier of mobilenetv2-0.35,
        # whose factors are turned, in 32 of four floats.
        machines = {"mobilenetv2-0.35@128:8": (few, many), "resnet18@224:8": (few, many, arm),
                    "resnet18@224:1": (few, many), "mcunet-5fps@128:8": (many,), "lenet:8": (few, many)}
        cases = [compare.parse_case(c) for c in machines]
        with tempfile.TemporaryDirectory() as folder:
            compare.run(["/usr/bin/python3", "-B", compare.HERE / "nets.py", folder, *{c.net for c in cases}])
            for case in cases:
                for machine in machines[case.name]:
                    with self.subTest(case.name, machine=machine):
                        assembly = compare.run([pockc, "compile", pathlib.Path(folder) / case.net / "model.onnx", "--batch",
                                                case.batch, *POCKC, *machine, "--emit", "asm"])
                        self.assertGreater(len(hot_loops(assembly)), 10)
                        self.assertEqual(problems(assembly), [])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        for file in sys.argv[1:]:
            print(f"{file}:", *problems(pathlib.Path(file).read_text()), sep="\n  ")
        sys.exit()
    compare.need("torch", "onnx")
    unittest.main()
