#!/usr/bin/python3
"""The nets of tests/train, each with its seed, batch, optimizer and data shape.

record.py exports, trains and records them; run this file to list them with their sizes. Sizes are odd on purpose: remainders of
vector and tile loops are where a compiler goes wrong first.
"""
import argparse
import dataclasses

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import datasets
import text
import zoo


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(20, 33), nn.Linear(33, 17), nn.Linear(17, 10)

    def forward(self, x):
        return self.fc3(torch.tanh(self.fc2(torch.relu(self.fc1(x)))))


class LeNet(nn.Module):
    """Tanh and average pooling, as in the first one, so that no kink is anywhere."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 13, 5)
        self.fc1, self.fc2 = nn.Linear(13 * 5 * 5, 30), nn.Linear(30, 10)

    def forward(self, x):
        x = F.avg_pool2d(torch.tanh(self.conv1(x)), 2)
        x = F.avg_pool2d(torch.tanh(self.conv2(x)), 2)
        return self.fc2(torch.tanh(self.fc1(torch.flatten(x, 1))))


class BnCnn(nn.Module):
    """Odd images, stride 2, an overlapping and padded max pool, an uneven kernel, and a batch norm behind a relu."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 12, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(12)
        self.conv2, self.bn2 = nn.Conv2d(12, 19, (3, 1), padding=(1, 0)), nn.BatchNorm2d(19, momentum=0.2)
        # Padding matters here: behind a convolution without any, the next batch norm would cancel bn2's shift.
        self.conv3, self.bn3 = nn.Conv2d(19, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16, eps=1e-3)
        self.fc = nn.Linear(16 * 5 * 5, 7)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        x = F.max_pool2d(x, 3, stride=2, padding=1)
        x = self.bn2(torch.relu(self.conv2(x)))
        x = torch.relu(self.bn3(self.conv3(x)))
        return self.fc(torch.flatten(x, 1))


class Lifted(nn.BatchNorm2d):
    """A batch norm in front of relu6 whose shift starts well inside (0, 6): both sides clip, but few values stand so near
    a bound that another order of a sum decides them differently. (50 steps with momentum blow such a decision up.)"""

    def __init__(self, channels, low=1.4, high=4.6):
        super().__init__(channels)
        self.shift = (low, high)


class InvertedResidual(nn.Module):
    def __init__(self, cin, cout, stride, expand):
        super().__init__()
        mid = cin * expand
        self.join = stride == 1 and cin == cout
        if expand != 1:
            self.expand, self.bn_expand = nn.Conv2d(cin, mid, 1, bias=False), Lifted(mid)
        self.dw, self.bn_dw = nn.Conv2d(mid, mid, 3, stride, 1, groups=mid, bias=False), Lifted(mid)
        self.project, self.bn_project = nn.Conv2d(mid, cout, 1, bias=False), nn.BatchNorm2d(cout)

    def forward(self, x):
        y = F.relu6(self.bn_expand(self.expand(x))) if hasattr(self, "expand") else x
        y = F.relu6(self.bn_dw(self.dw(y)))
        y = self.bn_project(self.project(y))
        return x + y if self.join else y


class Mobile(nn.Module):
    """MobileNetV2 in small: two joins, depthwise convolutions of both strides, channels that are no multiples of 8.

    As in the original, the shift of every bn_project meets only 1x1 convolutions with batch norm behind them, which cancel
    it: its gradient is zero but for rounding, and weight decay alone moves it.
    """

    def __init__(self):
        super().__init__()
        self.stem, self.bn_stem = nn.Conv2d(3, 8, 3, 2, 1, bias=False), Lifted(8)
        self.blocks = nn.Sequential(
            InvertedResidual(8, 8, 1, 1),     # no expansion, a join
            InvertedResidual(8, 12, 2, 3),    # 24 channels inside
            InvertedResidual(12, 12, 1, 3),   # 36 channels inside, a join
            InvertedResidual(12, 18, 2, 3))
        self.head, self.bn_head = nn.Conv2d(18, 44, 1, bias=False), Lifted(44, 1.4, 2.0)
        self.classifier = nn.Linear(44, 10)

    def forward(self, x):
        x = self.blocks(F.relu6(self.bn_stem(self.stem(x))))
        x = F.adaptive_avg_pool2d(F.relu6(self.bn_head(self.head(x))), 1)
        return self.classifier(torch.flatten(x, 1))


