#!/usr/bin/python3
"""Well-known architectures in small, for tests/train: every kind of block, stride and activation of the original with fewer
channels, and fewer repeats where a repeat adds nothing new. Dropout is left out.

    python3 tests/train/zoo.py     lists them with their sizes and the operators that their export uses

Written from the papers: ResNet (He 2015), VGG (Simonyan 2014) with batch norm, SqueezeNet 1.1 (Iandola 2016), MobileNetV2
(Sandler 2018), MobileNetV3 (Howard 2019), ShuffleNetV2 (Ma 2018), EfficientNet (Tan 2019), U-Net (Ronneberger 2015), DS-CNN
for keyword spotting (Zhang 2017), MCUNet (Lin 2020), temporal convolutional network (Bai 2018).
"""
import pathlib
import sys

import torch
from torch import nn
from torch.nn import functional as F

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "models"))
import mcunet  # noqa: E402

KINKS = {nn.ReLU: (1.2, 2.4), nn.ReLU6: (1.4, 4.6)}


def conv_norm(cin, cout, kernel, stride=1, groups=1, act=None, eps=1e-5, momentum=0.1):
    conv = nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, norm_for(act, cout, eps, momentum), *([act()] if act else []))


def norm_for(act, channels, eps=1e-5, momentum=0.1):
    """Its shift starts (nets.make_net) where an activation with kinks still takes both ways, but seldom meets a kink: in
    these narrow nets one value that another order of a sum puts on the other side changes the gradient of a whole layer."""
    norm = nn.BatchNorm2d(channels, eps, momentum)
    if act in KINKS:
        norm.shift = KINKS[act]
    return norm


class BasicBlock(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1, self.conv2 = conv_norm(cin, cout, 3, stride, act=nn.ReLU), conv_norm(cout, cout, 3)
        self.downsample = conv_norm(cin, cout, 1, stride) if stride != 1 or cin != cout else nn.Identity()

    def forward(self, x):
        return F.relu(self.conv2(self.conv1(x)) + self.downsample(x))


class ResNet18(nn.Module):
    """All eight blocks; 3 to 24 channels instead of 64 to 512."""

    def __init__(self, width=3, classes=10):
        super().__init__()
        self.stem, blocks, cin = conv_norm(3, width, 7, 2, act=nn.ReLU), [], width
        for stage in range(4):
            for i in range(2):
                cout = width << stage
                blocks.append(BasicBlock(cin, cout, 2 if i == 0 and stage else 1))
                cin = cout
        self.blocks, self.fc = nn.Sequential(*blocks), nn.Linear(cin, classes)

    def forward(self, x):
        x = self.blocks(F.max_pool2d(self.stem(x), 3, 2, 1))
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


class Vgg11Bn(nn.Module):
    """All eight convolutions, which have biases in front of their batch norms, and three linear layers."""

    def __init__(self, classes=10):
        super().__init__()
        layers, cin = [], 3
        for item in (3, "M", 6, "M", 13, 13, "M", 26, 26, "M", 26, 26, "M"):
            if item == "M":
                layers.append(nn.MaxPool2d(2, 2))
            else:
                layers += [nn.Conv2d(cin, item, 3, padding=1), norm_for(nn.ReLU, item), nn.ReLU()]
                cin = item
        self.features, self.avgpool = nn.Sequential(*layers), nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Linear(cin, 40), nn.ReLU(), nn.Linear(40, 33), nn.ReLU(), nn.Linear(33, classes))

    def forward(self, x):
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


class InvertedResidual(nn.Module):
    """Expand, depthwise, perhaps squeeze and excite, project; joined to the input where the shapes agree."""

    def __init__(self, cin, mid, cout, kernel, stride, act, excite=None, eps=1e-5, momentum=0.1):
        super().__init__()
        self.join = stride == 1 and cin == cout
        kind = dict(eps=eps, momentum=momentum)
        self.expand = conv_norm(cin, mid, 1, act=act, **kind) if mid != cin else nn.Identity()
        self.depthwise = conv_norm(mid, mid, kernel, stride, groups=mid, act=act, **kind)
        self.excite = excite(mid) if excite else nn.Identity()
        self.project = conv_norm(mid, cout, 1, **kind)

    def forward(self, x):
        y = self.project(self.excite(self.depthwise(self.expand(x))))
        return x + y if self.join else y


