#!/usr/bin/python3
"""Write the bad models of tests/errors: one for each way in which a model file can be wrong or beyond pockc.

manifest.json lists them: the file, what is wrong in one line, the arguments that follow the file name in `pockc compile FILE
... -o OUT`, the words that a good message must hold ("mentions": the names of nodes and tensors, both sides of a
disagreement), and "good": true for the few that look odd and must compile. Most start from one small net, conv-relu-conv-
flatten-gemm, with one thing changed. Nothing is passed through the ONNX checker, which would refuse most of them.
"""
import argparse
import json
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
LOSS = ["--loss", "cross-entropy", "--batch", "4"]
MANIFEST = []


def put(name, content, what, mentions=(), args=LOSS, good=False, suffix=".onnx"):
    data = content if isinstance(content, bytes) else content.SerializeToString()
    assert len(data) < 20000, name
    (HERE / (name + suffix)).write_bytes(data)
    entry = {"file": name + suffix, "args": list(args), "what": what, "mentions": list(mentions)}
    MANIFEST.append({**entry, "good": True} if good else entry)


def weights(*shape):
    return (np.random.default_rng(list(shape)).standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def node(op, inputs, outputs, name, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), name=name, **attributes)


def info(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes, tensors, inputs, outputs, opset=13, domains=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs,
                              [t if isinstance(t, onnx.TensorProto) else numpy_helper.from_array(t, k) for k, t in tensors.items()])
    return helper.make_model(graph, producer_name="pock-tests", ir_version=7,
                             opset_imports=[helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)])


def base():
    """A good net: x [N,3,6,6] -> logits [N,5]."""
    return model(
        [node("Conv", "x conv1.weight conv1.bias", "c1", "conv_1", pads=[1] * 4), node("Relu", "c1", "r1", "relu_1"),
         node("Conv", "r1 conv2.weight", "c2", "conv_2"), node("Relu", "c2", "r2", "relu_2"),
         node("Flatten", "r2", "f", "flatten"), node("Gemm", "f fc.weight fc.bias", "logits", "fc", transB=1)],
        {"conv1.weight": weights(4, 3, 3, 3), "conv1.bias": weights(4), "conv2.weight": weights(6, 4, 3, 3),
         "fc.weight": weights(5, 96), "fc.bias": weights(5)},
        [info("x", ["N", 3, 6, 6])], [info("logits", ["N", 5])])


def changed(change):
    m = base()
    change(m.graph)
    return m


def find(items, name):
    return next(i for i in items if i.name == name)


