#!/usr/bin/python3
"""Record what PyTorch makes of nets with LoRA adapters, written by hand: losses in float64 and float32, and how far the
factors and what is trained beside them moved. For lora_test.cpp; nets, data and optimizers are those of record.py.

The folder lora/ beside this script receives for each net
  NAME.json          the scheme, and as in record.py's curve.json losses and float32's own distances
  NAME.safetensors   under pock's names the change of each trained tensor, and as "start/NAME" what each A starts from
"""
import argparse
import json
import math
import pathlib

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import nets
import record

HERE = pathlib.Path(__file__).resolve().parent
PREFIX = "base_model.model."


class Adapted(nn.Module):
    """base(x) + alpha / rank * B(A(dropped x)); `number` is the adapter's among all that is random."""

    def __init__(self, base, rank, alpha, dropout, number):
        super().__init__()
        self.base, self.scale, self.drop = base, alpha / rank, nets.Dropout(dropout, number) if dropout else nn.Identity()
        if isinstance(base, nn.Conv2d):
            self.lora_A = nn.Conv2d(base.in_channels, rank, base.kernel_size, base.stride, base.padding, base.dilation, bias=False)
            self.lora_B = nn.Conv2d(rank, base.out_channels, 1, bias=False)
        else:
            self.lora_A, self.lora_B = nn.Linear(base.in_features, rank, bias=False), nn.Linear(rank, base.out_features, bias=False)
        shape = self.lora_A.weight.shape
        count, bound = math.prod(shape), 1 / math.sqrt(math.prod(shape[1:]))
        blocks = np.arange((count + 3) // 4, dtype=np.uint64)
        words = nets.philox([0 * blocks, np.full_like(blocks, number), blocks, 0 * blocks], (0, 0))
        a = ((np.stack(words, 1).ravel()[:count] + 0.5) * 2.0**-31 - 1) * bound
        self.lora_A.weight.data = torch.from_numpy(a.astype(np.float32).reshape(shape))
        nn.init.zeros_(self.lora_B.weight)

    def forward(self, x):
        return self.base(x) + self.scale * self.lora_B(self.lora_A(self.drop(x)))


def layers_in_order(net, data):
    """Names of convolutions and linear layers, as they are called."""
    names, hooks = [], []
    for name, module in net.named_modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            hooks.append(module.register_forward_hook(lambda m, i, y, name=name: names.append(name)))
    with torch.no_grad():
        net.eval()(*data)
    for hook in hooks:
        hook.remove()
    for module in net.modules():
        if isinstance(module, nets.Dropout):
            module.steps = 0
    return names


def make(name, seed, data, dtype):
    """The net with adapters; by pock's names, what of it is trained."""
    case, scheme = nets.ALL[name], SCHEMES[name]
    net = nets.make_net(case, seed)
    numbers = sum(isinstance(m, nn.Dropout) for m in net.modules())
    layers = layers_in_order(net, [d[:case.batch] for d in data])
    trained = {}
    for module_name, module in net.named_modules():
        norm = isinstance(module, (nn.LayerNorm, nn.BatchNorm2d))
        for part, p in module.named_parameters(recurse=False):
            head = module_name == layers[-1]
            p.requires_grad_(head or (scheme["norms"] if norm else scheme["biases"] and part == "bias"))
            if p.requires_grad:
                trained[f"{module_name}.{part}"] = p
    for i, layer in enumerate(layers[:-1]):
        rank, alpha, dropout = scheme["of"](layer)
        parent, _, child = layer.rpartition(".")
        parent = net.get_submodule(parent)
        adapted = Adapted(getattr(parent, child), rank, alpha, dropout, numbers + i)
        setattr(parent, child, adapted)
        for part in ("lora_A", "lora_B"):
            trained[f"{PREFIX}{layer}.{part}.weight"] = getattr(adapted, part).weight
    net.to(dtype).train()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()
    return net, trained


def run(name, seed, dtype, data, labels, largest):
    case = nets.ALL[name]
    inputs = [torch.from_numpy(a) for a in data.values()] if case.is_text() else [record.prepared(case, data, dtype)]
    net, trained = make(name, seed, inputs if case.is_text() else [inputs[0].float()], dtype)
    start = {k: v.detach().clone() for k, v in trained.items()}
    x, y = list(zip(*(part.split(case.batch) for part in inputs))), torch.from_numpy(labels.astype(np.int64)).split(case.batch)
    optimizer, losses = record.make_optimizer(case.optimizer, list(trained.values())), []
    for step in range(case.steps):
        loss = F.cross_entropy(net(*x[step % case.batches]), y[step % case.batches])
        optimizer.zero_grad()
        loss.backward()
        for k, v in trained.items():
            largest[k] = max(largest.get(k, 0.0), v.grad.abs().max().item())
        optimizer.step()
        losses.append(loss.item())
    return losses, {k: v.detach().clone() for k, v in trained.items()}, start


def same(rank, alpha):
    return {"biases": False, "norms": False, "of": lambda layer: (rank, alpha, 0.0)}


SCHEMES = {
    "lenet": {"pock": "lora:4", **same(4, 8)},
    "bn_cnn": {"pock": "lora:3", **same(3, 8)},
    "encoder": {"pock": "lora.toml", "biases": True, "norms": True,
                "of": lambda layer: (2, 8, 0.0) if layer.endswith(".query") else (4, 16, 0.1)},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    torch.set_num_threads(1)
    (HERE / "lora").mkdir(exist_ok=True)
    for name, scheme in SCHEMES.items():
        case = nets.ALL[name]
        data, labels = nets.make_data(case, case.seed)
        largest = {}
        run64, run32 = (run(name, case.seed, dtype, data, labels, seen)
                        for dtype, seen in ((torch.float64, largest), (torch.float32, {})))
        curve, tensors = record.distance(run64, run32, run64[2])
        moved = {k: (v - run64[2][k]).to(torch.float32).numpy() for k, v in run64[1].items()}
        moved.update({f"start/{k}": v.to(torch.float32).numpy() for k, v in run64[2].items() if "lora_A" in k})
        record.write_safetensors(HERE / "lora" / f"{name}.safetensors", moved)
        (HERE / "lora" / f"{name}.json").write_text(json.dumps(
            {"scheme": scheme["pock"], "loss64": run64[0], "loss32": run32[0], "zero_gradient": record.zero_gradient(largest),
             "tensor_distance32": tensors}, indent=1) + "\n")
        print(f"{name}: loss {run64[0][0]:.4f} -> {run64[0][-1]:.4f}, float32 is off by {curve:.1e} (loss), {max(tensors.values()):.1e}")


if __name__ == "__main__":
    main()