class SqueezeExcite(nn.Module):
    def __init__(self, channels, squeezed, act, gate):
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)
        self.act, self.gate = act(), gate()

    def forward(self, x):
        return x * self.gate(self.fc2(self.act(self.fc1(F.adaptive_avg_pool2d(x, 1)))))


class MobileNetV2(nn.Module):
    """All seven stages, at most two blocks each."""

    def __init__(self, classes=10):
        super().__init__()
        blocks, cin = [], 5
        for expand, cout, count, stride in ((1, 3, 1, 1), (6, 4, 2, 2), (6, 5, 2, 2), (6, 9, 2, 2), (6, 13, 2, 1),
                                            (6, 17, 2, 2), (6, 24, 1, 1)):
            for i in range(count):
                blocks.append(InvertedResidual(cin, cin * expand, cout, 3, stride if i == 0 else 1, nn.ReLU6))
                cin = cout
        self.features = nn.Sequential(conv_norm(3, 5, 3, 2, act=nn.ReLU6), *blocks, conv_norm(cin, 64, 1, act=nn.ReLU6))
        self.classifier = nn.Linear(64, classes)

    def forward(self, x):
        return self.classifier(self.features(x).mean([2, 3]))


class McuNet(nn.Module):
    """The 42 convolutions of tests/models/mcunet.py, with biases and no batch norm, at a quarter of the channels."""

    def __init__(self, classes=10):
        super().__init__()

        def conv(cin, cout, kernel, stride=1, groups=1, act=True):
            # The bias takes the place of a batch norm's shift in front of the activation.
            layer = nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups)
            nn.init.kaiming_normal_(layer.weight, nonlinearity="linear")
            layer.weight.data *= 0.6 if act else 1
            nn.init.uniform_(layer.bias, *((1.4, 3.0) if act else (-0.1, 0.1)))
            return nn.Sequential(layer, nn.ReLU6()) if act else layer

        blocks, cin = [], 4
        for i, (mid, cout, kernel, stride) in enumerate(mcunet.BLOCKS):
            mid, cout = mid // 4 + (i > 0), cout // 4
            blocks.append(nn.ModuleList([conv(cin, mid, 1) if i else nn.Identity(), conv(mid, mid, kernel, stride, mid),
                                         conv(mid, cout, 1, act=False)]))
            blocks[-1].join = stride == 1 and cin == cout
            cin = cout
        self.stem, self.blocks, self.classifier = conv(3, 4, 3, 2), nn.ModuleList(blocks), nn.Linear(cin, classes)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            y = block[2](block[1](block[0](x)))
            x = x + y if block.join else y
        return self.classifier(x.mean([2, 3]))


