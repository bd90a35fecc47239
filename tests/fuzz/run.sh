#!/usr/bin/env bash
# Fuzzes what reads foreign bytes: tests/fuzz/run.sh [SECONDS [TARGET...]]
# Each target runs SECONDS (default 30). An input that makes one crash, throw what is no Error, take 20 seconds or more
# than 1 GiB is kept in build/fuzz/findings/, and the exit status is 1. What was learnt stays in build/fuzz/corpus/.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
seconds=${1:-30}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- onnx pock loop checkpoint data
tools/setup.sh build fuzz test
tools/build.sh fuzz fuzz_targets
[ ! -d /dev/shm ] || export TMPDIR=/dev/shm
export ASAN_OPTIONS=quarantine_size_mb=32:detect_leaks=1

# copy FILE...: into the seeds, under names without folders.
copy() {
  for file in "$@"; do cp "$file" "$seeds/$(echo "${file#"$root"/}" | tr / _)"; done
}
# Text cases hold a graph before and one after; each becomes a seed of its own.
split_cases() {
  for file in "$@"; do
    awk -v out="$seeds/$(echo "${file#"$root"/}" | tr / _)" '/^# gives:/ { part++ } { print > (out "." part + 0) }' "$file"
  done
}
# The words that a reader knows are the string literals of its sources.
words() { grep -hoE '"[A-Za-z0-9_.@%]+"' "$@" | sort -u; }

failed=""
for target in "$@"; do
  work=$root/build/fuzz
  seeds=$work/seeds/$target
  rm -rf "$seeds"
  mkdir -p "$seeds" "$work/corpus/$target" "$work/findings"
  length=4096
  case $target in
    onnx)
      length=16384
      copy "$root"/tests/{import,errors,cli}/*.onnx "$root"/tests/train/twice/model.onnx
      for folder in /usr/share/libonnx-testdata/data/node/*/; do
        cp "$folder/model.onnx" "$seeds/$(basename "$folder").onnx"
      done
      words frontends/onnx/*.cpp >"$work/$target.dict"
      ;;
    pock)
      mapfile -t files < <(find "$root/tests" -name '*.pock')
      split_cases "${files[@]}"
      words src/ir/*.cpp src/ops/*.cpp >"$work/$target.dict"
      ;;
    loop)
      mapfile -t files < <(find "$root/tests/loop" -name '*.loop')
      split_cases "${files[@]}"
      words src/loop/*.cpp src/ir/elements.cpp >"$work/$target.dict"
      ;;
    checkpoint) words runtime/checkpoint*.c >"$work/$target.dict" ;;
    data)
      copy "$root"/tests/train/*/labels.npy
      words runtime/data.c >"$work/$target.dict"
      ;;
    *) echo "tests/fuzz/run.sh: there is no target '$target'" >&2; exit 2 ;;
  esac
  [ ! -d "tests/fuzz/cases/$target" ] || copy "$root/tests/fuzz/cases/$target"/*
  log=$work/$target.log
  if "$work/tests/fuzz/fuzz_$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=1024 -max_len=$length \
    -dict="$work/$target.dict" -artifact_prefix="$work/findings/$target-" -print_final_stats=1 \
    "$work/corpus/$target" "$seeds" >"$log" 2>&1; then
    echo "$target: clean after $(sed -n 's/^stat::number_of_executed_units: //p' "$log") inputs in $seconds s"
  else
    failed="$failed $target"
    echo "$target: a finding; $log ends with" >&2
    tail -n 40 "$log" >&2
  fi
done
[ -z "$failed" ] || { echo "findings:$failed" >&2; exit 1; }
