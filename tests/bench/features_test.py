#!/usr/bin/python3
"""No instruction that a named core lacks: the whole trainer of LeNet, kernels and runtime, disassembled for a core that has
more, and run in the emulator as the very core. ($POCKC, $LLVM_OBJDUMP; skipped where an emulator is missing)"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

NET = pathlib.Path(__file__).resolve().parent.parent / "train" / "lenet"

# What came after Armv8.0-A: atomics (LSE), dot products, SVE, arithmetic of halves, and more.
AARCH64 = re.compile(r"\t(?:"
                     r"(?:cas|swp|ldadd|ldclr|ldeor|ldset|ldsmax|ldsmin|ldumax|ldumin|stadd|stclr|stset)[a-z]*\t"
                     r"|[us]?[us]dot\t|bf(?:dot|mmla|mlal[bt]|cvt)\w*\t|[us]?mmla\t|fcmla\t|fcadd\t|sqrdml[as]h\t|fmlal2?\t|fmlsl2?\t|ldap\w+\t"
                     r"|\w+\t.*\bz\d+\.|\w+\t.*\bp\d+/|ptrue\t|pac\w+|aut\w+|bti\b"
                     r"|f(?:add|sub|mul|div|mla|mls|madd|msub|max|min|maxnm|minnm|sqrt|neg|abs|cmp)\w*\t.*(?:\bh\d+\b|\.[48]h)"
                     r")")
# Behind NEON and VFPv4 of Armv7-A: everything of Armv8.
ARMV7 = re.compile(r"\t(?:vrint\w*|vcvt[anpm]\.|v(?:max|min)nm|vsel\w+|crc32\w*|aes\w+|sha\w+|v[us]dot|lda\w*|stl\w*"
                   r"|v\w+\.f16|sevl|vjcvt|vfmal|vfmsl|vcmla|vcadd)\b")


def run(*argv):
    return subprocess.run([str(a) for a in argv], capture_output=True, text=True, check=True).stdout


class FeaturesTest(unittest.TestCase):
    def compile(self, folder, target):
        run(os.environ["POCKC"], "compile", NET / "model.onnx", "--target", target, "--batch", 4, "--loss", "cross-entropy",
            "-o", f"{folder}/trainer")
        return f"{folder}/trainer"

    def check(self, target, newer, features, emulator):
        with tempfile.TemporaryDirectory() as folder:
            trainer = self.compile(folder, target)
            text = run(os.environ["LLVM_OBJDUMP"], "-d", "--no-show-raw-insn", f"--mattr={features}", trainer)
            lines = text.splitlines()
            self.assertGreater(len(lines), 5000)
            self.assertGreater(sum("fmla" in line or "vfma" in line for line in lines), 100)
            self.assertEqual([line for line in lines if newer.search(line)], [])
            run(*emulator, trainer, "train", "--data", NET / "data.npy", "--labels", NET / "labels.npy", "--epochs", 1,
                "--threads", 1)

    def test_aarch64(self):
        for target, core in (("aarch64-linux", "cortex-a53"), ("rpi4", "cortex-a72"), ("rpi5", "cortex-a76")):
            with self.subTest(target):
                self.check(target, AARCH64, "+v9a,+sve2,+fullfp16,+bf16,+i8mm", ("qemu-aarch64", "-cpu", core))

    def test_armv7(self):
        self.check("armv7-linux", ARMV7, "+v8.2a,+fullfp16,+dotprod,+neon,+fp-armv8", ("qemu-arm", "-cpu", "cortex-a7"))

    def test_newer_instructions_are_seen(self):
        for line in ("10: \tldadd\tw0, w1, [x2]", "10: \tsdot\tv0.4s, v1.16b, v2.16b", "10: \tfadd\tz0.s, z1.s, z2.s",
                     "10: \tfmla\tv0.8h, v1.8h, v2.8h", "10: \tcasal\tw0, w1, [x2]", "10: \tfadd\th0, h1, h2"):
            self.assertRegex(line, AARCH64)
        for line in ("10: \tfmla\tv0.4s, v1.4s, v2.s[0]", "10: \tldaxr\tw0, [x1]", "10: \tfcvt\ts0, h1", "10: \tbfi\tw0, w1, #2, #3"):
            self.assertNotRegex(line, AARCH64)
        for line in ("10: \tvrintn.f32\ts0, s1", "10: \tvsdot.s8\tq0, q1, q2", "10: \tldaex\tr0, [r1]", "10: \tvadd.f16\tq0, q1, q2"):
            self.assertRegex(line, ARMV7)
        for line in ("10: \tvfma.f32\tq0, q1, q2", "10: \tldrex\tr0, [r1]", "10: \tsdiv\tr0, r1, r2"):
            self.assertNotRegex(line, ARMV7)


if __name__ == "__main__":
    if missing := [q for q in ("qemu-aarch64", "qemu-arm") if not shutil.which(q)]:
        print(*missing, "not installed")
        sys.exit(77)
    unittest.main()