class Twice(nn.Module):
    """One convolution and one linear layer, each applied twice: gradients of both uses add up."""

    def __init__(self):
        super().__init__()
        self.stem, self.conv = nn.Conv2d(2, 9, 3, padding=1), nn.Conv2d(9, 9, 3, padding=1)
        self.fc1, self.mix, self.fc2 = nn.Linear(9 * 3 * 4, 9), nn.Linear(9, 9), nn.Linear(9, 5)

    def forward(self, x):
        x = torch.tanh(self.stem(x))
        x = x + torch.tanh(self.conv(x))
        x = x + torch.tanh(self.conv(x))
        x = torch.tanh(self.fc1(torch.flatten(F.avg_pool2d(x, 3), 1)))
        return self.fc2(torch.tanh(self.mix(torch.tanh(self.mix(x)))))


def philox(counter, key):
    """Philox4x32-10: four arrays of 32-bit words in uint64 as counter, two words as key."""
    low, c = np.uint64(0xFFFFFFFF), list(counter)
    for step in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        k = [np.uint64((key[0] + step * 0x9E3779B9) & 0xFFFFFFFF), np.uint64((key[1] + step * 0xBB67AE85) & 0xFFFFFFFF)]
        c = [b >> np.uint64(32) ^ c[1] ^ k[0], b & low, a >> np.uint64(32) ^ c[3] ^ k[1], a & low]
    return c


class Dropout(nn.Dropout):
    """Drops what pock drops with --seed 0: `number` is the layer's among the file's."""

    def __init__(self, p, number):
        super().__init__(p)
        self.number, self.steps = number, 0

    def forward(self, x):
        if torch.onnx.is_in_onnx_export():
            return super().forward(x)
        self.steps += 1
        blocks = np.arange((x.numel() + 3) // 4, dtype=np.uint64)
        words = philox([np.full_like(blocks, self.steps), np.full_like(blocks, self.number), blocks, 0 * blocks], (0, 0))
        kept = np.stack(words, 1).ravel()[:x.numel()] >= round(self.p * 2**32)
        return x * torch.from_numpy(kept.reshape(x.shape)).to(x.dtype) / (1 - self.p)


class Dropped(nn.Module):
    """A dropout on images and one on features, neither of a size that blocks of 4 or 32 divide."""

    def __init__(self):
        super().__init__()
        self.conv, self.fc1, self.fc2 = nn.Conv2d(2, 5, 3), nn.Linear(5 * 7 * 9, 33), nn.Linear(33, 6)
        self.drop1, self.drop2 = Dropout(0.2, 0), Dropout(0.5, 1)

    def forward(self, x):
        x = self.drop1(torch.tanh(self.conv(x)))
        return self.fc2(self.drop2(torch.tanh(self.fc1(torch.flatten(x, 1)))))


class AnySize(nn.Module):
    """Runs on images of any size; each window meets edges in its own way."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 9, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(9)
        self.conv2, self.bn2 = nn.Conv2d(9, 9, 3, padding=1, groups=3, bias=False), nn.BatchNorm2d(9)
        self.conv3, self.fc = nn.Conv2d(9, 17, (2, 1)), nn.Linear(17, 5)

    def forward(self, x):
        x = F.silu(self.bn1(self.conv1(x)))
        x = F.avg_pool2d(x + F.silu(self.bn2(self.conv2(x))), 3, 2, 1)
        x = F.max_pool2d(torch.tanh(self.conv3(x)), 2, ceil_mode=True)
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


class Wide(nn.Module):
    """Channels and images large enough for convolutions by fewer products."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 64, 3, stride=2, padding=1), nn.Conv2d(64, 64, 3, padding=1)
        self.conv3, self.norm = nn.Conv2d(64, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64)
        self.fc = nn.Linear(64, 5)

    def forward(self, x):
        x = torch.tanh(self.conv1(x))
        x = x + torch.tanh(self.norm(self.conv3(torch.tanh(self.conv2(x)))))
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


@dataclasses.dataclass
class Case:
    net: type
    optimizer: str          # spelled as on pockc's command line
    shape: tuple
    classes: int
    batch: int
    labels: type            # element type of labels.npy
    seed: int
    batches: int = 10       # in the file; steps go through them in order, again and again
    steps: int = 50
    tolerance: float = 1e-4
    data: str = ""          # one of datasets.SETS, else data made for this net
    mean: tuple = None      # of a channel, where the data are bytes: x / 255, then (x - mean) / std
    std: tuple = None
    scale = 1 / 255
    sizes: tuple = ()       # of the axes that the file leaves open behind the batch, by name
    inputs: tuple = ("x",)  # of nets that read tokens: ids, mask, types
    loss: str = "cross-entropy"
    flags: tuple = ()       # more for pockc compile
    opset: int = 13

    def is_text(self):
        return self.inputs != ("x",)

    def input_flags(self):
        """What else pockc compile must be told."""
        if not self.mean:
            return list(self.flags)
        return ["--input-scale", repr(self.scale), "--input-mean", ",".join(map(str, self.mean)),
                "--input-std", ",".join(map(str, self.std))]


def picture_case(net, optimizer, seed, shape=(3, 48, 48), classes=10, batch=8, data="pictures"):
    return Case(net, optimizer, shape, classes, batch, np.uint8, seed, batches=3, steps=30, tolerance=1e-3, data=data,
                mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))


