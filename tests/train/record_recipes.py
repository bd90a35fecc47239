#!/usr/bin/python3
"""Record what PyTorch makes of each recipe: how a net is trained, beside what it is. For recipe_test.cpp.

One net with three outputs, and for each recipe the options of pockc and of the trainer, and the loss of every step in
float64 and in float32. The folder recipes/ beside this script receives
  model.onnx                     the net before the first step, batch axis "N"
  data.npy, scores.npy, ...      the data, and the labels of each output: they are used in file order, epoch after epoch
  class_weights.txt              for cross-entropy
  curves.json                    the recipes
"""
import argparse
import json
import pathlib

import numpy as np
import onnx
import torch
from torch import nn
from torch.nn import functional as F

HERE = pathlib.Path(__file__).resolve().parent / "recipes"
SEED, SAMPLES, BATCH, STEPS = 3, 84, 8, 30
CLASS_WEIGHTS = [0.5, 2.0, 1.25]


class Heads(nn.Module):
    """Scores of 3 classes at 5 places, a box of 4 numbers, and a probability."""

    def __init__(self):
        super().__init__()
        self.body, self.scores = nn.Linear(21, 24), nn.Linear(24, 15)
        self.box, self.flag = nn.Linear(24, 4), nn.Linear(24, 1)

    def forward(self, x):
        y = torch.tanh(self.body(torch.flatten(x, 1)))
        return self.scores(y).reshape(-1, 3, 5), self.box(y), self.flag(y)


class Exported(Heads):
    def forward(self, x):
        scores, box, flag = super().forward(x)
        return scores, box, torch.sigmoid(flag)


def make_net(kind=Heads):
    torch.manual_seed(SEED)
    return kind()


def make_data():
    rng = np.random.default_rng(SEED)
    data = rng.standard_normal((SAMPLES, 3, 7)).astype("<f4")
    mix = rng.standard_normal((21, 3 * 5 + 4 + 1)) / 3
    hidden = np.tanh(data.reshape(SAMPLES, 21) @ mix)
    scores = hidden[:, :15].reshape(SAMPLES, 3, 5).argmax(1)
    scores[rng.random(scores.shape) < 0.25] = -1
    return {"data": data, "scores": scores.astype("<i8"), "box": (2 * hidden[:, 15:19]).astype("<f4"),
            "flag": (hidden[:, 19:] > 0).astype("u1")}


class Recipe:
    """`compile` and `train` are options of pockc and of the trainer; the rest says the same to PyTorch."""

    labels = ["scores"]

    def __init__(self, compile, train=()):
        self.compile, self.train = list(compile), list(train)

    def loss(self, outputs, labels, dtype):
        return F.cross_entropy(outputs[0], labels["scores"], ignore_index=-1)


class Losses(Recipe):
    labels = ["scores", "box", "flag"]

    def loss(self, outputs, labels, dtype):
        weights = torch.tensor(CLASS_WEIGHTS, dtype=dtype)
        return (F.cross_entropy(outputs[0], labels["scores"], weight=weights, ignore_index=-1, label_smoothing=0.1)
                + 0.5 * F.huber_loss(outputs[1], labels["box"].to(dtype), delta=0.75)
                + 2 * F.binary_cross_entropy_with_logits(outputs[2], labels["flag"].to(dtype)))


ENTROPY = ["--loss", "cross-entropy:ignore_index=-1"]
THREE = ["--loss", "scores=cross-entropy:class_weights=class_weights.txt,ignore_index=-1,label_smoothing=0.1",
         "--loss", "box=huber:delta=0.75,weight=0.5", "--loss", "flag=bce:weight=2"]
RECIPES = {
    "three losses": Losses(THREE + ["--optimizer", "sgd:lr=0.2"]),
}


def rows_of(data, first, count):
    return {k: torch.from_numpy(v[first:first + count].astype("i8" if k == "scores" else v.dtype)) for k, v in data.items()}


def scores_of_all(recipe, data):
    """What evaluation gives before the first step: loss and accuracy over all samples."""
    net, rows = make_net().double(), rows_of(data, 0, SAMPLES)
    with torch.no_grad():
        outputs = net(rows["data"].double())
    counted = rows["scores"] != -1
    right = (outputs[0].argmax(1) == rows["scores"])[counted]
    return {"loss": recipe.loss(outputs, rows, torch.float64).item(), "accuracy": right.double().mean().item()}


def run(recipe, dtype, data):
    net = make_net().to(dtype)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.2)
    losses = []
    for step in range(STEPS):
        rows = rows_of(data, step % (SAMPLES // BATCH) * BATCH, BATCH)
        loss = recipe.loss(net(rows["data"].to(dtype)), rows, dtype)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    torch.set_num_threads(1)
    HERE.mkdir(exist_ok=True)
    data = make_data()
    for name, array in data.items():
        np.save(HERE / f"{name}.npy", array)
    (HERE / "class_weights.txt").write_text("".join(f"{w}\n" for w in CLASS_WEIGHTS))
    torch.onnx.export(make_net(Exported), torch.zeros(2, 3, 7), str(HERE / "model.onnx"), opset_version=13,
                      input_names=["x"], output_names=["scores", "box", "flag"],
                      dynamic_axes={n: {0: "N"} for n in ("x", "scores", "box", "flag")})
    onnx.checker.check_model(onnx.load(str(HERE / "model.onnx")))
    curves = {}
    for name, recipe in RECIPES.items():
        loss64, loss32 = run(recipe, torch.float64, data), run(recipe, torch.float32, data)
        apart = max(abs(a - b) / abs(a) for a, b in zip(loss64, loss32))
        print(f"{name}: loss {loss64[0]:.4f} -> {loss64[-1]:.4f}, float32 is off by {apart:.1e}")
        curves[name] = {"compile": recipe.compile, "train": recipe.train, "labels": recipe.labels,
                        "before": scores_of_all(recipe, data), "loss64": loss64, "loss32": loss32}
    (HERE / "curves.json").write_text(json.dumps({"batch": BATCH, "steps": STEPS, "recipes": curves}, indent=1) + "\n")


if __name__ == "__main__":
    main()
