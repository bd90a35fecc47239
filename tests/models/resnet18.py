#!/usr/bin/python3
"""Write an ONNX ResNet-18 with random weights: 46 MB, so it is made when needed and not kept in the repository.

224x224 colour images, batch axis "N", batch norm kept, tensors named as torchvision names them (layer1.0.conv1.weight, ...).
Convolutions have He-scaled normal weights (fan out), batch norms scale 1 and shift 0, the linear layer uniform weights, all
from --seed. The file says it was produced by pytorch, whose conventions it follows. Needs python3-onnx and numpy, not PyTorch.
"""
import argparse

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Builder:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.tensors = [], []

    def tensor(self, name, array):
        self.tensors.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def node(self, op, inputs, name, **attributes):
        output = f"/{name.replace('.', '/')}/{op}_output_0"
        self.nodes.append(helper.make_node(op, inputs, [output], name=f"/{name.replace('.', '/')}/{op}", **attributes))
        return output

    def conv(self, x, name, cin, cout, kernel, stride):
        std = (2 / (cout * kernel * kernel)) ** 0.5
        w = self.tensor(name + ".weight", self.rng.standard_normal((cout, cin, kernel, kernel)) * std)
        return self.node("Conv", [x, w], name, kernel_shape=[kernel, kernel], strides=[stride, stride],
                         pads=[kernel // 2] * 4, dilations=[1, 1], group=1)

    def norm(self, x, name, channels):
        parts = {"weight": 1, "bias": 0, "running_mean": 0, "running_var": 1}
        names = [self.tensor(f"{name}.{k}", np.full(channels, v)) for k, v in parts.items()]
        return self.node("BatchNormalization", [x, *names], name, epsilon=1e-5, momentum=0.9)

    def block(self, x, name, cin, cout, stride):
        y = self.norm(self.conv(x, name + ".conv1", cin, cout, 3, stride), name + ".bn1", cout)
        y = self.node("Relu", [y], name + ".relu")
        y = self.norm(self.conv(y, name + ".conv2", cout, cout, 3, 1), name + ".bn2", cout)
        if stride != 1 or cin != cout:
            x = self.norm(self.conv(x, name + ".downsample.0", cin, cout, 1, stride), name + ".downsample.1", cout)
        return self.node("Relu", [self.node("Add", [y, x], name)], name + ".relu_1")


def make(seed, classes, size):
    b = Builder(seed)
    x = b.norm(b.conv("x", "conv1", 3, 64, 7, 2), "bn1", 64)
    x = b.node("MaxPool", [b.node("Relu", [x], "relu")], "maxpool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    cin = 64
    for layer, cout in enumerate((64, 128, 256, 512), 1):
        for index in range(2):
            x = b.block(x, f"layer{layer}.{index}", cin, cout, 2 if layer > 1 and index == 0 else 1)
            cin = cout
    x = b.node("Flatten", [b.node("GlobalAveragePool", [x], "avgpool")], "flatten", axis=1)
    bound = cin ** -0.5
    w = b.tensor("fc.weight", b.rng.uniform(-bound, bound, (classes, cin)))
    bias = b.tensor("fc.bias", b.rng.uniform(-bound, bound, classes))
    b.nodes.append(helper.make_node("Gemm", [x, w, bias], ["logits"], name="/fc/Gemm", alpha=1.0, beta=1.0, transB=1))
    graph = helper.make_graph(
        b.nodes, "resnet18", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, size, size])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", classes])], b.tensors)
    return helper.make_model(graph, producer_name="pytorch", ir_version=7, opset_imports=[helper.make_opsetid("", 13)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", help="file to write")
    parser.add_argument("--seed", type=int, default=0, help="seed of the weights (default 0)")
    parser.add_argument("--classes", type=int, default=1000, help="default 1000")
    parser.add_argument("--size", type=int, default=224, help="height and width of an image (default 224)")
    args = parser.parse_args()
    model = make(args.seed, args.classes, args.size)
    onnx.checker.check_model(model)
    onnx.save(model, args.output)


if __name__ == "__main__":
    main()
