#!/usr/bin/python3
"""Record what PyTorch makes of each loss: losses.json, for loss_test.cpp.

For each case the loss as on pockc's command line, scores, labels, and in float64 the loss and its gradient with respect to
the scores. Numbers are rounded so that float32 holds them exactly. "class_weights" stand beside, as pockc reads them from a
file.
"""
import json
import pathlib

import numpy as np
import torch
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent


def numbers(rng, *shape):
    return np.round(rng.normal(0, 2, shape) * 256) / 256


def classes(rng, shape, ignored=None):
    n, c, *rest = shape
    labels = rng.integers(0, c, (n, *rest))
    if ignored is not None:
        labels.flat[rng.choice(labels.size, max(1, labels.size // 3), replace=False)] = ignored
    return labels


def case(loss, module, scores, labels, class_weights=None, transposed=False):
    """`transposed`: the classes are the last axis, which PyTorch wants as the second."""
    x = torch.tensor(scores, requires_grad=True)
    y = torch.tensor(labels)
    value = module(x.movedim(-1, 1) if transposed else x, y)
    value.backward()
    return {"loss": loss, "shape": list(scores.shape), "scores": scores.ravel().tolist(),
            "labels": labels.ravel().tolist(), "label_shape": list(labels.shape),
            "class_weights": [] if class_weights is None else class_weights.tolist(),
            "value": value.item(), "gradient": x.grad.numpy().ravel().tolist()}


def main():
    rng = np.random.default_rng(4)
    weights = {c: np.round(rng.uniform(0.2, 3, c) * 64) / 64 for c in (3, 8)}

    def entropy(text, shape, ignored=None, smoothing=0.0, weighted=False, transposed=False):
        class_shape = (shape[0], shape[-1], *shape[1:-1]) if transposed else shape
        w = weights[class_shape[1]] if weighted else None
        module = nn.CrossEntropyLoss(weight=None if w is None else torch.tensor(w), label_smoothing=smoothing,
                                     ignore_index=-100 if ignored is None else ignored)
        return case(text, module, numbers(rng, *shape), classes(rng, class_shape, ignored), w, transposed)

    def causal(text, shape, ignored, smoothing=0.0):
        entropy_of = nn.CrossEntropyLoss(ignore_index=ignored, label_smoothing=smoothing)

        def next_tokens(x, y):
            return entropy_of(x[:, :-1].flatten(0, 1), y[:, 1:].flatten())

        return case(text, next_tokens, numbers(rng, *shape), classes(rng, (shape[0], shape[2], shape[1]), ignored))

    def each(text, module, shape, low=-4.0, high=4.0):
        labels = np.round(rng.uniform(low, high, shape) * 64) / 64
        return case(text, module, numbers(rng, *shape), labels)

    cases = [
        entropy("cross-entropy", (6, 8)),
        entropy("cross-entropy", (2, 3, 4)),
        entropy("cross-entropy:ignore_index=-100", (7, 8), ignored=-100),
        entropy("cross-entropy:ignore_index=0", (7, 8), ignored=0),
        entropy("cross-entropy:ignore_index=255", (2, 3, 3, 5), ignored=255, weighted=True),
        entropy("cross-entropy", (6, 8), weighted=True),
        entropy("cross-entropy:label_smoothing=0.125", (6, 8), smoothing=0.125),
        entropy("cross-entropy:label_smoothing=0.25,ignore_index=2", (9, 8), ignored=2, smoothing=0.25, weighted=True),
        entropy("cross-entropy:label_smoothing=0.5,ignore_index=-1", (2, 4, 3, 2), ignored=-1, smoothing=0.5),
        entropy("cross-entropy:axis=-1,ignore_index=4", (3, 4, 8), ignored=4, weighted=True, transposed=True),
        each("bce", nn.BCEWithLogitsLoss(), (6, 1), 0, 1),
        each("bce", nn.BCEWithLogitsLoss(), (2, 3, 4), 0, 1),
        each("mse", nn.MSELoss(), (4, 3, 2)),
        each("l1", nn.L1Loss(), (4, 3, 2)),
        each("huber", nn.HuberLoss(), (5, 7)),
        each("huber:delta=2.5", nn.HuberLoss(delta=2.5), (5, 7)),
        each("huber:delta=0.25", nn.HuberLoss(delta=0.25), (8,)),
        causal("causal-lm", (3, 5, 8), -100),
        causal("causal-lm:ignore_index=2,label_smoothing=0.25", (2, 7, 8), 2, 0.25),
        causal("causal-lm:ignore_index=-1", (4, 2, 3), -1),
    ]
    (HERE / "losses.json").write_text(json.dumps(cases) + "\n")
    print(f"{len(cases)} cases: losses.json")


if __name__ == "__main__":
    main()
