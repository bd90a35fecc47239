#!/usr/bin/env bash
# Compiles the CNN, trains it on Fashion-MNIST, and writes the tuned model and what it says of the test images:
# examples/fashion-mnist/train.sh POCKC FOLDER [options of the trainer: --epochs 2]
set -euo pipefail
pockc=$1 out=$2 here=$(dirname "$0")
shift 2
[ $# -gt 0 ] || set -- --epochs 2

mkdir -p "$out"
for part in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do
  [ -s "$out/$part-ubyte" ] || gunzip -c "/usr/share/datasets/fashion-mnist/$part-ubyte.gz" >"$out/$part-ubyte"
done

"$pockc" compile "$here/fashion_cnn.onnx" -o "$out/trainer" \
  --batch 64 --loss cross-entropy --optimizer sgd:lr=0.03,momentum=0.9 \
  --input-scale 0.00392156862745098 --input-mean 0.2860 --input-std 0.3530 --report "$out/report.json"
"$out/trainer" train --data "$out/train-images-idx3-ubyte" --labels "$out/train-labels-idx1-ubyte" \
  --eval-data "$out/t10k-images-idx3-ubyte" --eval-labels "$out/t10k-labels-idx1-ubyte" \
  "$@" --checkpoint "$out/fashion.safetensors"
"$out/trainer" predict --data "$out/t10k-images-idx3-ubyte" --weights "$out/fashion.safetensors" --output "$out/scores.npy"
"$pockc" export "$here/fashion_cnn.onnx" --weights "$out/fashion.safetensors" -o "$out/fashion_tuned.onnx"
