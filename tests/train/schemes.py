"""What each sparse scheme trains, said once more for PyTorch's modules: of each parameter a mask of the elements that move."""
import math

import torch
from torch import nn

LAYERS = (nn.Conv2d, nn.Linear)
NORMS = (nn.BatchNorm2d, nn.LayerNorm)
SCHEMES = {
    "resnet18": ("bias-only", "last:4", "quarter"),
    "mobilenet_v2": ("bias-only", "last:4", "quarter", "expand-convs:6"),
    "mcunet": ("bias-only", "last:4", "quarter", "expand-convs:6"),
    "encoder": ("bias-only", "last:4", "quarter", "attention:2"),
}


def in_order(net, inputs):
    """Layers and normalisations as they run, by name."""
    found = []
    for name, module in net.named_modules():
        if isinstance(module, LAYERS + NORMS):
            module.register_forward_hook(lambda m, i, y, name=name: found.append((name, m)))
    with torch.no_grad():
        net.eval()(*inputs)
    return list(found)


def whole(names):
    return dict.fromkeys(names, slice(None))


def of(layers, *kinds):
    return whole(f"{name}.{kind}" for name, m in layers for kind in kinds if getattr(m, kind, None) is not None)


def largest_quarter(w):
    """A quarter of the input channels, those with the largest sum of squares; of a depthwise filter, of its channels."""
    axis = 1 if w.size(1) > 1 else 0
    squares = w.detach().double().pow(2).sum([i for i in range(w.dim()) if i != axis])
    chosen = squares.argsort(descending=True, stable=True)[:max(1, squares.numel() // 4)]
    mask = torch.zeros_like(w, dtype=torch.bool)
    mask.index_fill_(axis, chosen, True)
    return mask


def expand_convs(found, blocks):
    layers = [i for i, (_, m) in enumerate(found) if isinstance(m, LAYERS)]
    convs = [(i, found[i][1]) for i in layers if isinstance(found[i][1], nn.Conv2d)]
    expands = [found[i] for (i, a), (_, b) in zip(convs, convs[1:])
               if a.kernel_size == (1, 1) and a.groups == 1 and b.groups == b.in_channels > 1]
    trained = of(expands[-blocks:], "weight")
    for i in layers[-math.ceil(len(layers) / 3):]:
        name, m = found[i]
        trained.update(of([(name, m)], "bias") if m.bias is not None else of([found[i + 1]], "bias"))
    return trained


def masks(scheme, net, inputs):
    """By name of a parameter, what of it is trained: an index of its elements. What is not there is frozen. Runs the net."""
    found = in_order(net, inputs)
    layers = [(name, m) for name, m in found if isinstance(m, LAYERS)]
    norms = [(name, m) for name, m in found if isinstance(m, NORMS)]
    kind, _, count = scheme.partition(":")
    if kind == "full":
        return whole(name for name, _ in net.named_parameters())
    head = of(layers[-1:], "weight", "bias")
    if kind == "bias-only":
        return {**head, **of(layers, "bias")}
    if kind == "last":
        return of(layers[-int(count):], "weight", "bias")
    if kind == "quarter":
        return {**of(layers, "bias"), **of(norms, "weight", "bias"),
                **{f"{name}.weight": largest_quarter(m.weight) for name, m in layers}}
    if kind == "expand-convs":
        return {**head, **expand_convs(found, int(count))}
    if kind == "attention":
        wanted = [(f"layers.{i}.{part}", None) for i in range(len(net.layers))[-int(count):] for part in
                  ("query", "key", "value", "up")]
        return {**head, **whole(f"{name}.{kind}" for name, _ in wanted for kind in ("weight", "bias"))}
    raise ValueError(scheme)


class Part:
    """Trains a part of a net: norms whose scale is frozen use their running statistics, and what is frozen is put back."""

    def __init__(self, net, trained):
        self.rest = []
        for name, p in net.named_parameters():
            frozen = torch.ones_like(p, dtype=torch.bool)
            if name in trained:
                frozen[trained[name]] = False
            self.rest.append((p, frozen, p.detach().clone()))
        for name, module in net.named_modules():
            if isinstance(module, nn.BatchNorm2d) and f"{name}.weight" not in trained:
                module.eval()

    def put_back(self):
        with torch.no_grad():
            for p, frozen, before in self.rest:
                p[frozen] = before[frozen]
