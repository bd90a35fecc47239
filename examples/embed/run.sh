#!/usr/bin/env bash
# Makes a library of the CNN of ../fashion-mnist, links it into main.c and trains: examples/embed/run.sh POCKC FOLDER [STEPS]
# Expect 80 % after 200 steps, which is a fifth of an epoch. What it makes lies in FOLDER.
set -euo pipefail
pockc=$(realpath "$1") out=$2 steps=${3:-200} here=$(dirname "$(realpath "$0")")
mkdir -p "$out"
cd "$out"

for part in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do
  [ -s "$part-ubyte" ] || gunzip -c "/usr/share/datasets/fashion-mnist/$part-ubyte.gz" >"$part-ubyte"
done
"$pockc" compile "$here/../fashion-mnist/fashion_cnn.onnx" --emit lib -o fashion \
  --batch 64 --loss cross-entropy --optimizer sgd:lr=0.03,momentum=0.9 \
  --input-scale 0.00392156862745098 --input-mean 0.2860 --input-std 0.3530
cc -std=c11 -O2 -Wall -Wextra -I. "$here/main.c" libfashion.a -o embed
./embed . "$steps"
