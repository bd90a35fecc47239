#!/usr/bin/python3
"""Write the small good models of tests/import: one function, spelled in every way the ONNX versions and exporters know.

  mlp_opsetN.onnx        one two-layer net stamped with opset N; every one computes the same
  mlp_*.onnx             the same net, its weights or its end spelled otherwise
  gemm_*.onnx            forms of Gemm: without C, with C of each broadcastable shape, transposed, scaled
  bn_opsetN.onnx         batch norm behind a convolution, as opset N spells it
  the rest               clip, pad, dropout, reshape and flatten in each form, initializers listed as inputs, shared ones
  expect.json            for each file: its inputs, and the outputs they give, computed here by numpy
Weights and inputs are small multiples of 1/8, so most expected values are exact. Newer opsets than the installed python3-onnx
knows are written without its checker.
"""
import argparse
import json
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
IR = {7: 3, 9: 4, 11: 6, 13: 7, 14: 7, 15: 8, 17: 8, 18: 8, 21: 10}
EXPECT = []


def grid(*shape, seed=0):
    """Multiples of 1/8 between -1 and 1."""
    return (np.random.default_rng([seed, *shape]).integers(-8, 9, shape) / 8).astype(np.float32)


def node(op, inputs, output, **attributes):
    return helper.make_node(op, inputs.split(" ") if isinstance(inputs, str) else inputs, [output],
                            name=f"{op.lower()}_{output}", **attributes)


def write(name, what, nodes, tensors, feeds, outputs, opset=13, inputs_too=(), batch="N", producer="pock-tests", domains=(),
          ir=None):
    """`feeds` and `outputs` map names to arrays; axis 0 of each becomes `batch`. `inputs_too`: initializers listed as inputs."""
    def info(key, array, symbolic=True):
        shape = [batch if symbolic and batch and i == 0 else d for i, d in enumerate(array.shape)]
        return helper.make_tensor_value_info(key, onnx.mapping.NP_TYPE_TO_TENSOR_TYPE[array.dtype], shape)

    graph = helper.make_graph(
        nodes, name, [info(k, v) for k, v in feeds.items()] + [info(k, tensors[k], False) for k in inputs_too],
        [info(k, v) for k, v in outputs.items()], [numpy_helper.from_array(v, k) for k, v in tensors.items()])
    model = helper.make_model(graph, producer_name=producer, ir_version=ir or IR[opset],
                              opset_imports=[helper.make_opsetid("", opset), *(helper.make_opsetid(*d) for d in domains)])
    if opset <= onnx.defs.onnx_opset_version():
        onnx.checker.check_model(model)
        onnx.shape_inference.infer_shapes(model, strict_mode=True)
    (HERE / f"{name}.onnx").write_bytes(model.SerializeToString())

    def plain(arrays):
        return {k: {"shape": list(v.shape), "data": [float(f"{x:.9g}") for x in v.ravel().tolist()]} for k, v in arrays.items()}

    EXPECT.append({"file": f"{name}.onnx", "what": what, "inputs": plain(feeds), "outputs": plain(outputs)})


def relu(x):
    return np.maximum(x, 0)


def softmax(x, axis=-1):
    e = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
    return (e / e.sum(axis, keepdims=True)).astype(np.float32)


X = grid(3, 6, seed=1)
W1, B1, W2, B2 = grid(5, 6, seed=2), grid(5, seed=3), grid(4, 5, seed=4), grid(4, seed=5)
WEIGHTS = {"fc1.weight": W1, "fc1.bias": B1, "fc2.weight": W2, "fc2.bias": B2}
LOGITS = relu(X @ W1.T + B1) @ W2.T + B2


def mlp_nodes(end="logits"):
    return [node("Gemm", "x fc1.weight fc1.bias", "h", transB=1), node("Relu", "h", "r"),
            node("Gemm", "r fc2.weight fc2.bias", end, transB=1)]


