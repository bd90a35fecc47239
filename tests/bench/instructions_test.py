#!/usr/bin/python3
"""Instructions per multiply-accumulate of whole kernels on cores that nobody here has (docs/performance.md): a product of
128x128 matrices and a 3x3 convolution of 32 channels, 16x16, forwards and both gradients; a depthwise one is printed.
($POCKC; skipped where python3-onnx or an emulator is missing)"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

# The most that a kernel may execute: of the two gradients, that of the input comes first. Cortex-A53 and M33 have the
# schedules, and all but the last digits of the numbers, of A72 and M4.
MOST = {
    "rpi4": {"matmul": (0.42, 0.57, 0.42), "conv": (0.42, 0.42, 0.42)},
    "rpi2": {"matmul": (0.60, 1.25, 0.60), "conv": (0.65, 0.65, 0.65)},
    "cortex-m55": {"matmul": (0.70, 0.88, 0.70), "conv": (0.70, 0.70, 0.70)},
    "cortex-m7": {"matmul": (1.9, 1.9, 1.9), "conv": (1.9, 1.9, 1.9)},
    "cortex-m4": {"matmul": (1.9, 1.9, 1.9), "conv": (1.9, 1.9, 1.9)},
}


def make_models(folder):
    """Behind a scale that is trained, so that the layer's input has a gradient as well."""
    import numpy
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    random = numpy.random.default_rng(1)

    def save(name, shape, scale, weight, node):
        params = [numpy_helper.from_array(random.standard_normal(s).astype("float32"), n) for n, s in (("s", scale), ("w", weight))]
        graph = helper.make_graph([helper.make_node("Mul", ["x", "s"], ["u"], name="scale"), node], "g",
                                  [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)], params)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), folder / name)

    image = [1, 32, 16, 16]
    save("matmul.onnx", [128, 128], [128], [128, 128], helper.make_node("MatMul", ["u", "w"], ["y"], name="matmul"))
    for name, groups in (("conv", 1), ("depthwise", 32)):
        save(f"{name}.onnx", image, [32, 1, 1], [32, 32 // groups, 3, 3],
             helper.make_node("Conv", ["u", "w"], ["y"], name=name, pads=[1, 1, 1, 1], group=groups))


def part(kernel):
    """Forwards, the input's gradient or the weight's."""
    name = kernel["name"]
    if "sgd_step" in name:
        return 2
    return 0 if "sub_mul" in name or name.endswith("_conv") else 1


class InstructionsTest(unittest.TestCase):
    def test_of_whole_kernels(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            make_models(folder)
            for target, most in MOST.items():
                for net in ("matmul", "conv", "depthwise"):
                    with self.subTest(target=target, net=net):
                        out = subprocess.run([os.environ["POCKC"], "bench", folder / f"{net}.onnx", "--loss", "mse", "--target",
                                              target, "--json"], capture_output=True, text=True, check=True).stdout
                        kernels = [k for k in json.loads(out)["kernels"] if "multiply_accumulates" in k]
                        self.assertEqual(sorted(map(part, kernels)), [0, 1, 2])
                        kernels.sort(key=part)
                        counts = [k["instructions_per_multiply_accumulate"] for k in kernels]
                        print(f"{target:12} {net:10}", *(f"{c:6.3f}" for c in counts))
                        self.assertTrue(all(k["right"] for k in kernels))
                        for count, limit in zip(counts, most.get(net, counts)):
                            self.assertLessEqual(count, limit)


if __name__ == "__main__":
    try:
        import onnx
    except ImportError:
        print("python3-onnx is not installed")
        sys.exit(77)
    if missing := [q for q in ("qemu-aarch64", "qemu-arm", "qemu-system-arm") if not shutil.which(q)]:
        print(*missing, "not installed")
        sys.exit(77)
    unittest.main()
