#!/usr/bin/env bash
# The main job: sets pock up, builds it, compiles a small CNN, trains it on Fashion-MNIST and exports what was trained.
# Run it from anywhere; everything it makes is under build/.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/setup.sh build example
tools/build.sh release pockc
examples/fashion-mnist/train.sh build/release/tools/pockc build/fashion-mnist --epochs "${1:-2}"