def mlps():
    for opset in (7, 9, 11, 13, 15, 17, 18, 21):
        listed = WEIGHTS if opset < 9 else ()
        write(f"mlp_opset{opset}", f"two linear layers, opset {opset}", mlp_nodes(), WEIGHTS, {"x": X}, {"logits": LOGITS},
              opset, listed)
    constants = [helper.make_node("Constant", [], [k], name="constant_" + k, value=numpy_helper.from_array(v))
                 for k, v in WEIGHTS.items()]
    write("mlp_constants", "weights as Constant nodes, no initializer at all", constants + mlp_nodes(), {}, {"x": X},
          {"logits": LOGITS})
    write("mlp_inputs_ir3", "opset 9 with IR 3: initializers are also graph inputs", mlp_nodes(), WEIGHTS, {"x": X},
          {"logits": LOGITS}, 9, WEIGHTS, ir=3)
    write("mlp_some_inputs", "opset 13: one initializer is also a graph input, a default that a caller could replace",
          mlp_nodes(), WEIGHTS, {"x": X}, {"logits": LOGITS}, 13, ["fc2.bias"])
    write("mlp_fixed_batch", "the batch axis is the number 3", mlp_nodes(), WEIGHTS, {"x": X}, {"logits": LOGITS}, batch=None)
    write("mlp_matmul", "MatMul and Add, weights stored transposed",
          [node("MatMul", "x w1", "a"), node("Add", "a fc1.bias", "h"), node("Relu", "h", "r"), node("MatMul", "r w2", "b"),
           node("Add", "fc2.bias b", "logits")],
          {"w1": W1.T.copy(), "fc1.bias": B1, "w2": W2.T.copy(), "fc2.bias": B2}, {"x": X}, {"logits": LOGITS})
    write("mlp_transpose_node", "a Transpose between the stored weight and MatMul",
          [node("Transpose", "fc1.weight", "t1", perm=[1, 0]), node("MatMul", "x t1", "a"), node("Add", "a fc1.bias", "h"),
           node("Relu", "h", "r"), node("Gemm", "r fc2.weight fc2.bias", "logits", transB=1)], WEIGHTS, {"x": X},
          {"logits": LOGITS})
    for opset in (11, 13):
        # Before 13, Softmax flattens to two axes at `axis` (default 1); from 13 it works on one axis (default -1).
        write(f"mlp_softmax_opset{opset}", "ends in Softmax without an axis", mlp_nodes("z") + [node("Softmax", "z", "p")],
              WEIGHTS, {"x": X}, {"p": softmax(LOGITS)}, opset)
        write(f"mlp_logsoftmax_opset{opset}", "ends in LogSoftmax, axis 1", mlp_nodes("z") +
              [node("LogSoftmax", "z", "p", axis=1)], WEIGHTS, {"x": X}, {"p": np.log(softmax(LOGITS))}, opset)
    x = grid(2, 3, 4, seed=6)
    write("softmax_opset11_flatten", "opset 11: axis 1 of a rank-3 tensor means one softmax over the last two axes",
          [node("Mul", "x s", "m"), node("Softmax", "m", "p", axis=1)], {"s": grid(4, seed=7)}, {"x": x},
          {"p": softmax((x * grid(4, seed=7)).reshape(2, 12)).reshape(2, 3, 4)}, 11)
    write("softmax_opset13_axis", "opset 13: axis 1 of a rank-3 tensor means axis 1 alone",
          [node("Mul", "x s", "m"), node("Softmax", "m", "p", axis=1)], {"s": grid(4, seed=7)}, {"x": x},
          {"p": softmax(x * grid(4, seed=7), 1)}, 13)


