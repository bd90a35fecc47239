#!/usr/bin/python3
"""Record what PyTorch makes of each recipe: how a net is trained, beside what it is. For recipe_test.cpp.

A net with three outputs and one with a batch norm, and for each recipe the options of pockc and of the trainer, and the loss of every step in
float64 and in float32. The folder recipes/ beside this script receives
  model.onnx, normed.onnx        the nets before the first step, batch axis "N"
  data.npy, scores.npy, ...      the data, and the labels of each output: they are used in file order, epoch after epoch
  class_weights.txt              for cross-entropy
  curves.json                    the recipes
"""
import argparse
import json
import math
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


class Normed(nn.Module):
    """The scores alone, behind a batch norm."""

    def __init__(self):
        super().__init__()
        self.body, self.norm = nn.Linear(21, 24, bias=False), nn.BatchNorm1d(24, momentum=0.2)
        self.scores = nn.Linear(24, 15)

    def forward(self, x):
        y = torch.tanh(self.norm(self.body(torch.flatten(x, 1))))
        return (self.scores(y).reshape(-1, 3, 5),)


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
    batches = 1  # a step
    kind, model = Heads, "model.onnx"

    def __init__(self, compile, optimizer, train=()):
        self.compile, self.train, self.optimizer = list(compile), list(train), optimizer

    def schedule(self, optimizer):
        """A scheduler of PyTorch."""
        return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)

    def clip(self, parameters):
        pass

    def loss(self, outputs, labels, dtype):
        return F.cross_entropy(outputs[0], labels["scores"], ignore_index=-1)


