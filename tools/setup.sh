#!/usr/bin/env bash
# Installs the Debian packages that pock needs, only what is missing. Usage: tools/setup.sh [build] [example] [transfer] [pi] [board] [test] [fuzz] [bench]
set -euo pipefail

build="cmake ninja-build g++ ccache llvm-19-dev liblld-19-dev lld-19 clang-19 libonnx-dev libprotobuf-dev protobuf-compiler
       libfmt-dev libcli11-dev libtomlplusplus-dev libgtest-dev nlohmann-json3-dev"
example="dataset-fashion-mnist"
transfer="dataset-fashion-mnist python3-numpy python3-onnx python3-sklearn"
pi="dataset-fashion-mnist python3-numpy qemu-user"
board="python3-numpy python3-onnx python3-sklearn qemu-system-arm"
test="qemu-user qemu-system-arm libonnx-testdata python3-onnx python3-numpy python3-sklearn python3-venv dataset-fashion-mnist"
fuzz="libclang-rt-19-dev"
bench="python3-torch libopenblas0-pthread python3-onnx python3-numpy python3-matplotlib"

[ $# -gt 0 ] || set -- build example test fuzz
missing=""
for group in "$@"; do
  case "$group" in
    build | example | transfer | pi | board | test | fuzz | bench) ;;
    *) echo "tools/setup.sh: there is no group '$group'; the groups are build, example, transfer, pi, board, test, fuzz, bench" >&2; exit 2 ;;
  esac
  for package in ${!group}; do
    dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii' || missing="$missing $package"
  done
done
[ -n "$missing" ] || exit 0

echo "installing:$missing" >&2
sudo=""
if [ "$(id -u)" != 0 ]; then
  sudo="sudo"
  command -v sudo >/dev/null || { echo "tools/setup.sh: run it as root, or install sudo; missing:$missing" >&2; exit 1; }
fi
$sudo apt-get update -qq
# shellcheck disable=SC2086
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
