#!/usr/bin/python3
"""MobileNetV2 (Sandler 2018) at 0.35 of the channels for images of 28x28, as ONNX.

    model.py OUT.onnx [--seed S]                   with random weights
    model.py OUT.onnx [--seed S] --from TRAINED    TRAINED with a new classifier

The stem and the fourth stage keep the size, as the images are small: 28, 14, 7 and 4 pixels wide.
"""
import argparse

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# Of each stage: expansion, channels, blocks, stride of the first one.
STAGES = ((1, 8, 1, 1), (6, 8, 2, 2), (6, 16, 3, 2), (6, 24, 4, 2), (6, 32, 3, 1), (6, 56, 3, 2), (6, 112, 1, 1))
STEM, LAST, CLASSES = 16, 1280, 10


class Builder:
    def __init__(self, rng):
        self.rng, self.nodes, self.tensors = rng, [], []
        self.zero, self.six = self.tensor("zero", np.zeros(())), self.tensor("six", np.full((), 6))

    def tensor(self, name, array):
        self.tensors.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def node(self, op, name, inputs, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def conv(self, name, x, cin, cout, kernel=1, stride=1, groups=1, act=True):
        shape = (cout, cin // groups, kernel, kernel)
        w = self.tensor(f"{name}.conv.weight", self.rng.normal(0, (2 / (cout // groups * kernel**2))**0.5, shape))
        y = self.node("Conv", f"/{name}/conv", [x, w], kernel_shape=[kernel] * 2, strides=[stride] * 2,
                      pads=[kernel // 2] * 4, group=groups)
        start = {"weight": np.ones(cout), "bias": np.zeros(cout), "running_mean": np.zeros(cout), "running_var": np.ones(cout)}
        norm = [self.tensor(f"{name}.norm.{k}", v) for k, v in start.items()]
        y = self.node("BatchNormalization", f"/{name}/norm", [y, *norm], epsilon=1e-5, momentum=0.9)
        return self.node("Clip", f"/{name}/relu6", [y, self.zero, self.six]) if act else y

    def classifier(self, cin):
        bound = cin**-0.5
        return (self.tensor("classifier.weight", self.rng.uniform(-bound, bound, (CLASSES, cin))),
                self.tensor("classifier.bias", np.zeros(CLASSES)))


def model(rng):
    b = Builder(rng)
    x, cin = b.conv("stem", "images", 1, STEM, 3), STEM
    for s, (expansion, cout, blocks, stride) in enumerate(STAGES):
        for i in range(blocks):
            name, inside, first = f"stage{s}.block{i}", cin * expansion, stride if i == 0 else 1
            y = b.conv(f"{name}.expand", x, cin, inside) if expansion > 1 else x
            y = b.conv(f"{name}.depthwise", y, inside, inside, 3, first, inside)
            y = b.conv(f"{name}.project", y, inside, cout, act=False)
            x = b.node("Add", f"/{name}/add", [x, y]) if first == 1 and cin == cout else y
            cin = cout
    x = b.conv("last", x, cin, LAST)
    x = b.node("Flatten", "/flatten", [b.node("GlobalAveragePool", "/pool", [x])])
    b.node("Gemm", "logits", [x, *b.classifier(LAST)], transB=1)
    graph = helper.make_graph(b.nodes, "mobilenetv2", [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["N", 1, 28, 28])],
                              [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", CLASSES])], b.tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def with_new_classifier(trained, rng):
    b = Builder(rng)
    b.classifier(LAST)
    fresh = {t.name: t for t in b.tensors if t.name.startswith("classifier.")}
    for tensor in trained.graph.initializer:
        if tensor.name in fresh:
            tensor.CopyFrom(fresh[tensor.name])
    return trained


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--from", dest="trained")
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    made = with_new_classifier(onnx.load(args.trained), rng) if args.trained else model(rng)
    onnx.checker.check_model(made)
    onnx.save(made, args.out)


if __name__ == "__main__":
    main()
