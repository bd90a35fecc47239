#!/usr/bin/python3
"""Measures the kernels of single layers on one thread of this machine, against its FMA peak and memory.

    kernels.py                              all of LAYERS, the epilogue and the optimizer's pass
    kernels.py --write docs/performance.md  and puts the rows into that document's table

Each layer is a net of its own, trained with SGD and momentum, behind a trained bias so that it has a gradient for its input,
without fusion and Winograd, so that kernels are pure and do the operations that are counted. `pockc bench` measures it (--runs
times, the best counts) and counts the
operations: multiplies and adds of taps that are there. Needs Debian's python3-onnx and python3-numpy.
"""
import argparse
import dataclasses
import functools
import json
import os
import pathlib
import tempfile

import numpy as np
import onnx
from onnx import helper, numpy_helper

import compare
from recipe import POCKC

HEADS = ("layer", "forward", "input gradient", "weight gradient", "wanted", "reached", "commit")


@dataclasses.dataclass(frozen=True)
class Layer:
    """A convolution of a square image, or with kernel 0 a product of a batch of rows."""
    cin: int
    cout: int
    size: int
    wanted: tuple  # % of the peak: forward, input gradient, weight gradient
    kernel: int = 1
    stride: int = 1
    batch: int = 1
    depthwise: bool = False

    @property
    def name(self):
        if self.kernel == 0:
            return f"{self.batch}x{self.cin} by {self.cin}x{self.cout}"
        channels = self.cin if self.depthwise else f"{self.cin} to {self.cout}"
        return (f"{'depthwise ' if self.depthwise else ''}{self.kernel}x{self.kernel}, {channels} @{self.size}"
                f"{f', stride {self.stride}' if self.stride > 1 else ''}{f', batch {self.batch}' if self.batch > 1 else ''}")


def product(n, wanted):
    return Layer(n, n, 0, wanted, kernel=0, batch=n)


def depthwise(channels, size, wanted, kernel=3, stride=1):
    return Layer(channels, channels, size, wanted, kernel, stride, depthwise=True)


LAYERS = [product(384, (90, 90, 90)), product(960, (85, 85, 85)),
          Layer(64, 64, 56, (90, 90, 90)), Layer(96, 576, 14, (90, 90, 90)), Layer(160, 960, 14, (90, 90, 90)),
          Layer(256, 256, 28, (90, 90, 90)),
          Layer(24, 72, 56, (80, 80, 70)), Layer(40, 120, 28, (80, 80, 70)), Layer(72, 24, 28, (80, 80, 70)),
          Layer(64, 64, 56, (88, 88, 88), kernel=3), Layer(128, 128, 28, (88, 88, 88), kernel=3),
          Layer(256, 256, 14, (88, 88, 88), kernel=3),
          depthwise(32, 112, (66, 66, 85)), depthwise(144, 56, (66, 66, 85)), depthwise(384, 14, (66, 66, 85)),
          depthwise(96, 56, (36, 45, 50), stride=2), depthwise(192, 28, (36, 45, 50), stride=2),
          depthwise(128, 16, (0, 0, 60), kernel=5), depthwise(64, 32, (0, 0, 60), kernel=7),
          depthwise(192, 16, (0, 0, 60), kernel=7)]
EPILOGUE = Layer(96, 576, 14, (), kernel=1)  # bias and relu6 behind it
MOST_OF_EPILOGUE = 3   # % of the kernel's time
UPDATE = Layer(4096, 4096, 0, (), kernel=0, batch=1)
UPDATE_WANTED = 85     # % of the bandwidth of y = a * x + b


