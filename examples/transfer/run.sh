#!/usr/bin/env bash
# A pretrained net moves to two new tasks by several sparse schemes: what each costs and how well it does, as a table.
# Run it from anywhere; everything it makes is under build/.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/setup.sh build transfer
tools/build.sh release pockc
examples/transfer/transfer.py build/release/tools/pockc build/transfer "$@"
