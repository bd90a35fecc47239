#!/usr/bin/python3
"""The nets that compare.py measures, in PyTorch: as their papers have them, at full size, with random weights.

    nets.py FOLDER NET...     writes FOLDER/NET/model.onnx and, in info.json, its inputs and the floating-point operations of a step

A net is called mlp, lenet, resnet18@224, resnet50@224, mcunet-5fps@128, encoder@TOKENS, or mobilenetv2-WIDTH@SIZE and
proxyless-WIDTH@SIZE, as in mobilenetv2-0.35@128.
"""
import argparse
import json
import pathlib
import sys

import torch
from torch import nn
from torch.nn import functional as F

sys.path.append(str(pathlib.Path(__file__).parent.parent / "train"))
import text  # noqa: E402


class Mlp(nn.Module):
    shape, classes = (1, 28, 28), 10

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(784, 256), nn.Linear(256, 128), nn.Linear(128, 10)

    def forward(self, x):
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(torch.flatten(x, 1))))))


class LeNet(nn.Module):
    """LeCun 1998, with the relus and max pools of today."""
    shape, classes = (1, 28, 28), 10

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = torch.flatten(F.max_pool2d(F.relu(self.conv2(x)), 2), 1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


def conv_norm(cin, cout, kernel, stride=1, groups=1, act=None):
    conv = nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(cout), *([act(inplace=True)] if act else []))


class InvertedResidual(nn.Module):
    """Sandler 2018: expand to `inside` channels (unless there are as many already), depthwise, project."""

    def __init__(self, cin, inside, cout, kernel, stride):
        super().__init__()
        self.join = stride == 1 and cin == cout
        expand = [conv_norm(cin, inside, 1, act=nn.ReLU6)] if inside != cin else []
        self.body = nn.Sequential(*expand, conv_norm(inside, inside, kernel, stride, inside, act=nn.ReLU6),
                                  conv_norm(inside, cout, 1))

    def forward(self, x):
        return x + self.body(x) if self.join else self.body(x)


class Classifier(nn.Module):
    """Features, their mean over the image, a linear layer."""

    def __init__(self, features, channels, size, classes):
        super().__init__()
        self.shape, self.classes = (3, size, size), classes
        self.features, self.fc = features, nn.Linear(channels, classes)

    def forward(self, x):
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(self.features(x), 1), 1))


def inverted_residuals(width, size, classes, stages, least):
    """A net of `stages`: channels, and of each block its widening, kernel and stride."""
    def channels(n):  # multiples of 8, never below 90 % of what was asked for
        n *= width
        rounded = max(8, int(n + 4) // 8 * 8)
        return rounded + 8 if rounded < 0.9 * n else rounded

    cin, last = channels(32), max(least, int(1280 * width))
    layers = [conv_norm(3, cin, 3, 2, act=nn.ReLU6)]
    for cout, blocks in stages:
        for expand, kernel, stride in blocks:
            layers.append(InvertedResidual(cin, cin * expand, channels(cout), kernel, stride))
            cin = channels(cout)
    layers.append(conv_norm(cin, last, 1, act=nn.ReLU6))
    return Classifier(nn.Sequential(*layers), last, size, classes)


def mobilenetv2(width, size, classes=1000):
    stages = [(cout, [(expand, 3, stride if i == 0 else 1) for i in range(repeats)])
              for expand, cout, repeats, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
                                                    (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))]
    return inverted_residuals(width, size, classes, stages, 1280)


def proxyless(width, size, classes=1000):
    """The net that Cai 2019 found for phones."""
    stages = ((16, ((1, 3, 1),)), (24, ((3, 5, 2), (3, 3, 1))), (40, ((3, 7, 2), (3, 3, 1), (3, 5, 1), (3, 5, 1))),
              (80, ((6, 7, 2), (3, 5, 1), (3, 5, 1), (3, 5, 1))), (96, ((6, 5, 1), (3, 5, 1), (3, 5, 1), (3, 5, 1))),
              (192, ((6, 7, 2), (6, 7, 1), (3, 7, 1), (3, 7, 1))), (320, ((6, 7, 1),)))
    return inverted_residuals(width, size, classes, stages, 0)


class Encoder(text.Encoder):
    """BERT in small (MiniLM's size): 6 layers of width 384."""

    def __init__(self, tokens):
        super().__init__(tokens=8192, width=384, heads=12, inner=1536, positions=tokens, classes=10)
        self.layers = nn.ModuleList(text.EncoderLayer(384, 12, 1536, nn.Identity) for _ in range(6))
        self.shape, self.classes = (tokens,), 10


