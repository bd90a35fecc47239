#!/usr/bin/env bash
# Builds pock with one of the presets: tools/build.sh [release|debug|fuzz] [ninja targets...]
set -euo pipefail
cd "$(dirname "$0")/.."
preset="${1:-release}"
[ $# -eq 0 ] || shift
launcher=""
if command -v ccache >/dev/null; then launcher="-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"; fi
cmake --preset "$preset" ${launcher:+"$launcher"} >"build-$preset.log" 2>&1 || { cat "build-$preset.log" >&2; rm -f "build-$preset.log"; exit 1; }
rm -f "build-$preset.log"
cmake --build "build/$preset" -j "$(nproc)" ${1:+--target "$@"}