def gemms():
    a, b = grid(3, 6, seed=8), grid(6, 4, seed=9)
    for name, c in {"none": None, "scalar": np.array(0.5, np.float32), "one": grid(1, seed=10), "n": grid(4, seed=11),
                    "1n": grid(1, 4, seed=12), "mn": grid(3, 4, seed=13), "m1": grid(3, 1, seed=14)}.items():
        tensors = {"w": b} if c is None else {"w": b, "c": c}
        write(f"gemm_c_{name}", "Gemm without C" if c is None else f"Gemm with C of shape {list(c.shape)}",
              [node("Gemm", "x w" if c is None else "x w c", "y")], tensors, {"x": a},
              {"y": a @ b + (0 if c is None else c)}, batch=None if name in ("mn", "m1") else "N")
    write("gemm_c_empty_name", "Gemm whose third input is the empty name", [node("Gemm", ["x", "w", ""], "y")], {"w": b},
          {"x": a}, {"y": a @ b})
    write("gemm_trans_a", "Gemm with transA", [node("Gemm", "x w c", "y", transA=1)], {"w": grid(3, 4, seed=15), "c": B2},
          {"x": a}, {"y": a.T @ grid(3, 4, seed=15) + B2}, batch=None)
    write("gemm_trans_ab", "Gemm with transA and transB", [node("Gemm", "x w c", "y", transA=1, transB=1)],
          {"w": grid(4, 3, seed=16), "c": B2}, {"x": a}, {"y": a.T @ grid(4, 3, seed=16).T + B2}, batch=None)
    write("gemm_alpha_beta", "Gemm with alpha 0.5 and beta 2", [node("Gemm", "x w c", "y", alpha=0.5, beta=2.0)],
          {"w": b, "c": B2}, {"x": a}, {"y": np.float32(0.5) * (a @ b) + 2 * B2})
    write("gemm_beta_zero", "Gemm with beta 0: C does not count", [node("Gemm", "x w c", "y", beta=0.0)], {"w": b, "c": B2},
          {"x": a}, {"y": a @ b})


def norms():
    x, w = grid(2, 2, 3, 3, seed=17), grid(3, 2, 1, 1, seed=18)
    stats = {"scale": np.array([1, 0.5, 2], np.float32), "shift": np.array([0.25, 0, -0.5], np.float32),
             "mean": np.array([0, 0.125, -0.25], np.float32), "var": np.array([1, 0.25, 4], np.float32)}
    c = np.einsum("nchw,kc->nkhw", x, w[:, :, 0, 0])
    s = {k: v.reshape(1, 3, 1, 1) for k, v in stats.items()}
    y = ((c - s["mean"]) / np.sqrt(s["var"].astype(np.float64) + 1e-5) * s["scale"] + s["shift"]).astype(np.float32)
    for opset in (7, 9, 14, 15):
        write(f"bn_opset{opset}", f"batch norm, inference form of opset {opset}",
              [node("Conv", "x w", "c", kernel_shape=[1, 1]),
               node("BatchNormalization", "c scale shift mean var", "y", epsilon=1e-5, momentum=0.9)],
              {"w": w, **stats}, {"x": x}, {"y": y}, opset, ["w", *stats] if opset < 9 else ())
    write("bn_default_attributes", "batch norm without attributes: epsilon 1e-5, momentum 0.9",
          [node("Conv", "x w", "c"), node("BatchNormalization", "c scale shift mean var", "y")], {"w": w, **stats}, {"x": x},
          {"y": y})
    # What PyTorch 1.13 writes for an untrained net: equal tensors merged, and Identity nodes in their place.
    same = {"bn.weight": np.ones(3, np.float32), "bn.bias": np.zeros(3, np.float32)}
    write("bn_merged_initializers", "running statistics are Identity nodes of scale and shift: four separate tensors all the same",
          [node("Identity", "bn.weight", "bn.running_var"), node("Identity", "bn.bias", "bn.running_mean"),
           node("Conv", "x w", "c"), node("BatchNormalization", "c bn.weight bn.bias bn.running_mean bn.running_var", "y")],
          {"w": w, **same}, {"x": x}, {"y": (c / np.sqrt(1 + 1e-5)).astype(np.float32)}, producer="pytorch")


