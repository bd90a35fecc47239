"""The text direction classifier of rapidocr-onnxruntime: weights in Constant nodes, live batch norm, symbolic sizes.

It trains 50 steps, one process each, so that the weights before every step are known. With these, onnxruntime computes
the step's loss and batch statistics, by arithmetic that is written out here; the running statistics follow from those.
"""
import json
import pathlib
import sys

import numpy as np
import onnx.numpy_helper
from onnx import TensorProto, helper

import common

BATCH, HEIGHT, WIDTH, STEPS, MOMENTUM = 8, 48, 96, 50, 0.9
pockc, out, pypi = map(pathlib.Path, sys.argv[1:])
original = pypi / "wheels/ch_ppocr_mobile_v2.0_cls_infer.onnx"
trainer, checkpoint, tuned = out / "trainer", out / "ocr.safetensors", out / "tuned.onnx"
out.mkdir(exist_ok=True)
checkpoint.unlink(missing_ok=True)


def lines_of_text(count):
    """Strokes on a base line, upright or upside down."""
    random = np.random.default_rng(1)
    images = random.normal(0, 0.6, (count, 3, HEIGHT, WIDTH)).astype(np.float32)
    labels = random.integers(0, 2, count).astype(np.int64)
    for image, label in zip(images, labels):
        image[:, 36:40] += 0.5
        for at in range(4, WIDTH - 6, 8):
            image[:, random.integers(8, 30) : 38, at : at + random.integers(2, 6)] += 0.8
        if label:
            image[:] = image[:, ::-1, ::-1].copy()
    return images, labels


def with_batch_statistics():
    """The model with every batch norm written out over its batch, whose mean and variance are outputs as well; and for each
    norm the names of its output and its statistics."""
    model = onnx.load(original)
    nodes, norms = [], []
    for node in model.graph.node:
        if node.op_type != "BatchNormalization":
            nodes.append(node)
            continue
        x, scale, shift, mean, variance = node.input
        (y,) = node.output
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        epsilon = onnx.numpy_helper.from_array(np.float32(attributes["epsilon"]))
        column = onnx.numpy_helper.from_array(np.array([1, -1, 1, 1]))
        nodes += [
            helper.make_node("Constant", [], [y + ".epsilon"], value=epsilon),
            helper.make_node("Constant", [], [y + ".column"], value=column),
            helper.make_node("Reshape", [scale, y + ".column"], [y + ".scale"]),
            helper.make_node("Reshape", [shift, y + ".column"], [y + ".shift"]),
            helper.make_node("ReduceMean", [x], [y + ".mean"], axes=[0, 2, 3]),
            helper.make_node("Sub", [x, y + ".mean"], [y + ".centred"]),
            helper.make_node("Mul", [y + ".centred", y + ".centred"], [y + ".squares"]),
            helper.make_node("ReduceMean", [y + ".squares"], [y + ".variance"], axes=[0, 2, 3]),
            helper.make_node("Add", [y + ".variance", y + ".epsilon"], [y + ".sum"]),
            helper.make_node("Sqrt", [y + ".sum"], [y + ".deviation"]),
            helper.make_node("Div", [y + ".centred", y + ".deviation"], [y + ".normal"]),
            helper.make_node("Mul", [y + ".normal", y + ".scale"], [y + ".scaled"]),
            helper.make_node("Add", [y + ".scaled", y + ".shift"], [y])]
        norms.append((y, mean, variance))
        assert attributes["momentum"] == np.float32(MOMENTUM)
    model.graph.ClearField("node")
    model.graph.node.extend(nodes)
    for y, *_ in norms:
        model.graph.output.extend([helper.make_tensor_value_info(y + part, TensorProto.FLOAT, None)
                                   for part in (".mean", ".variance")])
    return model, norms


def put(model, weights):
    for name, tensor in common.tensors(model).items():
        if name in weights:
            tensor.CopyFrom(onnx.numpy_helper.from_array(weights[name]))


images, labels = lines_of_text(4 * BATCH)
np.save(out / "images.npy", images)
np.save(out / "labels.npy", labels)
common.run(pockc, "compile", original, "--batch", BATCH, "--dim", f"x:2={HEIGHT}", "--dim", f"x:3={WIDTH}",
           "--optimizer", "sgd:lr=0.0005,momentum=0.9", "-o", trainer)

model, norms = with_batch_statistics()
assert len(norms) == 35
weights = {name: onnx.numpy_helper.to_array(t) for name, t in common.tensors(onnx.load(original)).items()}
start = dict(weights)
running = {name: weights[name].astype(np.float64) for _, mean, variance in norms for name in (mean, variance)}
losses, expected = [], []
for step in range(STEPS):
    resume = ["--resume", checkpoint] if step else []
    log = common.run(trainer, "train", "--data", out / "images.npy", "--labels", out / "labels.npy", "--no-shuffle", "--steps",
                     step + 1, "--log", "json", "--checkpoint", checkpoint, *resume)
    losses += [line["loss"] for line in map(json.loads, log.splitlines()) if "loss" in line]
    rows = slice(step % 4 * BATCH, step % 4 * BATCH + BATCH)
    put(model, weights)
    session = common.session(model)
    values = dict(zip((o.name for o in session.get_outputs()), session.run(None, {"x": images[rows]})))
    probabilities = values[model.graph.output[0].name]
    expected.append(-np.mean(np.log(probabilities[np.arange(BATCH), labels[rows]])))
    for y, mean, variance in norms:
        for name, part in ((mean, ".mean"), (variance, ".variance")):
            running[name] = MOMENTUM * running[name] + (1 - MOMENTUM) * values[y + part].ravel()
    weights = common.read_safetensors(checkpoint)

losses, expected = np.array(losses), np.array(expected)
assert len(losses) == STEPS, f"{len(losses)} losses"
distance = np.max(np.abs(losses - expected) / expected)
assert distance < 1e-3, f"losses: relative distance {distance:.3g}"
print(f"losses of {STEPS} steps: relative distance {distance:.3g}; from {losses[:5].mean():.4g} to {losses[-5:].mean():.4g}")
assert losses[-5:].mean() < 0.5 * losses[:5].mean(), "the loss does not fall"
for name, want in running.items():
    # Where a mean hardly moves, what 35 layers in float leave of its digits is all there is.
    change, digits = np.max(np.abs(want - start[name])), 2e-6 * np.max(np.abs(want))
    distance = np.max(np.abs(weights[name] - want))
    assert distance <= max(1e-3 * change, digits), f"{name}: off by {distance:.3g}, changed by {change:.3g}"
print(f"{len(running)} running statistics follow the batches")

common.run(pockc, "export", original, "--weights", checkpoint, "-o", tuned)
common.expect_only_trained(original, tuned, checkpoint)
common.run(trainer, "predict", "--data", out / "images.npy", "--weights", checkpoint, "--output", out / "scores.npy")
(scores,) = common.session(str(tuned)).run(None, {"x": images})
common.expect_close(scores, np.load(out / "scores.npy"), 1e-5, "probabilities of the tuned model")
