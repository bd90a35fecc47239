"""The README's first command, shortened: onnxruntime gives the predictions of the trainer."""
import pathlib
import sys

import numpy as np

import common

pockc, out, _ = map(pathlib.Path, sys.argv[1:])
example = common.ROOT / "examples/fashion-mnist"
common.run(example / "train.sh", pockc, out, "--steps", "100")
common.expect_only_trained(example / "fashion_cnn.onnx", out / "fashion_tuned.onnx", out / "fashion.safetensors")

pixels = np.frombuffer((out / "t10k-images-idx3-ubyte").read_bytes()[16:], np.uint8).reshape(-1, 1, 28, 28)
images = (pixels * np.float32(0.00392156862745098) - np.float32(0.2860)) / np.float32(0.3530)
scores = np.load(out / "scores.npy")
labels = np.frombuffer((out / "t10k-labels-idx1-ubyte").read_bytes()[8:], np.uint8)
accuracy = np.mean(scores.argmax(1) == labels)
assert accuracy > 0.6, f"accuracy {accuracy}: nothing was learnt"
(logits,) = common.session(str(out / "fashion_tuned.onnx")).run(None, {"image": images})
common.expect_close(logits, scores, 1e-5, "scores of the test images")
