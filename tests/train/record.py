#!/usr/bin/python3
"""Record what PyTorch makes of each net in nets.py: 50 training steps in float64, and the same in float32.

For each net a folder beside this script receives
  model.onnx             the net before the first step, batch axis "N", batch norm kept
  data.npy, labels.npy   its batches, used in file order without shuffling, again and again; nets that look at the same
                         pictures share those in data/
  curve.json             loss of each step in both precisions, float32's own distance from float64, and how to compile
  change.safetensors     how far float64 moved each trained tensor and running statistic, under its initializer's name
  schemes.json           trained tensors, losses and how far tensors moved where a sparse scheme trains a part
data.npy is a file for each input instead, where there are several. The loss is the mean cross-entropy (of a decoder, with
the token that follows); all batch norms are in training mode, where PyTorch's running variance is unbiased.
curve.json also names the tensors whose float64 gradient is zero but for rounding ("zero_gradient").

--try N looks for seeds instead: it prints the distances for N seeds of a net and writes nothing. "shaken" is the worst of
several float64 runs whose layer outputs are disturbed by 2e-7 of their size. Choose a seed where both are small: there no
relu or max pool stands so near its kink that another order of a sum decides it differently.
"""
import argparse
import json
import pathlib
import struct

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch.nn import functional as F

import nets
import schemes

HERE = pathlib.Path(__file__).resolve().parent


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(a.tobytes() for a in tensors.values()))


def export_text(case, net, path):
    net.training = True
    for module in net.modules():
        module.training |= isinstance(module, torch.nn.Dropout)
    open_axes = {0: "N", 1: "H"}
    data, _ = nets.make_data(case, 0)
    torch.onnx.export(net, tuple(torch.from_numpy(a[:2]) for a in data.values()), str(path), opset_version=case.opset,
                      training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False, input_names=list(data),
                      output_names=["logits"], dynamic_axes={**{k: open_axes for k in data}, "logits": {0: "N"}})
    model = onnx.load(str(path))
    onnx.checker.check_model(model)
    stored = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    wanted = {k: v.numpy() for k, v in state(net).items()}
    if any(k not in stored or not np.array_equal(stored[k], v) for k, v in wanted.items()):
        raise SystemExit(f"{path}: initializers differ from the net's tensors")


def export(case, net, path):
    # Equal tensors stay separate initializers only if the outermost module says it is training; see also
    # examples/fashion-mnist/export.py. The batch norms inside stay in eval mode.
    net.training = True
    for module in net.modules():
        module.training |= isinstance(module, torch.nn.Dropout)
    open_axes = {0: "N", **{2 + i: "HW"[i] for i in range(len(case.sizes))}}
    torch.onnx.export(net, torch.zeros(2, *case.shape), str(path), opset_version=13,
                      training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False,
                      input_names=["x"], output_names=["logits"], dynamic_axes={"x": open_axes, "logits": {0: "N"}})
    model = onnx.load(str(path))
    onnx.checker.check_model(model)
    stored = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    wanted = {k: v.numpy() for k, v in state(net).items()}
    if stored.keys() != wanted.keys() or any(not np.array_equal(stored[k], v) for k, v in wanted.items()):
        raise SystemExit(f"{path}: initializers differ from the net's tensors: {stored.keys() ^ wanted.keys()}")
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d) and module.training:
            raise SystemExit(f"{path}: a batch norm was exported in training mode")


def state(net):
    """Parameters, each once, and running statistics."""
    tensors = {**dict(net.named_parameters()), **{k: v for k, v in net.named_buffers() if ".running_" in k}}
    return {k: v.detach().clone() for k, v in net.state_dict().items() if k in tensors}


def make_optimizer(text, parameters):
    kind, _, rest = text.partition(":")
    values = {k: float(v) for k, v in (item.split("=") for item in rest.split(","))}
    return {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}[kind](parameters, **values)


def prepared(case, data, dtype):
    """What the trainer makes of bytes, in this precision; floats are as they are."""
    x = torch.from_numpy(data).to(dtype)
    if case.mean:
        mean, std = (torch.tensor(v, dtype=dtype).view(-1, 1, 1) for v in (case.mean, case.std))
        x = (x * torch.tensor(case.scale, dtype=dtype) - mean) / std
    return x


def batches(case, data, dtype):
    inputs = [torch.from_numpy(a) for a in data.values()] if case.is_text() else [prepared(case, data, dtype)]
    return list(zip(*(part.split(case.batch) for part in inputs)))


def train(case, seed, dtype, data, labels, shake=None, largest=None, scheme=None):
    """Losses and final tensors. `shake` seeds a disturbance of layer outputs; `largest` collects largest gradients; with a
    sparse scheme only what it trains moves."""
    net = nets.make_net(case, seed).to(dtype).train()
    if shake is not None:
        torch.manual_seed(shake)
        for module in net.modules():
            if not list(module.children()):
                module.register_forward_hook(lambda m, i, y: y + 2e-7 * y.detach().std() * torch.randn_like(y))
    x = batches(case, data, dtype)
    y = torch.from_numpy(labels.astype(np.int64)).split(case.batch)
    part = schemes.Part(net, schemes.masks(scheme, nets.make_net(case, seed), batches(case, data, torch.float32)[0])) if scheme else None
    optimizer, losses = make_optimizer(case.optimizer, net.parameters()), []
    for step in range(case.steps):
        scores, labels_now = net(*x[step % case.batches]), y[step % case.batches]
        if case.loss == "causal-lm":
            scores, labels_now = scores[:, :-1].flatten(0, 1), labels_now[:, 1:].flatten()
        loss = F.cross_entropy(scores, labels_now)
        optimizer.zero_grad()
        loss.backward()
        if largest is not None:
            for name, p in net.named_parameters():
                largest[name] = max(largest.get(name, 0.0), p.grad.abs().max().item())
        optimizer.step()
        if part:
            part.put_back()
        losses.append(loss.item())
    return losses, state(net)