def size_case(*sizes):
    return Case(AnySize, "sgd:lr=0.02,momentum=0.9", (3, *sizes), 5, 4, np.uint8, 14, batches=3, steps=30, tolerance=1e-3,
                sizes=sizes)


def encoder_with_dropout():
    numbers = iter(range(100))
    return text.Encoder(drop=lambda: Dropout(0.1, next(numbers)))


def text_case(net, seed, tokens, classes, inputs, optimizer, loss="cross-entropy", flags=(), opset=17, steps=11):
    return Case(net, optimizer, (tokens,), classes, 4, np.int64, seed, batches=3, steps=30, sizes=(steps,), inputs=inputs,
                loss=loss, flags=flags, opset=opset)


CASES = {
    "mlp": Case(Mlp, "adam:lr=0.001", (20,), 10, 16, np.int64, 14),
    "lenet": Case(LeNet, "sgd:lr=0.05", (1, 28, 28), 10, 8, np.uint8, 17),
    "bn_cnn": Case(BnCnn, "sgd:lr=0.002,momentum=0.9", (3, 19, 17), 7, 8, np.int32, 13),
    "mobile": Case(Mobile, "sgd:lr=0.006,momentum=0.9,weight_decay=0.001", (3, 32, 32), 10, 8, np.int64, 15),
    "dropped": Case(Dropped, "sgd:lr=0.05,momentum=0.9", (2, 9, 11), 6, 7, np.int64, 17),
    "twice": Case(Twice, "sgd:lr=0.1", (2, 11, 13), 5, 8, np.int64, 16),
    "wide": Case(Wide, "sgd:lr=0.05,momentum=0.9", (3, 33, 32), 5, 4, np.uint8, 18, batches=3, steps=30),
    "size_5x7": size_case(5, 7),
    "size_32x32": size_case(32, 32),
    "size_33x17": size_case(33, 17),
    "resnet18": picture_case(zoo.ResNet18, "sgd:lr=0.01,momentum=0.9,weight_decay=0.0001", 20),
    "vgg11_bn": picture_case(zoo.Vgg11Bn, "sgd:lr=0.01,momentum=0.9,weight_decay=0.0005", 21),
    "squeezenet": picture_case(zoo.SqueezeNet, "sgd:lr=0.01,momentum=0.9", 21),
    "mobilenet_v2": picture_case(zoo.MobileNetV2, "sgd:lr=0.005,momentum=0.9", 20),
    "mcunet": picture_case(zoo.McuNet, "sgd:lr=0.01,momentum=0.9,weight_decay=0.0001", 21),
    "mobilenet_v3_small": picture_case(zoo.MobileNetV3Small, "sgd:lr=0.006,momentum=0.9", 21),
    "shufflenet_v2": picture_case(zoo.ShuffleNetV2, "sgd:lr=0.005,momentum=0.9,nesterov=1", 21),
    "efficientnet_b0": picture_case(zoo.EfficientNetB0, "sgd:lr=0.0005,momentum=0.9", 20),
    "unet": picture_case(zoo.UNet, "sgd:lr=0.01,momentum=0.9", 31, (3, 18, 14), 3, 4, "scenes"),
    "ds_cnn": Case(zoo.DsCnn, "sgd:lr=0.05", (1, 49, 10), 12, 8, np.int32, 20, batches=3, steps=30, tolerance=1e-3,
                   data="keywords"),
    "tcn": Case(zoo.Tcn, "adamw:lr=0.002,weight_decay=0.01", (3, 53), 6, 8, np.int64, 20, batches=5, steps=30,
                tolerance=1e-3, data="motions"),
}