def clips():
    x, one = 8 * grid(3, 5, seed=19), np.ones(5, np.float32)
    mul = node("Mul", "x s", "m")
    low, high = np.array(0, np.float32), np.array(6, np.float32)
    write("clip6_both", "Clip with attributes min 0 and max 6", [mul, node("Clip", "m", "y", min=0.0, max=6.0)], {"s": one},
          {"x": x}, {"y": x.clip(0, 6)}, 9)
    write("clip6_max", "Clip with attribute max alone", [mul, node("Clip", "m", "y", max=2.0)], {"s": one}, {"x": x},
          {"y": x.clip(None, 2)}, 9)
    write("clip11_both", "Clip with inputs min and max", [mul, node("Clip", "m lo hi", "y")],
          {"s": one, "lo": low, "hi": high}, {"x": x}, {"y": x.clip(0, 6)}, 11)
    write("clip11_min", "Clip with input min alone", [mul, node("Clip", "m lo", "y")], {"s": one, "lo": low}, {"x": x},
          {"y": x.clip(0)}, 11)
    write("clip11_max", "Clip whose min is the empty name", [mul, node("Clip", ["m", "", "hi"], "y")], {"s": one, "hi": high},
          {"x": x}, {"y": x.clip(None, 6)}, 13)
    write("clip11_none", "Clip without bounds", [mul, node("Clip", "m", "y")], {"s": one}, {"x": x}, {"y": x}, 13)
    write("clip11_constants", "Clip whose bounds are Constant nodes, as PyTorch writes relu6",
          [helper.make_node("Constant", [], ["lo"], name="lo", value=numpy_helper.from_array(low)),
           helper.make_node("Constant", [], ["hi"], name="hi", value=numpy_helper.from_array(high)),
           mul, node("Clip", "m lo hi", "y")], {"s": one}, {"x": x}, {"y": x.clip(0, 6)}, 13)

    write("clip11_cast", "relu6 as PyTorch 1.13 writes it: Relu, then Clip whose bounds are double constants, cast",
          [node("Mul", "x s", "m"), node("Relu", "m", "r"),
           helper.make_node("Constant", [], ["lo64"], name="lo", value=numpy_helper.from_array(np.array(0.0))),
           helper.make_node("Constant", [], ["hi64"], name="hi", value=numpy_helper.from_array(np.array(6.0))),
           node("Cast", "lo64", "lo", to=TensorProto.FLOAT), node("Cast", "hi64", "hi", to=TensorProto.FLOAT),
           node("Clip", "r lo hi", "y")], {"s": one}, {"x": x}, {"y": x.clip(0, 6)}, 13)


def pads():
    x, one = grid(2, 1, 4, 5, seed=22), np.ones((4, 5), np.float32)
    y = x[:, :, :4, :4].reshape(2, 1, 2, 2, 2, 2).mean((3, 5))
    write("pad_nothing", "avg_pool2d as PyTorch 1.13 writes it: a Pad of zero width before AveragePool",
          [node("Mul", "x s", "m"),
           helper.make_node("Constant", [], ["w"], name="w", value=numpy_helper.from_array(np.zeros(8, np.int64))),
           node("Pad", "m w", "p", mode="constant"), node("AveragePool", "p", "y", kernel_shape=[2, 2], strides=[2, 2])],
          {"s": one}, {"x": x}, {"y": y}, 13)
    write("pad_attribute", "opset 9: Pad with attributes", [node("Mul", "x s", "m"),
          node("Pad", "m", "y", mode="constant", pads=[0, 0, 1, 0, 0, 0, 0, 2], value=0.0)], {"s": one}, {"x": x},
          {"y": np.pad(x, ((0, 0), (0, 0), (1, 0), (0, 2)))}, 9)