def files():
    data = base().SerializeToString()
    put("truncated", data[: len(data) * 6 // 10], "the file ends in the middle of a weight", ["truncated.onnx"])
    put("truncated_tail", data[:-3], "the last three bytes are missing", ["truncated_tail.onnx"])
    put("empty", b"", "the file has no bytes", ["empty.onnx"])
    put("text", b"# Notes\n\nThis is a text file that somebody named .onnx\n", "a text file", ["text.onnx"])
    put("zip", b"PK\x03\x04\x14\x00\x00\x00\x08\x00" + b"\x00" * 60, "a zip archive, as PyTorch saves, named .onnx", ["zip.onnx"])
    put("lfs_pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 102400\n",
        "a Git LFS pointer in the model's place", ["lfs_pointer.onnx"])
    put("long_length", b"\x08\x07\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f" + data[:40], "the graph claims 2^63-1 bytes", ["long_length.onnx"])
    put("endless_varint", b"\x08" + b"\xff" * 20, "a number without an end", ["endless_varint.onnx"])
    no_graph = onnx.ModelProto(ir_version=7)
    no_graph.opset_import.append(helper.make_opsetid("", 13))
    put("no_graph", no_graph, "a model without a graph", ["graph"])
    put("no_nodes", changed(lambda g: g.ClearField("node")), "a graph without a node: its output comes from nowhere", ["logits"])


def operators():
    put("unknown_ops", model(
        [node("MatMul", "x w", "h", "proj"),
         helper.make_node("FusedMatMul", ["h", "w1"], ["a"], name="branch_a", domain="com.microsoft"),
         helper.make_node("Inverse", ["h"], ["b"], name="branch_b", domain="ai.onnx.contrib"),
         helper.make_node("Sparkle", ["h"], ["c"], name="branch_c", domain="org.example"),
         node("Sum", "a b c", "logits", "join")],
        {"w": weights(6, 5), "w1": weights(5, 5)}, [info("x", ["N", 6])], [info("logits", ["N", 5])],
        domains=["com.microsoft", "ai.onnx.contrib", "org.example"]),
        "three unknown operators in three branches: one message names all",
        ["FusedMatMul", "com.microsoft", "branch_a", "Inverse", "ai.onnx.contrib", "branch_b", "Sparkle", "org.example", "branch_c"])
    put("unknown_standard_op", changed(lambda g: setattr(find(g.node, "relu_2"), "op_type", "Reluu")),
        "an operator that the standard domain does not have", ["Reluu", "relu_2"])
    m = base()
    m.opset_import[0].version = 99
    put("future_opset", m, "opset 99", ["99"])
    m = base()
    m.ClearField("opset_import")
    put("no_opset", m, "no opset given", ["opset"])

    def branch(name, value):
        return helper.make_graph([node("Relu" if value else "Identity", "h", name, name + "_op")], name, [], [info(name, ["N", 5])])
    put("if", model(
        [node("MatMul", "x w", "h", "proj"), helper.make_node("If", ["cond"], ["logits"], name="choose",
                                                              then_branch=branch("t", 1), else_branch=branch("e", 0))],
        {"w": weights(6, 5)}, [info("x", ["N", 6]), info("cond", [], TensorProto.BOOL)], [info("logits", ["N", 5])]),
        "an If with two subgraphs that read an outer tensor", ["If", "choose"])
    body = helper.make_graph([node("Identity", "going", "going_out", "keep"), node("Relu", "state", "state_out", "step")], "body",
                             [info("i", [], TensorProto.INT64), info("going", [], TensorProto.BOOL), info("state", ["N", 5])],
                             [info("going_out", [], TensorProto.BOOL), info("state_out", ["N", 5])])
    put("loop", model([node("MatMul", "x w", "h", "proj"), helper.make_node("Loop", ["trips", "", "h"], ["logits"], name="repeat", body=body)],
                      {"w": weights(6, 5), "trips": np.array(3, np.int64)}, [info("x", ["N", 6])], [info("logits", ["N", 5])]),
        "a Loop of three rounds", ["Loop", "repeat"])

    def attribute(name, **values):
        def change(g):
            for k, v in values.items():
                n = find(g.node, name)
                for old in [a for a in n.attribute if a.name == k]:
                    n.attribute.remove(old)
                n.attribute.append(helper.make_attribute(k, v))
        return changed(change)
    put("attribute_type", attribute("conv_1", pads="same"), "an attribute of the wrong type: pads is text", ["pads", "conv_1"])
    put("attribute_length", attribute("conv_1", strides=[1, 1, 1]), "three strides for two spatial axes", ["strides", "conv_1"])
    put("attribute_zero_stride", attribute("conv_1", strides=[0, 1]), "a stride of 0", ["strides", "conv_1"])
    put("attribute_negative_pad", attribute("conv_1", pads=[-4, 0, -4, 0]), "negative pads leave nothing of the image", ["conv_1"])
    put("attribute_group", attribute("conv_1", group=3), "4 output channels in 3 groups", ["conv_1", "4", "3"])
    put("attribute_unknown", attribute("conv_1", auto_pad="SAME_SIDEWAYS"), "an auto_pad that does not exist",
        ["auto_pad", "SAME_SIDEWAYS", "conv_1"])


def graphs():
    put("cycle", changed(lambda g: find(g.node, "relu_1").input.__setitem__(0, "r2")),
        "relu_1 reads what relu_2 makes of it", ["relu_1"])
    put("cycle_self", changed(lambda g: find(g.node, "relu_1").input.__setitem__(0, "r1")), "a node reads its own output", ["relu_1"])
    put("undefined_name", changed(lambda g: find(g.node, "relu_2").input.__setitem__(0, "c7")),
        "a node reads a name that nobody makes", ["relu_2", "c7"])
    put("undefined_output", changed(lambda g: setattr(g.output[0], "name", "probabilities")),
        "the graph's output is a name that nobody makes", ["probabilities"])
    put("duplicate_output", changed(lambda g: find(g.node, "relu_2").output.__setitem__(0, "c1")),
        "two nodes make the same name", ["c1", "conv_1", "relu_2"])
    put("duplicate_initializer", changed(lambda g: g.initializer.append(numpy_helper.from_array(weights(5), "fc.bias"))),
        "two initializers have the same name", ["fc.bias"])
    put("output_is_initializer", changed(lambda g: find(g.node, "relu_2").output.__setitem__(0, "fc.bias")),
        "a node makes a name that an initializer has", ["fc.bias", "relu_2"])
    put("missing_input", changed(lambda g: find(g.node, "conv_2").input.pop()), "a Conv without a weight", ["conv_2", "Conv"])
    put("empty_required_input", changed(lambda g: find(g.node, "conv_2").input.__setitem__(1, "")),
        "a Conv whose weight is the empty name", ["conv_2", "Conv"])
    put("too_many_inputs", changed(lambda g: find(g.node, "relu_2").input.append("c1")), "a Relu with two inputs", ["relu_2", "Relu"])

    def no_outputs(g):
        del g.output[:]
    put("no_outputs", changed(no_outputs), "the graph has no output", ["output"])


def shapes():
    put("conv_channels", model(
        [node("Conv", "x conv_2.weight", "c", "conv_2", pads=[1] * 4), node("Relu", "c", "r", "relu_2"),
         node("Conv", "r conv_3.weight", "d", "conv_3"), node("GlobalAveragePool", "d", "p", "pool"), node("Flatten", "p", "logits", "flat")],
        {"conv_2.weight": weights(16, 3, 3, 3), "conv_3.weight": weights(8, 32, 3, 3)}, [info("x", ["N", 3, 9, 7])], [info("logits", ["N", 8])]),
        "conv_3's weight has 32 input channels, its input has 16", ["conv_3", "32", "16", "relu_2", "conv_3.weight"])
    put("gemm_sizes", changed(lambda g: find(g.initializer, "fc.weight").CopyFrom(numpy_helper.from_array(weights(5, 95), "fc.weight"))),
        "fc's weight wants 95 features, its input has 96", ["fc", "95", "96"])
    put("add_shapes", model([node("MatMul", "x w", "h", "proj"), node("Add", "h b", "logits", "shift")], {"w": weights(6, 5), "b": weights(4)},
                            [info("x", ["N", 6])], [info("logits", ["N", 5])]), "5 and 4 do not broadcast", ["shift", "5", "4"])
    put("kernel_too_large", changed(lambda g: find(g.node, "conv_1").attribute.__getitem__(0).ints.__setitem__(slice(None), [0] * 4) or
                                    g.input[0].type.tensor_type.shape.dim[2].__setattr__("dim_value", 2)),
        "a 3x3 kernel on an image of height 2", ["conv_1", "3", "2"])
    put("declared_output_shape", changed(lambda g: g.output[0].type.tensor_type.shape.dim[1].__setattr__("dim_value", 7)),
        "the output is declared [N,7] and comes out as [N,5]", ["logits", "7", "5"])
    put("reshape_sizes", model([node("MatMul", "x w", "h", "proj"), node("Reshape", "h shape", "logits", "fold")],
                               {"w": weights(6, 8), "shape": np.array([-1, 3], np.int64)}, [info("x", ["N", 6])], [info("logits", ["M", 3])]),
        "4 x 8 values cannot become rows of 3", ["fold", "3"])
    put("zero_dim", model([node("Concat", "x e", "c", "cat", axis=1), node("MatMul", "c w", "logits", "proj")],
                          {"e": np.zeros((4, 0), np.float32), "w": weights(6, 5)}, [info("x", [4, 6])], [info("logits", [4, 5])]),
        "an initializer with an axis of length 0", ["e", "0"])
    put("zero_dim_input", changed(lambda g: g.input[0].type.tensor_type.shape.dim[2].__setattr__("dim_value", 0)),
        "the input's height is 0", ["x", "0"])
    put("negative_dim", changed(lambda g: find(g.initializer, "conv1.bias").dims.__setitem__(0, -4)),
        "an initializer with an axis of length -4", ["conv1.bias", "-4"])
    put("negative_dim_input", changed(lambda g: g.input[0].type.tensor_type.shape.dim[2].__setattr__("dim_value", -6)),
        "the input's height is -6", ["x", "-6"])
    put("no_rank", changed(lambda g: g.input[0].type.tensor_type.ClearField("shape")), "the input has no shape", ["x"])

    def symbolic(g):
        for axis, name in ((2, "H"), (3, "W")):
            g.input[0].type.tensor_type.shape.dim[axis].dim_param = name
    put("unnamed_dim", changed(lambda g: g.input[0].type.tensor_type.shape.dim[2].ClearField("value")),
        "the input's height has neither a number nor a name", ["--dim x:2"])
    put("symbolic_unbound", changed(symbolic), "height and width are symbols that no argument gives a value", ["x", "H", "W"])
    put("batch_unbound", base(), "the batch is a symbol and --batch is not given", ["N", "--batch"], args=LOSS[:2])
    put("batch_one_reshape", model(
        [node("Conv", "x w", "c", "conv"), node("Reshape", "c shape", "f", "view"), node("MatMul", "f v", "logits", "fc")],
        {"w": weights(16, 3, 3, 3), "shape": np.array([1, 256], np.int64), "v": weights(256, 5)},
        [info("x", [1, 3, 6, 6])], [info("logits", [1, 5])]),
        "exported at batch 1, Reshape to [1,256] included, asked for batch 4: it is read with that", ["batch of 1", "4"], good=True)
    put("batch_one_lost", model(
        [node("Conv", "x w", "c", "conv"), node("Reshape", "c shape", "f", "view"), node("MatMul", "f v", "logits", "fc")],
        {"w": weights(16, 3, 3, 3), "shape": np.array([16, 16], np.int64), "v": weights(16, 5)},
        [info("x", [1, 3, 6, 6])], [info("logits", [16, 5])]),
        "exported at batch 1, and a Reshape drops that axis; asked for batch 4", ["view", "[16,16]", "4"])
    put("symbol_contradicts", model([node("MatMul", "x w", "h", "proj"), node("Add", "h y", "logits", "join")], {"w": weights(6, 5)},
                                    [info("x", ["N", 6]), info("y", [3, 5])], [info("logits", ["N", 5])]),
        "two inputs disagree on the batch: 4 asked for, 3 written", ["y", "3", "4"])


def tensors():
    def initializer(name, change):
        return changed(lambda g: change(find(g.initializer, name)))

    def cut(t):
        t.raw_data = t.raw_data[:-8]

    def dims(*values):
        def change(t):
            del t.dims[:]
            t.dims.extend(values)
        return change
    put("short_data", initializer("fc.weight", cut), "raw data of 1912 bytes where [5,96] needs 1920", ["fc.weight", "1912", "1920"])
    put("long_data", initializer("fc.bias", lambda t: setattr(t, "raw_data", t.raw_data + b"\0\0\0\0")),
        "raw data of 24 bytes where [5] needs 20", ["fc.bias", "24", "20"])
    put("no_data", initializer("fc.bias", lambda t: t.ClearField("raw_data")), "an initializer without data", ["fc.bias"])
    put("dims_2_31", initializer("fc.bias", dims(65536, 65536)), "dims whose product passes 2^31, with 20 bytes of data", ["fc.bias"])
    put("dims_2_63", initializer("fc.bias", dims(1 << 32, 1 << 32)), "dims whose product passes 2^63: it must not wrap to 0", ["fc.bias"])
    put("dims_wrap", initializer("fc.bias", dims(3, 0x5555555555555557)), "dims whose product is 5 modulo 2^64, which the data fit",
        ["fc.bias"])
    put("element_type", initializer("fc.bias", lambda t: setattr(t, "data_type", 77)), "an element type that does not exist", ["fc.bias", "77"])
    put("string_weight", changed(lambda g: find(g.initializer, "fc.bias").CopyFrom(
        helper.make_tensor("fc.bias", TensorProto.STRING, [5], [b"a"] * 5))), "a bias of text", ["fc.bias", "string"])

    def external(name, location, what, mentions, offset=None, length=None, content=None):
        def change(t):
            size = len(t.raw_data)
            t.ClearField("raw_data")
            t.data_location = TensorProto.EXTERNAL
            for key, value in (("location", location), ("offset", offset), ("length", size if length is None else length)):
                if value is not None:
                    t.external_data.add(key=key, value=str(value))
        if content is not None:
            (HERE / location).write_bytes(content)
        put(name, initializer("fc.weight", change), what, mentions)
    external("external_missing", "not_here.data", "its external data file is missing", ["fc.weight", "not_here.data"])
    external("external_parent", "../outside.data", "its external data stand outside the model's folder", ["fc.weight", "../outside.data"])
    external("external_parent_inside", "a/../../outside.data", "a path that leaves the folder on the way", ["fc.weight", "a/../../outside.data"])
    external("external_absolute", "/outside.data", "an absolute path to external data", ["fc.weight", "/outside.data"])
    external("external_short", "external_short.data", "the external file has 100 bytes, 1920 are needed", ["fc.weight", "100", "1920"],
             content=bytes(100))
    external("external_offset", "external_short.data", "an offset behind the file's end", ["fc.weight", "4096"], offset=4096)
    external("external_negative", "external_short.data", "an offset of -8", ["fc.weight", "-8"], offset=-8)
    external("external_length", "external_short.data", "a length of 40 where [5,96] needs 1920", ["fc.weight", "40", "1920"], length=40)
    external("external_number", "external_short.data", "an offset that is no number", ["fc.weight", "twelve"], offset="twelve")
    external("external_folder", ".", "the external data file is a folder", ["fc.weight"])


def types():
    put("int64_matmul", model([node("MatMul", "x w", "logits", "proj")], {"w": np.ones((6, 5), np.int64)},
                              [info("x", ["N", 6], TensorProto.INT64)], [info("logits", ["N", 5], TensorProto.INT64)]),
        "a MatMul of integers: nothing to train", ["proj", "int64"])
    put("mixed_matmul", model([node("MatMul", "x w", "logits", "proj")], {"w": np.ones((6, 5), np.int64)}, [info("x", ["N", 6])],
                              [info("logits", ["N", 5])]), "float times int64", ["proj", "int64"])
    put("float16_matmul", model([node("MatMul", "x w", "logits", "proj")], {"w": weights(6, 5).astype(np.float16)},
                                [info("x", ["N", 6], TensorProto.FLOAT16)], [info("logits", ["N", 5], TensorProto.FLOAT16)]),
        "half-precision weights", ["float16"])
    put("double_matmul", model([node("MatMul", "x w", "logits", "proj")], {"w": weights(6, 5).astype(np.float64)},
                               [info("x", ["N", 6], TensorProto.DOUBLE)], [info("logits", ["N", 5], TensorProto.DOUBLE)]),
        "double-precision weights", ["double"])


def recipes():
    put("nothing_to_train", model([node("Relu", "x", "logits", "relu")], {}, [info("x", ["N", 6])], [info("logits", ["N", 6])]),
        "no parameter at all", ["train"])
    put("only_shape_constants", model([node("Relu", "x", "r", "relu"), node("Reshape", "r shape", "logits", "fold")],
                                      {"shape": np.array([0, -1], np.int64)}, [info("x", ["N", 2, 3])], [info("logits", ["N", 6])]),
        "the only initializer is a shape", ["train"])
    put("two_outputs", model([node("MatMul", "x w", "a", "head_a"), node("MatMul", "x v", "b", "head_b")],
                             {"w": weights(6, 5), "v": weights(6, 3)}, [info("x", ["N", 6])], [info("a", ["N", 5]), info("b", ["N", 3])]),
        "two outputs, neither a scalar nor a softmax, and no --loss", ["a", "b", "--loss"], args=LOSS[2:])
    put("weight_off_the_path", model([node("MatMul", "x w", "h", "proj"), node("Shape", "h", "s", "shape"),
                                      node("ConstantOfShape", "s", "logits", "fill")], {"w": weights(6, 5)}, [info("x", ["N", 6])],
                                     [info("logits", ["N", 5])]), "the weight reaches the loss only through Shape", ["train"])
    put("argmax_output", changed(lambda g: (g.node.append(node("ArgMax", "logits", "class", "argmax", axis=1)),
                                            g.output[0].CopyFrom(info("class", ["N", 1], TensorProto.INT64)))),
        "the output is an ArgMax: no gradient passes", ["argmax", "ArgMax"])
    put("batch_norm_one_value", model(
        [node("MatMul", "x w", "h", "proj"), node("BatchNormalization", "h s b m v", "logits", "norm")],
        {"w": weights(6, 5), "s": np.ones(5, np.float32), "b": np.zeros(5, np.float32), "m": np.zeros(5, np.float32),
         "v": np.ones(5, np.float32)}, [info("x", ["N", 6])], [info("logits", ["N", 5])]),
        "batch statistics over one value: batch 1 and no image", ["norm"], args=[*LOSS[:2], "--batch", "1"])


def names():
    # Of the same length, since protobuf in Python takes only text.
    data = base().SerializeToString()
    put("names_not_utf8", data.replace(b"conv1.weight", b"conv1\xffweight").replace(b"relu_1", b"relu\xc01").replace(b"logits", b"\xed\xa0\x80its"),
        "names of a weight, a node and an output that are not UTF-8", ["conv1\\xffweight", "relu\\xc01", "\\xed\\xa0\\x80its", "rename"])
    put("names_with_zero", data.replace(b"conv1.weight", b"conv1\0weight").replace(b"relu_1", b"relu\0" b"1").replace(b"r2", b"r\0"),
        "names of a weight, a node and a tensor with a character 0", ["conv1\\x00weight", "relu\\x001", "r\\x00", "rename"])
    put("names_of_ends", data.replace(b"\x0a\x01x", b"\x0a\x01\xfe").replace(b"\x12\x01N", b"\x12\x01\x80").replace(b"\x12\x01g", b"\x12\x01\0"),
        "names of an input, of its axis and of the graph that are not text", ["'\\xfe'", "'\\x80'", "'\\x00'", "rename"])
    rename = {"conv1.weight": "optimizer/exp_avg/w", "conv2.weight": "__metadata__", "fc.bias": "optimizer/", "fc.weight": "optimizer"}
    m = base()
    for n in m.graph.node:
        n.input[:] = [rename.get(i, i) for i in n.input]
    for t in m.graph.initializer:
        t.name = rename.get(t.name, t.name)
    put("names_of_checkpoints", m, "parameters with names that checkpoints use otherwise",
        ["optimizer/exp_avg/w", "__metadata__", "'optimizer/'", "rename"])


def odd_but_good():
    rename = {"x": 'in put/"0"', "conv1.weight": "a b/c\\d.weight", "fc.bias": "it's", "logits": "out: [0] #1", "r1": "\t"}
    m = base()
    for n in m.graph.node:
        n.name = f"'{n.name}' / \"{n.name}\""
        n.input[:] = [rename.get(i, i) for i in n.input]
        n.output[:] = [rename.get(o, o) for o in n.output]
    for item in [*m.graph.input, *m.graph.output, *m.graph.initializer]:
        item.name = rename.get(item.name, item.name)
    put("odd_names", m, "names with spaces, quotes and slashes", good=True)
    m = base()
    m.graph.ClearField("name")
    m.graph.doc_string = "x" * 300
    put("no_graph_name", m, "the graph has no name", good=True)
    m = base()
    m.graph.initializer.append(numpy_helper.from_array(weights(7), "unused"))
    put("unused_initializer", m, "an initializer that nobody reads", good=True)
    m = base()
    m.graph.node.append(node("Relu", "f", "nobody", "dead"))
    put("dead_node", m, "a node whose result nobody reads", good=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    for old in [*HERE.glob("*.onnx"), *HERE.glob("*.data")]:
        old.unlink()
    for make in (files, operators, graphs, shapes, tensors, types, names, recipes, odd_but_good):
        make()
    (HERE / "manifest.json").write_text("[\n" + ",\n".join(json.dumps(e) for e in MANIFEST) + "\n]\n")
    print(f"{len(MANIFEST)} models")


if __name__ == "__main__":
    main()
