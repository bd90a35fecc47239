#!/usr/bin/env bash
# Sets pock up, builds it, and has an emulated STM32F405 learn handwritten digits.
# Run it from anywhere; everything it makes is under build/.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/setup.sh build board
tools/build.sh release pockc
examples/cortex-m/train.sh build/release/tools/pockc build/cortex-m "$@"
