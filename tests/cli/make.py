#!/usr/bin/python3
"""Writes the small models of cli_test: names that pock uses itself, and inputs that do not hold samples."""
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).parent
ROWS = np.random.default_rng(0)


def weight(name, *dims):
    return numpy_helper.from_array((ROWS.normal(size=dims) * 0.3).astype(np.float32), name)


def save(name, nodes, inputs, output, weights):
    value = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node(op, ins, [out]) for op, ins, out in nodes], name,
                              [value(n, TensorProto.FLOAT, d) for n, d in inputs],
                              [value(output, TensorProto.FLOAT, ["N", 3])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, HERE / f"{name}.onnx")


def save_own_loss():
    """Scores of three classes, and their loss as a node of the model: class ids are an input, 9 is ignored."""
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]),
             helper.make_node("SoftmaxCrossEntropyLoss", ["a", "target", "class_weights"], ["loss"], ignore_index=9)]
    graph = helper.make_graph(nodes, "own_loss", [value("x", TensorProto.FLOAT, ["N", 5]), value("target", TensorProto.INT64, ["N"])],
                              [value("loss", TensorProto.FLOAT, [])], [weight("w", 5, 3), numpy_helper.from_array(
                                  np.array([0.5, 2, 1], np.float32), "class_weights")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, HERE / "own_loss.onnx")


def save_types():
    """An output of floats, one of int64 and one of booleans."""
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("Mul", ["x", "w"], ["a"]),
             helper.make_node("MaxPool", ["a"], ["y", "at"], name="pool", kernel_shape=[2], strides=[2]),
             helper.make_node("Dropout", ["a"], ["b", "kept"])]
    graph = helper.make_graph(nodes, "types", [value("x", TensorProto.FLOAT, ["N", 1, 4])],
                              [value("y", TensorProto.FLOAT, ["N", 1, 2]), value("at", TensorProto.INT64, ["N", 1, 2]),
                               value("kept", TensorProto.BOOL, ["N", 1, 4])],
                              [numpy_helper.from_array(np.ones(4, np.float32), "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, HERE / "types.onnx")


def save_large():
    """A weight of more than 256 MiB whose data the test makes: mean(x large) w."""
    value = helper.make_tensor_value_info
    rows, columns = 8200, 8192
    large = TensorProto(name="large", data_type=TensorProto.FLOAT, dims=[rows, columns],
                        data_location=TensorProto.EXTERNAL)
    for key, text in (("location", "large.data"), ("offset", "0"), ("length", str(rows * columns * 4))):
        large.external_data.add(key=key, value=text)
    nodes = [helper.make_node("MatMul", ["x", "large"], ["a"]),
             helper.make_node("ReduceMean", ["a"], ["b"], axes=[1]),
             helper.make_node("MatMul", ["b", "w"], ["y"])]
    graph = helper.make_graph(nodes, "large", [value("x", TensorProto.FLOAT, ["N", rows])],
                              [value("y", TensorProto.FLOAT, ["N", 3])],
                              [large, numpy_helper.from_array(np.array([[1, -2, 3]], np.float32), "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (HERE / "large.onnx").write_bytes(model.SerializeToString())


def save_constant_output():
    """Scores, and an output of weights alone, which holds no samples."""
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Relu", ["w"], ["z"])]
    graph = helper.make_graph(nodes, "constant_output", [value("x", TensorProto.FLOAT, ["N", 5])],
                              [value("y", TensorProto.FLOAT, ["N", 3]), value("z", TensorProto.FLOAT, [5, 3])],
                              [numpy_helper.from_array(np.ones((5, 3), np.float32), "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, HERE / "constant_output.onnx")


X = ("x", ["N", 5])
save("optimizer_names", [("MatMul", ["x", "lr"], "a"), ("Add", ["a", "lr.momentum_buffer"], "b"), ("Mul", ["b", "step"], "loss")],
     [X], "loss", [weight("lr", 5, 3), weight("lr.momentum_buffer", 3), weight("step", 3)])
save("labels_parameter", [("MatMul", ["x", "labels"], "y")], [X], "y", [weight("labels", 5, 3)])
save("labels_input", [("MatMul", ["x", "w"], "a"), ("Sub", ["a", "labels"], "y")], [X, ("labels", ["N", 3])], "y",
     [weight("w", 5, 3)])
save("scalar_input", [("MatMul", ["x", "w"], "a"), ("Mul", ["a", "s"], "y")], [("s", []), X], "y", [weight("w", 5, 3)])
save("unbatched_input", [("MatMul", ["x", "w"], "a"), ("Mul", ["a", "s"], "y")], [X, ("s", [1, 3])], "y",
     [weight("w", 5, 3)])
save_own_loss()
save_types()
save_constant_output()
save_large()
STEP = 'the "step"\nhere'
save("step", [("MatMul", ["x", "below"], "a"), ("Round", ["a"], STEP), ("MatMul", [STEP, "above"], "y")], [X], "y",
     [weight("below", 5, 4), weight("above", 4, 3)])