class MobileNetV3Small(nn.Module):
    """All eleven blocks of the table, at an eighth of the channels."""

    def __init__(self, classes=10):
        super().__init__()
        table = ((3, 5, 5, True, nn.ReLU, 2), (3, 9, 4, False, nn.ReLU, 2), (3, 11, 4, False, nn.ReLU, 1),
                 (5, 12, 5, True, nn.Hardswish, 2), (5, 30, 5, True, nn.Hardswish, 1), (5, 30, 5, True, nn.Hardswish, 1),
                 (5, 15, 6, True, nn.Hardswish, 1), (5, 18, 6, True, nn.Hardswish, 1), (5, 36, 12, True, nn.Hardswish, 2),
                 (5, 72, 12, True, nn.Hardswish, 1), (5, 72, 12, True, nn.Hardswish, 1))
        norm = dict(eps=1e-3, momentum=0.01)

        def excite(channels):
            return SqueezeExcite(channels, max(3, channels // 4), nn.ReLU, nn.Hardsigmoid)

        blocks, cin = [], 5
        for kernel, mid, cout, excites, act, stride in table:
            blocks.append(InvertedResidual(cin, mid, cout, kernel, stride, act, excite if excites else None, **norm))
            cin = cout
        self.features = nn.Sequential(conv_norm(3, 5, 3, 2, act=nn.Hardswish, **norm), *blocks,
                                      conv_norm(cin, 72, 1, act=nn.Hardswish, **norm))
        self.classifier = nn.Sequential(nn.Linear(72, 50), nn.Hardswish(), nn.Linear(50, classes))

    def forward(self, x):
        return self.classifier(torch.flatten(F.adaptive_avg_pool2d(self.features(x), 1), 1))


class Fire(nn.Module):
    def __init__(self, cin, squeeze, expand):
        super().__init__()
        self.squeeze = nn.Conv2d(cin, squeeze, 1)
        self.expand1, self.expand3 = nn.Conv2d(squeeze, expand, 1), nn.Conv2d(squeeze, expand, 3, padding=1)

    def forward(self, x):
        x = F.relu(self.squeeze(x))
        return torch.cat([F.relu(self.expand1(x)), F.relu(self.expand3(x))], 1)


class SqueezeNet(nn.Module):
    """All eight fire modules, pools with ceil_mode, and a convolution as classifier."""

    def __init__(self, classes=10):
        super().__init__()

        def pool():
            return nn.MaxPool2d(3, 2, ceil_mode=True)

        self.features = nn.Sequential(nn.Conv2d(3, 9, 3, 2), nn.ReLU(), pool(), Fire(9, 4, 8), Fire(16, 4, 8), pool(),
                                      Fire(16, 6, 13), Fire(26, 6, 13), pool(), Fire(26, 8, 17), Fire(34, 8, 17),
                                      Fire(34, 10, 21), Fire(42, 10, 21))
        self.classifier = nn.Conv2d(42, classes, 1)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_uniform_(module.weight)

    def forward(self, x):
        return torch.flatten(F.adaptive_avg_pool2d(F.relu(self.classifier(self.features(x))), 1), 1)


def shuffle(x, groups):
    n, c, h, w = x.shape
    return x.view(n, groups, c // groups, h, w).transpose(1, 2).reshape(n, c, h, w)


class ShuffleUnit(nn.Module):
    """Half of the channels pass by; with stride 2 all go both ways."""

    def __init__(self, cin, cout, stride):
        super().__init__()
        self.stride, half = stride, cout // 2
        if stride == 2:
            self.left = nn.Sequential(conv_norm(cin, cin, 3, 2, groups=cin), conv_norm(cin, half, 1, act=nn.ReLU))
        inside = cin if stride == 2 else half
        self.right = nn.Sequential(conv_norm(inside, half, 1, act=nn.ReLU), conv_norm(half, half, 3, stride, groups=half),
                                   conv_norm(half, half, 1, act=nn.ReLU))

    def forward(self, x):
        if self.stride == 2:
            return shuffle(torch.cat([self.left(x), self.right(x)], 1), 2)
        left, right = x.chunk(2, 1)
        return shuffle(torch.cat([left, self.right(right)], 1), 2)


class ShuffleNetV2(nn.Module):
    """All three stages, with two, three and two units."""

    def __init__(self, classes=10):
        super().__init__()
        units, cin = [], 7
        for cout, count in ((14, 2), (22, 3), (38, 2)):
            for i in range(count):
                units.append(ShuffleUnit(cin, cout, 2 if i == 0 else 1))
                cin = cout
        self.stem, self.units = conv_norm(3, 7, 3, 2, act=nn.ReLU), nn.Sequential(*units)
        self.head, self.fc = conv_norm(cin, 50, 1, act=nn.ReLU), nn.Linear(50, classes)

    def forward(self, x):
        return self.fc(self.head(self.units(F.max_pool2d(self.stem(x), 3, 2, 1))).mean([2, 3]))


class EfficientNetB0(nn.Module):
    """All seven stages, at most two blocks each. A block squeezes to a quarter of its input's channels."""

    def __init__(self, classes=10):
        super().__init__()
        norm, blocks, cin = dict(eps=1e-3, momentum=0.01), [], 5
        for expand, kernel, stride, cout, count in ((1, 3, 1, 3, 1), (6, 3, 2, 4, 2), (6, 5, 2, 5, 2), (6, 3, 2, 8, 2),
                                                    (6, 5, 1, 10, 2), (6, 5, 2, 14, 2), (6, 3, 1, 20, 1)):
            for i in range(count):
                squeezed = max(2, cin // 4)
                blocks.append(InvertedResidual(cin, cin * expand, cout, kernel, stride if i == 0 else 1, nn.SiLU,
                                               lambda c, s=squeezed: SqueezeExcite(c, s, nn.SiLU, nn.Sigmoid), **norm))
                cin = cout
        self.features = nn.Sequential(conv_norm(3, 5, 3, 2, act=nn.SiLU, **norm), *blocks,
                                      conv_norm(cin, 70, 1, act=nn.SiLU, **norm))
        self.classifier = nn.Linear(70, classes)

    def forward(self, x):
        return self.classifier(torch.flatten(F.adaptive_avg_pool2d(self.features(x), 1), 1))


class DoubleConv(nn.Sequential):
    def __init__(self, cin, cout):
        super().__init__(conv_norm(cin, cout, 3, act=nn.ReLU), conv_norm(cout, cout, 3, act=nn.ReLU))


class UNet(nn.Module):
    """Three levels; up again by bilinear and by nearest neighbours, to sizes that are odd; a score for each pixel."""

    def __init__(self, classes=3):
        super().__init__()
        self.down1, self.down2, self.bottom = DoubleConv(3, 6), DoubleConv(6, 11), DoubleConv(11, 19)
        self.up2, self.up1 = DoubleConv(19 + 11, 11), DoubleConv(11 + 6, 6)
        self.head = nn.Conv2d(6, classes, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.bottom(F.max_pool2d(b, 2))
        c = F.interpolate(c, size=b.shape[2:], mode="bilinear", align_corners=False)
        b = self.up2(torch.cat([b, c], 1))
        b = F.interpolate(b, scale_factor=2, mode="nearest")
        return self.head(self.up1(torch.cat([a, b], 1)))


class DsCnn(nn.Module):
    """Keyword spotting from ten cepstral coefficients of 49 frames: four depthwise separable blocks."""

    def __init__(self, channels=20, classes=12):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, channels, (10, 4), 2, (5, 1), bias=False), norm_for(nn.ReLU, channels), nn.ReLU())
        self.blocks = nn.Sequential(*(layer for _ in range(4) for layer in (
            conv_norm(channels, channels, 3, groups=channels, act=nn.ReLU), conv_norm(channels, channels, 1, act=nn.ReLU))))
        self.fc = nn.Linear(channels, classes)

    def forward(self, x):
        x = self.blocks(self.stem(x))
        return self.fc(torch.flatten(F.avg_pool2d(x, (25, 5)), 1))


class TemporalBlock(nn.Module):
    """Two causal convolutions with weight norm: padded on both sides, then cut at the end."""

    def __init__(self, cin, cout, dilation, kernel=3):
        super().__init__()
        self.cut = (kernel - 1) * dilation
        self.conv1 = nn.utils.weight_norm(nn.Conv1d(cin, cout, kernel, padding=self.cut, dilation=dilation))
        self.conv2 = nn.utils.weight_norm(nn.Conv1d(cout, cout, kernel, padding=self.cut, dilation=dilation))
        self.downsample = nn.Conv1d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x):
        y = F.relu(self.conv1(x)[:, :, :-self.cut])
        y = F.relu(self.conv2(y)[:, :, :-self.cut])
        return F.relu(y + self.downsample(x))


class Tcn(nn.Module):
    """Four blocks with dilations 1, 2, 4 and 8; the class is read off the last moment."""

    def __init__(self, channels=3, classes=6):
        super().__init__()
        self.blocks = nn.Sequential(*(TemporalBlock(channels if i == 0 else 13, 13, 1 << i) for i in range(4)))
        self.fc = nn.Linear(13, classes)

    def forward(self, x):
        return self.fc(self.blocks(x)[:, :, -1])
