#!/usr/bin/env bash
# Sets up, builds and runs the tests: tests/run.sh [release|debug] [ctest options...]
# `debug` builds everything with the address and undefined-behaviour sanitizers and runs what they can see.
set -euo pipefail
cd "$(dirname "$0")/.."
preset="${1:-release}"
[ $# -eq 0 ] || shift
tools/setup.sh build test
tools/build.sh "$preset"
ctest --preset "$preset" -j "$(nproc)" "$@"
