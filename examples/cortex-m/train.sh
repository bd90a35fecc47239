#!/usr/bin/env bash
# Digits are learned from scratch on an emulated STM32F405, twice: by a trainer that pockc makes, and by a firmware with the
# library: examples/cortex-m/train.sh POCKC FOLDER [EPOCHS]
# Expect 96 % after 12 epochs, in seconds. What is made lies in FOLDER.
set -euo pipefail
pockc=$(realpath "$1") out=$2 epochs=${3:-12} here=$(dirname "$(realpath "$0")")
recipe=(--target cortex-m4 --batch 16 --loss cross-entropy --optimizer sgd:lr=0.02,momentum=0.9 --input-scale 0.0625)
board=(qemu-system-arm -M netduinoplus2 -display none -monitor none -serial none
  -semihosting-config enable=on,target=native -kernel)
mkdir -p "$out"
cd "$out"

# A net of 64-32-10, and the 1797 images of 8x8 that come with scikit-learn.
/usr/bin/python3 -B "$here/digits.py" .

# The trainer: its data and checkpoint are files of this machine, through the emulator's or a debugger's semihosting.
"$pockc" compile model.onnx "${recipe[@]}" --board stm32f405 -o trainer.elf
"${board[@]}" trainer.elf -append "train --data train.npy --labels train-labels.npy --eval-data test.npy \
--eval-labels test-labels.npy --epochs $epochs --checkpoint learned.safetensors"

# The firmware: the images are in its flash, and it needs nothing of this machine but a line to print on.
"$pockc" compile model.onnx "${recipe[@]}" --emit lib -o digits
cmake -S "$here/firmware" -B firmware -DCMAKE_TOOLCHAIN_FILE="$here/firmware/cortex-m4.cmake" -DCMAKE_BUILD_TYPE=Release \
  -DDIGITS="$PWD" -DEPOCHS="$epochs" --log-level=WARNING
cmake --build firmware --clean-first
"${board[@]}" firmware/firmware