def distance(reference, other, before):
    """Worst relative distance of the loss over all steps; distance of each tensor against how far it moved."""
    curve = max(abs(a - b) / abs(a) for a, b in zip(reference[0], other[0]))
    moved = {k: (v - before[k]).abs().max().item() for k, v in reference[1].items()}
    return curve, {k: (other[1][k] - v).abs().max().item() / moved[k] if moved[k] else 0.0 for k, v in reference[1].items()}


def record(name, seed, run64, run32, largest, before):
    case = nets.ALL[name]
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    (export_text if case.is_text() else export)(case, nets.make_net(case, seed), folder / "model.onnx")
    shared = HERE / "data" / case.data if case.data else folder
    if not case.data:
        data, labels = nets.make_data(case, seed)
        for kind, array in {**(data if case.is_text() else {"data": data}), "labels": labels}.items():
            np.save(shared / f"{kind}.npy", array)
    write_safetensors(folder / "change.safetensors", {k: (v - before[k]).to(torch.float32).numpy() for k, v in run64[1].items()})
    curve, tensors = distance(run64, run32, before)
    (folder / "curve.json").write_text(json.dumps(
        {"data": str(shared.relative_to(HERE)), "sizes": dict(zip("HW", case.sizes)),
         "inputs": case.inputs if case.is_text() else [], "loss": case.loss,
         "input_flags": case.input_flags(), "optimizer": case.optimizer, "batch": case.batch, "steps": case.steps,
         "tolerance": case.tolerance, "loss64": run64[0], "loss32": run32[0], "zero_gradient": zero_gradient(largest),
         "curve_distance32": curve, "tensor_distance32": tensors}, indent=1) + "\n")


def record_schemes(name, shakes):
    """Of each sparse scheme: what it trains, the losses, and how far each tensor moved (the root of the sum of squares): in
    float64, and how far float32 and disturbed runs are off. Tensors that rounding alone moves are left out of the latter."""
    case, curves = nets.ALL[name], {}
    data, labels = nets.make_data(case, case.seed)
    before = state(nets.make_net(case, case.seed))
    for scheme in schemes.SCHEMES.get(name, ()):
        largest, runs = {}, []
        for dtype, shake in ((torch.float64, None), (torch.float32, None), *((torch.float64, i) for i in range(shakes))):
            losses, after = train(case, case.seed, dtype, data, labels, shake, largest if not runs else None, scheme)
            runs.append((losses, {k: (v.double() - before[k].double()).norm().item() for k, v in after.items()}))
        (loss64, moved), (loss32, _), *_ = runs
        moved = {k: v for k, v in moved.items() if v > 0 and k not in zero_gradient(largest)}
        off = {k: max(abs(other[k] - v) for _, other in runs[1:]) for k, v in moved.items()}
        net = nets.make_net(case, case.seed)
        curves[scheme] = {"trained": sorted(schemes.masks(scheme, net, batches(case, data, torch.float32)[0])),
                          "loss64": loss64, "loss32": loss32, "moved": moved, "moved_off": off}
        top = max(moved, key=lambda k: off[k] / moved[k])
        print(f"{name} {scheme}: {len(moved)} tensors, loss {loss64[0]:.4f} -> {np.mean(loss64[-10:]):.4f}, float32 is off by "
              f"{max(abs(a - b) / abs(a) for a, b in zip(loss64, loss32)):.1e}, tensors by {off[top] / moved[top]:.1e} ({top})", flush=True)
    if curves:
        (HERE / name / "schemes.json").write_text(json.dumps(curves, indent=1) + "\n")


def zero_gradient(largest):
    return [k for k, v in largest.items() if v < 1e-10 * max(largest.values())]


def study(name, seed, write, shakes):
    case = nets.ALL[name]
    data, labels = nets.make_data(case, seed)
    before, largest = state(nets.make_net(case, seed)), {}
    run64 = train(case, seed, torch.float64, data, labels, largest=largest)
    run32 = train(case, seed, torch.float32, data, labels)
    zero = zero_gradient(largest)

    def worst(run):
        curve, tensors = distance(run64, run, before)
        rest = {k: v for k, v in tensors.items() if k not in zero}
        top = max(rest, key=rest.get)
        return curve, rest[top], top

    curve, tensor, top = worst(run32)
    shaken = [worst(train(case, seed, torch.float64, data, labels, shake=i)) for i in range(shakes)]
    print(f"{name} seed {seed}: loss {run64[0][0]:.4f} -> {np.mean(run64[0][-10:]):.4f}, float32 is off by {curve:.1e} (loss), "
          f"{tensor:.1e} ({top}); shaken {max((s[0] for s in shaken), default=0):.1e}, {max((s[1] for s in shaken), default=0):.1e}; "
          f"zero gradient: {' '.join(zero) or 'none'}", flush=True)
    if write:
        record(name, seed, run64, run32, largest, before)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("net", nargs="*", help="nets to record (default: all)")
    parser.add_argument("--schemes", action="store_true", help="only what the sparse schemes of schemes.py make of the nets")
    parser.add_argument("--try", type=int, default=0, metavar="N", dest="tries", help="only try N seeds for each net")
    parser.add_argument("--shakes", type=int, default=4, metavar="N", help="disturbed runs for each seed (default 4)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name in args.net or nets.ALL:
        case = nets.ALL[name]
        for seed in [] if args.schemes else range(case.seed, case.seed + max(1, args.tries)):
            study(name, seed, not args.tries, args.shakes)
        if not args.tries:
            record_schemes(name, args.shakes)


if __name__ == "__main__":
    main()