def dropouts():
    h = [node("Gemm", "x fc1.weight fc1.bias", "h", transB=1)]
    tensors = {"fc1.weight": W1, "fc1.bias": B1}
    y = X @ W1.T + B1
    write("dropout7", "Dropout with attribute ratio: nothing in inference", h + [node("Dropout", "h", "y", ratio=0.25)],
          tensors, {"x": X}, {"y": y}, 7, tensors)
    write("dropout12", "Dropout with input ratio and no training_mode", h + [node("Dropout", "h ratio", "y")],
          {**tensors, "ratio": np.array(0.25, np.float32)}, {"x": X}, {"y": y})
    write("dropout12_mode", "Dropout with training_mode false",
          h + [node("Dropout", "h ratio mode", "y")],
          {**tensors, "ratio": np.array(0.25, np.float32), "mode": np.array(False)}, {"x": X}, {"y": y})


def shapes():
    x = grid(2, 3, 4, 1, seed=20)
    scale = grid(4, 1, seed=21)
    m, mul = x * scale, node("Mul", "x s", "m")

    def reshape(name, what, target, shape, **attributes):
        write(name, what, [mul, node("Reshape", "m shape", "y", **attributes)],
              {"s": scale, "shape": np.array(target, np.int64)}, {"x": x}, {"y": m.reshape(shape)}, attributes.pop("opset", 13))

    reshape("reshape_zero", "Reshape to [0,0,-1]: 0 keeps an axis", [0, 0, -1], (2, 3, 4))
    reshape("reshape_minus_one", "Reshape to [-1,12]: the batch axis is the derived one", [-1, 12], (2, 12))
    reshape("reshape_zero_minus_one", "Reshape to [0,-1]", [0, -1], (2, 12))
    reshape("reshape_split", "Reshape to [0,-1,2,2]", [0, -1, 2, 2], (2, 3, 2, 2))
    # torch.flatten and x.view(x.size(0), -1) as exporters write them: the target is computed from Shape.
    write("reshape_computed", "the target shape is Shape, Gather, Unsqueeze, Concat",
          [mul, node("Shape", "m", "shape"), node("Gather", "shape zero", "n", axis=0), node("Unsqueeze", "n axes", "n1"),
           node("Concat", "n1 rest", "target", axis=0), node("Reshape", "m target", "y")],
          {"s": scale, "zero": np.array(0, np.int64), "axes": np.array([0], np.int64), "rest": np.array([-1], np.int64)},
          {"x": x}, {"y": m.reshape(2, 12)})
    for name, axis, shape in (("0", 0, (1, 24)), ("1", 1, (2, 12)), ("2", 2, (6, 4)), ("minus1", -1, (24, 1)),
                              ("4", 4, (24, 1)), ("default", None, (2, 12))):
        write(f"flatten_{name}", f"Flatten, axis {axis}", [mul, node("Flatten", "m", "y", **({} if axis is None else {"axis": axis}))],
              {"s": scale}, {"x": x}, {"y": m.reshape(shape)}, 13, batch=None)
    write("squeeze11", "Squeeze and Unsqueeze with attribute axes",
          [mul, node("Squeeze", "m", "q", axes=[3]), node("Unsqueeze", "q", "y", axes=[1])], {"s": scale}, {"x": x},
          {"y": m[..., 0][:, None]}, 11)
    write("squeeze13", "Squeeze and Unsqueeze with input axes, one negative",
          [mul, node("Squeeze", "m sq", "q"), node("Unsqueeze", "q un", "y")],
          {"s": scale, "sq": np.array([-1], np.int64), "un": np.array([1], np.int64)}, {"x": x}, {"y": m[..., 0][:, None]})


