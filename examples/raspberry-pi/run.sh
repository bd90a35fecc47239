#!/usr/bin/env bash
# Sets pock up, builds it, and trains a small CNN with a program for the Raspberry Pi 4, in an emulator.
# Run it from anywhere; everything it makes is under build/.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/setup.sh build pi
tools/build.sh release pockc
examples/raspberry-pi/train.sh build/release/tools/pockc build/raspberry-pi "$@"
