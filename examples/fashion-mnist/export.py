#!/usr/bin/python3
"""Write fashion_cnn.onnx, a small untrained CNN for 28x28 grey images in ten classes.

The net is two blocks of convolution, batch norm, relu and 2x2 max pooling (16 and 32 channels), then one linear layer:
about 2 million floating-point operations forward per image. Weights are PyTorch's default initial ones for a fixed seed,
so the file holds a starting point and training is left to whoever reads it. Needs PyTorch only.
"""
import argparse
import pathlib

import torch
from torch import nn


class FashionCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(32)
        self.fc = nn.Linear(32 * 7 * 7, 10)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 2)
        x = torch.max_pool2d(torch.relu(self.bn2(self.conv2(x))), 2)
        return self.fc(torch.flatten(x, 1))


def make(seed=1):
    torch.manual_seed(seed)
    return FashionCnn()


def export(net, path):
    # PRESERVE keeps batch norm a node of its own; the default would fold it into the convolution in front of it.
    # An untrained net has many equal tensors (scales of 1, shifts of 0), which the exporter merges into one initializer for
    # a module in eval mode and leaves apart for one in training mode. The outermost flag is the one it asks; the batch
    # norms stay in eval mode, so their nodes are the ordinary inference ones.
    net.eval().training = True
    torch.onnx.export(net, torch.zeros(2, 1, 28, 28), str(path), opset_version=13,
                      training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False,
                      input_names=["image"], output_names=["logits"],
                      dynamic_axes={"image": {0: "N"}, "logits": {0: "N"}})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", nargs="?", default=str(pathlib.Path(__file__).with_name("fashion_cnn.onnx")),
                        help="file to write (default: fashion_cnn.onnx beside this script)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the initial weights (default 1)")
    args = parser.parse_args()
    export(make(args.seed), args.output)


if __name__ == "__main__":
    main()