def names():
    rename = {"x": 'in put "x"', "fc1.weight": "a/b\\c.weight", "fc1.bias": "it's a bias", "fc2.weight": "Gewicht-ä %w = 9",
              "fc2.bias": "line\nbreak", "logits": "out: [0]", "h": " ", "r": "#"}
    nodes = []
    for n in mlp_nodes():
        nodes.append(helper.make_node(n.op_type, [rename[i] for i in n.input], [rename[o] for o in n.output],
                                      name=f'node "{n.name}" /1', **{a.name: a.i for a in n.attribute}))
    write("names", "tensor and node names with spaces, quotes, slashes, a line break, and a letter beyond ASCII", nodes,
          {rename[k]: v for k, v in WEIGHTS.items()}, {rename["x"]: X}, {rename["logits"]: LOGITS})
    nodes = mlp_nodes()
    for n in nodes:
        n.ClearField("name")
    write("names_none", "nodes have no names at all", nodes, WEIGHTS, {"x": X}, {"logits": LOGITS})
    write("names_domain", "the standard domain spelled ai.onnx", nodes, WEIGHTS, {"x": X}, {"logits": LOGITS},
          domains=[("ai.onnx.ml", 3)])
    for n in nodes:
        n.domain = "ai.onnx"
    raw = onnx.load(str(HERE / "names_domain.onnx"))
    del raw.graph.node[:]
    raw.graph.node.extend(nodes)
    raw.opset_import[0].domain = "ai.onnx"
    (HERE / "names_domain.onnx").write_bytes(raw.SerializeToString())


def storage():
    def save(name, change):
        model = onnx.load(str(HERE / "mlp_opset13.onnx"))
        change(model)
        model.graph.name = name
        (HERE / f"{name}.onnx").write_bytes(model.SerializeToString())

    def float_data(model):
        for t in model.graph.initializer:
            t.float_data.extend(np.frombuffer(t.raw_data, "<f4").tolist())
            t.ClearField("raw_data")

    def unknown_field(model):
        model.MergeFromString(b"\x9a\x3f\x05hello\xa0\x3f\x07")  # fields 1011 (bytes) and 1012 (number)

    def unsorted(model):
        nodes = list(model.graph.node)[::-1]
        del model.graph.node[:]
        model.graph.node.extend(nodes)

    def functions(model):
        def call(op, inputs, outputs):
            return helper.make_node(op, inputs, outputs, domain="local")

        nodes = list(model.graph.node)
        made = {name for n in nodes[:2] for name in n.output}
        read = [name for n in nodes[:2] for name in n.input if name not in made]
        opsets = [helper.make_opsetid("", 13), helper.make_opsetid("local", 1)]
        inner = helper.make_function("local", "Inner", ["a"], ["b"], [helper.make_node(nodes[1].op_type, ["a"], ["b"])], opsets)
        first = helper.make_function("local", "First", read, list(nodes[1].output),
                                     [nodes[0], call("Inner", list(nodes[1].input), list(nodes[1].output))], opsets)
        del model.graph.node[:]
        model.graph.node.extend([call("First", read, list(nodes[1].output)), *nodes[2:]])
        model.functions.extend([inner, first])
        model.opset_import.append(helper.make_opsetid("local", 1))

    for name, what, change in (("storage_float_data", "weights in float_data, not raw_data", float_data),
                               ("storage_unknown_field", "two protobuf fields that no ONNX version has", unknown_field),
                               ("storage_functions", "the first layer as a function that calls another", functions),
                               ("storage_unsorted", "nodes in reverse order; readers may sort them", unsorted)):
        save(name, change)
        EXPECT.append({**EXPECT[0], "file": f"{name}.onnx", "what": what})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    for old in HERE.glob("*.onnx"):
        old.unlink()
    for make in (mlps, gemms, norms, clips, pads, dropouts, shapes, names, storage):
        make()
    lines = ",\n".join(json.dumps(e, ensure_ascii=False) for e in EXPECT)
    (HERE / "expect.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(f"{len(EXPECT)} models")


if __name__ == "__main__":
    main()
