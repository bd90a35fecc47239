#!/usr/bin/env bash
# Makes a trainer for a Raspberry Pi 4, trains on images as .npy, stops half way and goes on, and takes what was learned back
# into an ONNX file: examples/raspberry-pi/train.sh POCKC FOLDER [STEPS [IMAGES]]
# Expect 75 % after 250 steps, which take 2 minutes in the emulator; on an Arm machine the trainer runs as it is. What is made
# lies in FOLDER.
set -euo pipefail
pockc=$(realpath "$1") out=$2 steps=${3:-250} count=${4:-2000} here=$(dirname "$(realpath "$0")")
model=$here/../fashion-mnist/fashion_cnn.onnx
images=(--batch 16 --loss cross-entropy --optimizer sgd:lr=0.02,momentum=0.9
  --input-scale 0.00392156862745098 --input-mean 0.2860 --input-std 0.3530)
emulator=(qemu-aarch64 -cpu cortex-a72) where="in the emulator"
[ "$(uname -m)" != aarch64 ] || emulator=() where="as it is"
mkdir -p "$out"
cd "$out"

# Images of clothes for training, which a camera took that hangs askew, and as many to judge by.
/usr/bin/python3 -B "$here/../transfer/data.py" . turned --count "$count"
"$pockc" compile "$model" --target rpi4 -o pi-trainer "${images[@]}"

echo "A Raspberry Pi needs these files and nothing else:
  scp pi-trainer turned/*.npy pi@raspberrypi:
  ssh pi@raspberrypi ./pi-trainer train --data train.npy --labels train-labels.npy --steps $steps --checkpoint clothes.safetensors
  scp pi@raspberrypi:clothes.safetensors .
Here it runs $where:"
train=("${emulator[@]}" ./pi-trainer train --data turned/train.npy --labels turned/train-labels.npy --steps "$steps"
  --checkpoint clothes.safetensors)

# Half way it is told to stop: it finishes the step, and saves.
: >log
"${train[@]}" --log json >log &
until grep -q "\"step\":$((steps / 2))," log; do
  kill -0 $! || { wait $!; exit 1; }
  sleep 0.05
done
kill -TERM $!
wait $! && status=0 || status=$?
[ "$status" = 143 ] || { echo "stopped with $status instead of 143" >&2; exit 1; }

# It goes on where it was, with the bits of a run that never stopped.
"${train[@]}" --resume clothes.safetensors

# What was learned becomes the weights of the model file, for whatever runs ONNX. A program of that file for this machine says
# of the test images what the Pi says of them, to the bit.
"${emulator[@]}" ./pi-trainer predict --data turned/test.npy --weights clothes.safetensors --output pi-scores.npy
"$pockc" export "$model" --weights clothes.safetensors -o tuned.onnx
"$pockc" compile tuned.onnx -o tuned "${images[@]}"
./tuned eval --data turned/test.npy --labels turned/test-labels.npy
./tuned predict --data turned/test.npy --output scores.npy
cmp pi-scores.npy scores.npy
echo "tuned.onnx predicts what the Pi does"