# Channels inside, channels out, kernel, stride.
MCUNET_5FPS = ((16, 8, 3, 1), (32, 16, 3, 2), (48, 16, 3, 1), (48, 24, 7, 2), (120, 24, 3, 1), (120, 40, 3, 2),
               (160, 40, 7, 1), (160, 48, 5, 1), (144, 48, 3, 1), (192, 48, 3, 1), (240, 96, 7, 2), (384, 96, 5, 1),
               (384, 96, 5, 1), (576, 160, 3, 1))


def mcunet(size, classes=10):
    """The net that Lin 2020 found for microcontrollers at five images a second, with batch norm."""
    layers, cin = [conv_norm(3, 16, 3, 2, act=nn.ReLU6)], 16
    for inside, cout, kernel, stride in MCUNET_5FPS:
        layers.append(InvertedResidual(cin, inside, cout, kernel, stride))
        cin = cout
    return Classifier(nn.Sequential(*layers), cin, size, classes)


class Residual(nn.Module):
    """He 2015. `kernels`: (3, 3) or, with a bottleneck, (1, 3, 1); a stride belongs to the 3x3 convolution."""

    def __init__(self, cin, inside, cout, kernels, stride):
        super().__init__()
        layers, strided, c = [], kernels.index(3), cin
        for i, kernel in enumerate(kernels):
            last = i == len(kernels) - 1
            layers.append(conv_norm(c, cout if last else inside, kernel, stride if i == strided else 1,
                                    act=None if last else nn.ReLU))
            c = inside
        self.body = nn.Sequential(*layers)
        self.downsample = conv_norm(cin, cout, 1, stride) if stride != 1 or cin != cout else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.downsample(x))


def resnet(repeats, kernels, widening, size, classes=1000):
    layers, cin = [conv_norm(3, 64, 7, 2, act=nn.ReLU), nn.MaxPool2d(3, 2, 1)], 64
    for stage, count in enumerate(repeats):
        for i in range(count):
            inside = 64 << stage
            layers.append(Residual(cin, inside, inside * widening, kernels, 2 if i == 0 and stage else 1))
            cin = inside * widening
    return Classifier(nn.Sequential(*layers), cin, size, classes)


def make_net(name):
    torch.manual_seed(1)
    family, _, size = name.partition("@")
    family, _, width = family.partition("-")
    makers = {"mlp": Mlp, "lenet": LeNet,
              "mobilenetv2": lambda: mobilenetv2(float(width), int(size)),
              "proxyless": lambda: proxyless(float(width), int(size)),
              "encoder": lambda: Encoder(int(size)),
              "mcunet": lambda: mcunet(int(size)),
              "resnet18": lambda: resnet((2, 2, 2, 2), (3, 3), 1, int(size)),
              "resnet50": lambda: resnet((3, 4, 6, 3), (1, 3, 1), 4, int(size))}
    if family not in makers:
        raise SystemExit(f"there is no net '{name}'; {chr(10).join(__doc__.split(chr(10))[-3:])}")
    return makers[family]()


def inputs(net):
    """By name: images, or tokens and below which number they are."""
    if not isinstance(net, Encoder):
        return {"x": None}
    return {"ids": net.tokens.num_embeddings, "mask": 2, "types": net.types.num_embeddings}


def example(net, batch):
    return {name: torch.ones(batch, *net.shape, dtype=torch.long if below else torch.float32)
            for name, below in inputs(net).items()}


def export(net, path):
    # The batch norms stay in eval mode, so that each is a node of its own; the outermost flag keeps equal tensors apart,
    # which the exporter would otherwise merge (see examples/fashion-mnist/export.py).
    net.eval().training = True
    samples = example(net, 2)
    torch.onnx.export(net, tuple(samples.values()), str(path), opset_version=14 if isinstance(net, Encoder) else 13,
                      training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False, input_names=list(samples),
                      output_names=["logits"], dynamic_axes={name: {0: "N"} for name in (*samples, "logits")})


def step_flop(net):
    """Multiplies and adds of convolutions and linear layers for one sample: forward, for the weights, for the input but the
    model's own."""
    total = 0

    def count(module, inputs, output):
        nonlocal total
        w = module.weight
        positions = output[0, 0].numel() if isinstance(module, nn.Conv2d) else output[0].numel() // output.shape[-1]
        total += 2 * w.numel() * positions * (3 if inputs[0].requires_grad else 2)

    handles = [m.register_forward_hook(count) for m in net.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
    net.eval()(*example(net, 1).values())
    for h in handles:
        h.remove()
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("nets", nargs="+", metavar="NET")
    args = parser.parse_args()
    for name in args.nets:
        net, folder = make_net(name), args.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        info = {"shape": net.shape, "classes": net.classes, "inputs": inputs(net), "flop_per_sample": step_flop(net),
                "batch_norm": any(isinstance(m, nn.BatchNorm2d) for m in net.modules())}
        (folder / "info.json").write_text(json.dumps(info) + "\n")
        export(net, folder / "model.onnx")


if __name__ == "__main__":
    main()
