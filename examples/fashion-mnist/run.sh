#!/usr/bin/env bash
# The main job: sets pock up, builds it, compiles a small CNN and trains it on Fashion-MNIST.
# Run it from anywhere; everything it makes is under build/.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/setup.sh build example
tools/build.sh release pockc

out=build/fashion-mnist
mkdir -p "$out"
for part in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do
  [ -s "$out/$part-ubyte" ] || gunzip -c "/usr/share/datasets/fashion-mnist/$part-ubyte.gz" >"$out/$part-ubyte"
done

build/release/tools/pockc compile examples/fashion-mnist/fashion_cnn.onnx -o "$out/trainer" \
  --batch 64 --loss cross-entropy --optimizer sgd:lr=0.03,momentum=0.9 \
  --input-scale 0.00392156862745098 --input-mean 0.2860 --input-std 0.3530 --report "$out/report.json"
"$out/trainer" train --data "$out/train-images-idx3-ubyte" --labels "$out/train-labels-idx1-ubyte" \
  --eval-data "$out/t10k-images-idx3-ubyte" --eval-labels "$out/t10k-labels-idx1-ubyte" \
  --epochs "${1:-2}" --checkpoint "$out/fashion.safetensors"
