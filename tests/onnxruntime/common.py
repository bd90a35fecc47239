"""What the comparisons with onnxruntime share."""
import json
import pathlib
import subprocess

import numpy as np
import onnx.numpy_helper
import onnxruntime

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*command, **options):
    """Runs a program; its output, or the end of the test with what it said."""
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, **options)
    if done.returncode:
        raise SystemExit(f"exit status {done.returncode}: {' '.join(map(str, command))}")
    return done.stdout


def read_safetensors(path):
    """The arrays of a checkpoint, all of which are float, without the optimizer's."""
    data = pathlib.Path(path).read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    arrays = {}
    for name, entry in header.items():
        if name == "__metadata__" or name.startswith("optimizer/"):
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        arrays[name] = np.frombuffer(data[begin:end], "<f4").reshape(entry["shape"])
    return arrays


def tensors(model):
    """Every tensor of the file by its name: initializers and Constants."""
    named = {t.name: t for t in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant":
            named.update({node.output[0]: a.t for a in node.attribute if a.name == "value"})
    return named


def session(model):
    """`model` is a path or a message."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model if isinstance(model, str) else model.SerializeToString(), options,
                                        providers=["CPUExecutionProvider"])


def expect_close(got, want, tolerance, what):
    assert got.shape == want.shape, f"{what}: shapes {got.shape} and {want.shape}"
    distance = np.max(np.abs(got - want) / np.maximum(1, np.abs(want)))
    assert distance <= tolerance, f"{what}: distance {distance:.3g}, more than {tolerance}"
    print(f"{what}: distance {distance:.3g}")


def expect_only_trained(original, tuned, checkpoint):
    """The tuned file holds the checkpoint's bits, and but for these it is the original, to the byte."""
    before, after, trained = onnx.load(original), onnx.load(tuned), read_safetensors(checkpoint)
    old, new = tensors(before), tensors(after)
    assert trained.keys() <= new.keys(), f"not in the model: {trained.keys() - new.keys()}"
    changed = 0
    for name, array in trained.items():
        assert np.array_equal(onnx.numpy_helper.to_array(new[name]), array), f"{name} is not the checkpoint's"
        changed += new[name] != old[name]
        new[name].CopyFrom(old[name])
    # All but a weight that happens to have no gradient, behind a relu that passes nothing.
    assert changed >= 0.95 * len(trained), f"only {changed} of {len(trained)} tensors have changed"
    assert after.SerializeToString(deterministic=True) == before.SerializeToString(deterministic=True)
    assert pathlib.Path(original).stat().st_size == pathlib.Path(tuned).stat().st_size
    print(f"{changed} of {len(new)} tensors have changed, and nothing else")
