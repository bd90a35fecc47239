"""LoRA: onnxruntime gives of the merged model what the trainer predicts with its adapters apart."""
import pathlib
import sys

import numpy as np

import common

pockc, out, _ = map(pathlib.Path, sys.argv[1:])
out.mkdir(parents=True, exist_ok=True)
lenet = common.ROOT / "tests/train/lenet"
data, labels, model = lenet / "data.npy", lenet / "labels.npy", lenet / "model.onnx"
common.run(pockc, "compile", model, "-o", out / "trainer", "--batch", 8, "--loss", "cross-entropy",
           "--sparse-scheme", "lora:4", "--optimizer", "adam:lr=0.01")
common.run(out / "trainer", "train", "--data", data, "--labels", labels, "--epochs", 5, "--checkpoint", out / "c.safetensors")
common.run(out / "trainer", "predict", "--data", data, "--weights", out / "c.safetensors", "--output", out / "scores.npy")
common.run(pockc, "export", model, "--weights", out / "c.safetensors", "-o", out / "merged.onnx",
           "--adapters", out / "adapter_model.safetensors")
scores, x = np.load(out / "scores.npy"), np.load(data)
(before,), (after,) = (common.session(str(m)).run(None, {"x": x}) for m in (model, out / "merged.onnx"))
assert np.abs(after - before).max() > 0.5, "nothing was learnt"
common.expect_close(after, scores, 1e-5, "scores of the merged model")
