#!/usr/bin/env bash
# Formats all C and C++ files as .clang-format says: tools/format.sh. With --check it only tells which differ, and ends
# with 77 where the version of clang-format that they were formatted with (Debian 12: clang-format) is not there.
set -euo pipefail
cd "$(dirname "$0")/.."
version=14
if ! clang-format --version 2>/dev/null | grep -q "version $version\."; then
  echo "tools/format.sh: needs clang-format $version. On Debian 12: apt-get install clang-format" >&2
  exit 77
fi
mapfile -t files < <(find codegen frontends include passes runtime src tests tools -name '*.h' -o -name '*.c' -o -name '*.cpp')
if [ "${1:-}" = --check ]; then
  for file in "${files[@]}"; do
    clang-format "$file" | cmp -s - "$file" || { echo "$file is not formatted: run tools/format.sh" >&2; bad=1; }
  done
  exit "${bad:-0}"
fi
clang-format -i "${files[@]}"
