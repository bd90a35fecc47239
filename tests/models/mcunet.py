#!/usr/bin/python3
"""Write the net of 42 convolutions that Lin 2020 found for microcontrollers at five images a second, as ONNX with random
weights: images 3x128x128, 10 classes, batch axis "N", convolution and bias with no batch norm. Convolution i is called convs.i.

Needs python3-onnx and numpy, not PyTorch.
"""
import argparse

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# Of each inverted residual block: channels inside and behind, kernel, stride.
BLOCKS = ((16, 8, 3, 1), (32, 16, 3, 2), (48, 16, 3, 1), (48, 24, 7, 2), (120, 24, 3, 1), (120, 40, 3, 2), (160, 40, 7, 1),
          (160, 48, 5, 1), (144, 48, 3, 1), (192, 48, 3, 1), (240, 96, 7, 2), (384, 96, 5, 1), (384, 96, 5, 1), (576, 160, 3, 1))


class Builder:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.tensors, self.convs = [], [], 0

    def tensor(self, name, shape, scale):
        array = (self.rng.standard_normal(shape) * scale).astype(np.float32)
        self.tensors.append(numpy_helper.from_array(array, name))
        return name

    def node(self, op, inputs, name, **attributes):
        output = f"/{name}/{op}_output_0"
        self.nodes.append(helper.make_node(op, inputs, [output], name=f"/{name}/{op}", **attributes))
        return output

    def conv(self, x, cin, cout, kernel, stride, groups=1, act=True):
        name = f"convs.{self.convs}"
        self.convs += 1
        shape = (cout, cin // groups, kernel, kernel)
        w = self.tensor(name + ".weight", shape, (2 / np.prod(shape[1:])) ** 0.5)
        b = self.tensor(name + ".bias", (cout,), 0.05)
        y = self.node("Conv", [x, w, b], name, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2] * 4,
                      dilations=[1, 1], group=groups)
        return self.node("Clip", [y, "zero", "six"], name) if act else y


def model(seed):
    b = Builder(seed)
    b.tensors += [numpy_helper.from_array(np.array(v, np.float32), n) for n, v in (("zero", 0), ("six", 6))]
    x, cin = b.conv("x", 3, 16, 3, 2), 16
    for inside, cout, kernel, stride in BLOCKS:
        y = b.conv(x, cin, inside, 1, 1) if inside != cin else x
        y = b.conv(y, inside, inside, kernel, stride, groups=inside)
        y = b.conv(y, inside, cout, 1, 1, act=False)
        x = b.node("Add", [x, y], f"join.{b.convs}") if stride == 1 and cin == cout else y
        cin = cout
    x = b.node("Flatten", [b.node("GlobalAveragePool", [x], "pool")], "flat")
    w, c = b.tensor("classifier.weight", (10, cin), 0.08), b.tensor("classifier.bias", (10,), 0.05)
    b.nodes.append(helper.make_node("Gemm", [x, w, c], ["logits"], name="/classifier/Gemm", transB=1))
    graph = helper.make_graph(b.nodes, "mcunet",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 128, 128])],
                              [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", 10])], b.tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("file")
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args()
    made = model(args.seed)
    onnx.checker.check_model(made)
    onnx.save(made, args.file)