class Lion(torch.optim.Optimizer):
    """As its paper has it; PyTorch has none."""

    def __init__(self, params, lr, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (beta1, beta2), lr, decay = group["betas"], group["lr"], group["weight_decay"]
            for p in (p for p in group["params"] if p.grad is not None):
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                p -= lr * ((beta1 * m + (1 - beta1) * p.grad).sign() + decay * p)
                m.mul_(beta2).add_(p.grad, alpha=1 - beta2)


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


def with_optimizer(text, make):
    return Recipe(ENTROPY + ["--optimizer", text], make)


def sgd(params):
    return torch.optim.SGD(params, lr=0.2)


def adamw(params):
    return torch.optim.AdamW(params, lr=0.02, weight_decay=0.1)


class Scheduled(Recipe):
    """Decoupled weight decay follows the rate too."""

    def __init__(self, text, schedule, train=()):
        super().__init__(ENTROPY + ["--optimizer", "adamw:lr=0.02,weight_decay=0.1", "--schedule", text], adamw, train)
        self.schedule = schedule


def warmed_up(warmup, after):
    """The factor of the rate: equal parts up to 1, then `after` of the steps since."""
    return lambda o: torch.optim.lr_scheduler.LambdaLR(
        o, lambda step: (step + 1) / warmup if step < warmup else after(step - warmup))


class Gathered(Recipe):
    """Several batches a step, and clipping."""

    def __init__(self, options, batches=1, value=None, norm=None, train=()):
        super().__init__(ENTROPY + ["--optimizer", "sgd:lr=0.2,momentum=0.9"] + options,
                         lambda p: torch.optim.SGD(p, lr=0.2, momentum=0.9), train)
        self.batches, self.value, self.norm = batches, value, norm

    def clip(self, parameters):
        parameters = list(parameters)
        if self.value:
            nn.utils.clip_grad_value_(parameters, self.value)
        if self.norm:
            nn.utils.clip_grad_norm_(parameters, self.norm)


class GatheredNormed(Gathered):
    """Statistics of each batch by itself; the running ones follow every batch of a step."""

    kind, model = Normed, "normed.onnx"


RECIPES = {
    "three losses": Losses(THREE + ["--optimizer", "sgd:lr=0.2"], sgd),
    "nesterov": with_optimizer("sgd:lr=0.1,momentum=0.9,nesterov=1,weight_decay=0.01",
                               lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)),
    "adam": with_optimizer("adam:lr=0.02,weight_decay=0.01", lambda p: torch.optim.Adam(p, lr=0.02, weight_decay=0.01)),
    "adamw": with_optimizer("adamw:lr=0.02,beta1=0.8,beta2=0.95,weight_decay=0.1",
                            lambda p: torch.optim.AdamW(p, lr=0.02, betas=(0.8, 0.95), weight_decay=0.1)),
    "adagrad": with_optimizer("adagrad:lr=0.1,lr_decay=0.02,initial_accumulator_value=0.1,weight_decay=0.01",
                              lambda p: torch.optim.Adagrad(p, lr=0.1, lr_decay=0.02, initial_accumulator_value=0.1,
                                                            weight_decay=0.01)),
    "rmsprop": with_optimizer("rmsprop:lr=0.01,alpha=0.9", lambda p: torch.optim.RMSprop(p, lr=0.01, alpha=0.9)),
    "rmsprop centered": with_optimizer("rmsprop:lr=0.002,alpha=0.95,eps=1e-4,momentum=0.8,centered=1,weight_decay=0.01",
                                       lambda p: torch.optim.RMSprop(p, lr=0.002, alpha=0.95, eps=1e-4, momentum=0.8,
                                                                     centered=True, weight_decay=0.01)),
    "lion": with_optimizer("lion:lr=0.01,beta1=0.8,beta2=0.95,weight_decay=0.1",
                           lambda p: Lion(p, 0.01, (0.8, 0.95), 0.1)),
    "warm-up": Scheduled("constant:warmup=7", warmed_up(7, lambda step: 1.0)),
    "step": Scheduled("step:step_size=4,gamma=0.5", lambda o: torch.optim.lr_scheduler.StepLR(o, 4, 0.5)),
    "step after a warm-up": Scheduled("step:step_size=10,warmup=5", warmed_up(5, lambda step: 0.1 ** (step // 10))),
    "cosine": Scheduled("cosine:min_lr=0.001,steps=30",
                        lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 30, 0.001)),
    "cosine over the whole run": Scheduled(
        "cosine:warmup=6", warmed_up(6, lambda step: (1 + math.cos(math.pi * step / (STEPS - 6))) / 2)),
    "linear": Scheduled("linear:steps=20,min_lr=0.002",
                        lambda o: torch.optim.lr_scheduler.LinearLR(o, 1.0, 0.1, 20)),
    "linear, changed at run time": Scheduled(
        "linear", warmed_up(4, lambda step: 1 - min(step / 16, 1)), ["--opt", "warmup=4", "--opt", "steps=20"]),
    "accumulated": Gathered(["--accumulate", "2"], batches=2),
    "accumulated by threes, said at run time": Gathered(["--accumulate", "2"], batches=3, train=["--accumulate", "3"]),
    "values clipped": Gathered(["--clip-value", "0.03"], value=0.03),
    "norm clipped": Gathered(["--clip-norm", "0.25"], norm=0.25),
    "a norm that is never reached": Gathered(["--clip-norm", "100", "--skip-nonfinite"], norm=100),
    "accumulated and clipped twice": Gathered(
        ["--accumulate", "4", "--clip-value", "0.05", "--clip-norm", "9", "--skip-nonfinite"], 4, 0.05, 0.2,
        train=["--opt", "clip_norm=0.2"]),
    "accumulated behind a batch norm": GatheredNormed(["--accumulate", "2"], batches=2),
}


def rows_of(data, first, count):
    return {k: torch.from_numpy(v[first:first + count].astype("i8" if k == "scores" else v.dtype)) for k, v in data.items()}


def scores_of_all(recipe, net, data):
    """What evaluation gives: loss and accuracy over all samples."""
    net, rows = net.double().eval(), rows_of(data, 0, SAMPLES)
    with torch.no_grad():
        outputs = net(rows["data"].double())
    counted = rows["scores"] != -1
    right = (outputs[0].argmax(1) == rows["scores"])[counted]
    return {"loss": recipe.loss(outputs, rows, torch.float64).item(), "accuracy": right.double().mean().item()}


def run(recipe, dtype, data):
    net = make_net(recipe.kind).to(dtype)
    optimizer = recipe.optimizer(net.parameters())
    schedule = recipe.schedule(optimizer)
    losses, rates = [], []
    samples = BATCH * recipe.batches
    for step in range(STEPS):
        optimizer.zero_grad()
        losses.append(0.0)
        for batch in range(recipe.batches):
            rows = rows_of(data, step % (SAMPLES // samples) * samples + batch * BATCH, BATCH)
            loss = recipe.loss(net(rows["data"].to(dtype)), rows, dtype) / recipe.batches
            loss.backward()
            losses[-1] += loss.item()
        recipe.clip(net.parameters())
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return losses, rates, scores_of_all(recipe, net, data)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    torch.set_num_threads(1)
    HERE.mkdir(exist_ok=True)
    data = make_data()
    for name, array in data.items():
        np.save(HERE / f"{name}.npy", array)
    (HERE / "class_weights.txt").write_text("".join(f"{w}\n" for w in CLASS_WEIGHTS))
    for kind, model, outputs in ((Exported, "model.onnx", ["scores", "box", "flag"]), (Normed, "normed.onnx", ["scores"])):
        torch.onnx.export(make_net(kind).eval(), torch.zeros(2, 3, 7), str(HERE / model), opset_version=13,
                          training=torch.onnx.TrainingMode.PRESERVE, input_names=["x"], output_names=outputs,
                          dynamic_axes={n: {0: "N"} for n in ["x"] + outputs})
        onnx.checker.check_model(onnx.load(str(HERE / model)))
    curves = {}
    for name, recipe in RECIPES.items():
        (loss64, rates, after64), (loss32, _, after32) = run(recipe, torch.float64, data), run(recipe, torch.float32, data)
        apart = max(abs(a - b) / abs(a) for a, b in zip(loss64, loss32))
        print(f"{name}: loss {loss64[0]:.4f} -> {loss64[-1]:.4f}, float32 is off by {apart:.1e}")
        curves[name] = {"model": recipe.model, "compile": recipe.compile, "train": recipe.train, "labels": recipe.labels,
                        "before": scores_of_all(recipe, make_net(recipe.kind), data), "after64": after64["loss"],
                        "after32": after32["loss"], "rates": rates, "loss64": loss64, "loss32": loss32}
    (HERE / "curves.json").write_text(json.dumps({"batch": BATCH, "steps": STEPS, "recipes": curves}, indent=1) + "\n")


if __name__ == "__main__":
    main()