def save(layer, path, epilogue=False):
    rng = np.random.default_rng(1)
    out = layer.cin if layer.depthwise else layer.cout
    inputs = 1 if layer.depthwise else layer.cin
    if layer.kernel == 0:
        shape, bias, weight = [layer.cin], [layer.cin], [layer.cin, layer.cout]
        node = helper.make_node("MatMul", ["a", "w"], ["y"])
    else:
        shape, bias = [layer.cin, layer.size, layer.size], [layer.cin, 1, 1]
        weight = [out, inputs, layer.kernel, layer.kernel]
        node = helper.make_node("Conv", ["a", "w", "c"] if epilogue else ["a", "w"], ["y"], strides=[layer.stride] * 2,
                                pads=[layer.kernel // 2] * 4, group=layer.cin if layer.depthwise else 1)
    nodes = [helper.make_node("Add", ["x", "b"], ["a"]), node]
    weights = {"b": bias, "w": weight}
    if epilogue:
        nodes.append(helper.make_node("Clip", ["y", "low", "high"], ["z"]))
        weights["c"] = [out]
    tensors = [numpy_helper.from_array((rng.standard_normal(s) * 0.1).astype(np.float32), n) for n, s in weights.items()]
    if epilogue:
        tensors += [numpy_helper.from_array(np.array(v, np.float32), n) for n, v in (("low", 0), ("high", 6))]
    result = nodes[-1].output[0]
    shape_out = [layer.cout] if layer.kernel == 0 else [out, -(-layer.size // layer.stride), -(-layer.size // layer.stride)]
    graph = helper.make_graph(nodes, "layer", [helper.make_tensor_value_info("x", 1, ["N", *shape])],
                              [helper.make_tensor_value_info(result, 1, ["N", *shape_out])], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), path)


class Bench:
    def __init__(self, place, runs, options=()):
        self.place, self.runs, self.options = place, runs, options

    def kernels(self, layer, epilogue=False):
        """The fastest of all runs, in the order of a step, each with its `name`; the peak and the triad, the highest."""
        path = self.place.folder / "layer.onnx"
        save(layer, path, epilogue)
        fuse = [] if epilogue else ["--no-fuse", "--no-fused-update", "--no-winograd"]
        command = [path, "--batch", layer.batch, "--loss", "mse", *POCKC[2:], *fuse]
        runs = [json.loads(compare.run(self.place.argv([self.place.pockc, "bench", *command, *self.options, "--json"])))
                for _ in range(self.runs)]
        best = {}
        for kernel in (k for run in runs for k in run["kernels"]):
            number, name = kernel["name"][1:].split("_", 1)
            if int(number) not in best or kernel["seconds"] < best[int(number)]["seconds"]:
                best[int(number)] = {**kernel, "name": name}
        if layer.kernel == 0:  # three products: the graph tells which is which
            graph = compare.run([self.place.pockc, "compile", *command, "--emit", "graph"])
            ways = ["matmul_weight_grad" if "transpose_a" in l else "matmul_input_grad" if "transpose_b" in l else "matmul"
                    for l in graph.splitlines() if "= matmul(" in l]
            products = [best[n] for n in sorted(best) if best[n]["name"] == "matmul"]
            for kernel, way in zip(products, ways, strict=True):
                kernel["name"] = way
        by_work = sorted(best.values(), key=lambda k: k["bytes"])  # of equal names the largest
        return ({k["name"]: k for k in by_work}, max(r["peak_flops"] for r in runs),
                max(r["triad_bytes_per_second"] for r in runs))


def layer_row(layer, bench):
    kernels, peak, _ = bench.kernels(layer)
    name = "conv" if layer.kernel else "matmul"
    shares = [100 * k["flop"] / k["seconds"] / peak for k in (kernels[name + end] for end in ("", "_input_grad", "_weight_grad"))]
    return (layer.name, *(f"{s:.0f}" for s in shares), " / ".join(str(w or "-") for w in layer.wanted),
            "no" if any(s < w for s, w in zip(shares, layer.wanted)) else "yes")


def epilogue_row(bench):
    bare, _, _ = bench.kernels(EPILOGUE)
    full, _, _ = bench.kernels(EPILOGUE, epilogue=True)
    [fused] = [k for n, k in full.items() if n.startswith("conv_add")]
    more = 100 * (fused["seconds"] / bare["conv"]["seconds"] - 1)
    return (f"bias and relu6 behind {EPILOGUE.name}: % more", f"{more:.1f}", "", "", f"at most {MOST_OF_EPILOGUE}",
            "yes" if more <= MOST_OF_EPILOGUE else "no")


def update_row(bench):
    kernels, _, triad = bench.kernels(UPDATE)
    pass_ = kernels["momentum_step"]
    # Reads weight, momentum and gradient, writes weight and momentum.
    share = 100 * 5 * 4 * UPDATE.cin * UPDATE.cout / pass_["seconds"] / triad
    return ("SGD with momentum, 64 MiB of weights: % of triad", f"{share:.0f}", "", "", UPDATE_WANTED,
            "yes" if share >= UPDATE_WANTED else "no")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layers", nargs="*", metavar="TEXT", help="only layers whose name contains one of these")
    parser.add_argument("--pockc", type=pathlib.Path, default=compare.ROOT / "build/release/tools/pockc")
    parser.add_argument("--runs", type=int, default=3, help="of each layer (default 3)")
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)), help="core (default: the last)")
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE", help="put the rows into this document's table")
    args = parser.parse_args()
    compare.need("onnx", "numpy")
    makers = [(layer.name, functools.partial(layer_row, layer)) for layer in LAYERS]
    makers += [("epilogue", epilogue_row), ("update", update_row)]
    if args.layers:
        makers = [m for m in makers if any(text in m[0] for text in args.layers)]
    if not makers:
        parser.error("no layer is called so")
    if args.write:
        compare.write_table(args.write, HEADS, [], 1)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(compare.Place(args.cpu, 0, args.pockc, pathlib.Path(folder)), args.runs)
        for i, (name, make) in enumerate(makers, 1):
            compare.say(f"{i} of {len(makers)}: {name}")
            rows.append(tuple(map(str, (*make(bench), compare.commit()))))
            if args.write:
                compare.write_table(args.write, HEADS, rows, 1)
    print(compare.table(HEADS, rows))


if __name__ == "__main__":
    main()