ENCODER_INPUTS = ("ids", "mask", "types")
TEXTS = {
    "encoder": text_case(encoder_with_dropout, 20, 61, 5, ENCODER_INPUTS, "sgd:lr=0.02,momentum=0.9"),
    "sentences": text_case(text.SentenceEncoder, 21, 61, 5, ENCODER_INPUTS, "sgd:lr=0.05,momentum=0.9", opset=13),
    "decoder": text_case(text.Decoder, 20, 53, 53, ("ids",), "sgd:lr=0.02,momentum=0.9", "causal-lm", opset=14),
    "rotary": text_case(text.RotaryDecoder, 20, 47, 47, ("ids", "mask"), "adamw:lr=0.003,weight_decay=0.01", "causal-lm",
                        ("--freeze", "inv_freq"), 14, 13),
}
ALL = {**CASES, **TEXTS}


def make_net(case, seed):
    """The net in float32, in eval mode. Batch norms start away from 0 and 1, so that a mixed-up one shows."""
    torch.manual_seed(seed)
    net = case.net().eval()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.8, 1.2)
            nn.init.uniform_(module.bias, *getattr(module, "shift", (-0.1, 0.2)))
            nn.init.uniform_(module.running_mean, -0.1, 0.1)
            nn.init.uniform_(module.running_var, 0.8, 1.2)
    return net


def make_tokens(case, seed):
    """Sentences of several lengths, of tokens that follow each other more often than by chance; the class is that of the
    first token. Of a decoder the labels are the tokens, but for padding and a few that do not count."""
    rng = np.random.default_rng(seed)
    count, (steps,), (tokens,) = case.batch * case.batches, case.sizes, case.shape
    ids = rng.integers(1, tokens, (count, steps))
    for t in range(1, steps):
        follows = rng.random(count) < 0.6
        ids[follows, t] = (ids[follows, t - 1] * 7 + 3) % (tokens - 1) + 1
    mask = np.arange(steps) < rng.integers(3, steps + 1, (count, 1))
    if case.loss == "causal-lm":
        mask = mask[:, ::-1]  # padding in front
    if "mask" in case.inputs:
        ids = np.where(mask, ids, 0)
    types = (np.arange(steps) > rng.integers(2, steps, (count, 1))).astype(np.int64)
    labels = ids[:, 0] % case.classes
    if case.loss == "causal-lm":
        kept = rng.random(ids.shape) < 0.9
        labels = np.where(mask & kept if "mask" in case.inputs else kept, ids, -100)
    arrays = {"ids": ids, "mask": mask.astype(np.int64), "types": types.astype(np.int32)}
    return {name: arrays[name] for name in case.inputs}, labels.astype(case.labels)


def make_data(case, seed):
    """Images that lean towards a pattern of their class, so that the loss has somewhere to go, or a shared set."""
    if case.is_text():
        return make_tokens(case, seed)
    if case.data:
        return datasets.SETS[case.data]()
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, case.classes, case.batch * case.batches)
    patterns = rng.standard_normal((case.classes, *case.shape))
    data = patterns[labels] + rng.standard_normal((len(labels), *case.shape))
    return data.astype("<f4"), labels.astype(case.labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    for name, case in ALL.items():
        count = sum(p.numel() for p in make_net(case, case.seed).parameters())
        print(f"{name}: {count} parameters, input {case.batch}x{'x'.join(map(str, case.sizes if case.is_text() else case.shape))}, {case.optimizer}")


if __name__ == "__main__":
    main()
