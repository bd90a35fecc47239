#!/usr/bin/python3
"""Pretrains the net of model.py on Fashion-MNIST, then trains it on the two tasks of data.py, from the same start, by several
sparse schemes and with several seeds (of the classifier, the images and their order). Prints a table of the accuracies, memory
and the time of a step, and writes it to FOLDER/table.txt; what each run said is in FOLDER/runs.json, and runs that are there
already are not repeated.
"""
import argparse
import gzip
import json
import pathlib
import re
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")
IMAGES = ["--input-scale", repr(1 / 255), "--input-mean", "0.2860", "--input-std", "0.3530"]
TASKS = ("turned", "digits")
SCHEMES = ("full", "bias-only", "sparse.toml", "lora:8")
OPTIMIZER = "sgd:lr=0.03,momentum=0.9,weight_decay=0.0001"
BATCH, EPOCHS = 16, 10


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return done


def trainer(pockc, model, out, *flags):
    run(pockc, "compile", model, "-o", out, "--loss", "cross-entropy", *IMAGES, *flags, "--report", f"{out}.json")
    return json.loads(pathlib.Path(f"{out}.json").read_text())


def evaluations(done):
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return [e["accuracy"] for e in found if "eval" in e]


def pretrain(pockc, out, length):
    tuned = out / "pretrained.onnx"
    if tuned.exists():
        return tuned
    files = {}
    for part in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        files[part] = out / part
        files[part].write_bytes(gzip.decompress((FASHION / f"{part}-ubyte.gz").read_bytes()))
    run(HERE / "model.py", out / "model.onnx")
    trainer(pockc, out / "model.onnx", out / "pretrain", "--batch", 64, "--schedule", "cosine:warmup=100", "--optimizer",
            "sgd:lr=0.1,momentum=0.9,weight_decay=0.0001")
    print(f"pretraining on Fashion-MNIST ({' '.join(length)})", file=sys.stderr, flush=True)
    subprocess.run([str(out / "pretrain"), "train", "--data", files["train-images-idx3"], "--labels", files["train-labels-idx1"],
                    "--eval-data", files["t10k-images-idx3"], "--eval-labels", files["t10k-labels-idx1"], *length,
                    "--checkpoint", str(out / "pretrained.safetensors")], check=True)
    run(pockc, "export", out / "model.onnx", "--weights", out / "pretrained.safetensors", "-o", tuned)
    return tuned


def transfer(pockc, start, out, scheme, task, seed, length):
    data, model, program = out / f"seed{seed}", out / f"seed{seed}" / "start.onnx", out / "transfer"
    if not (data / task).exists():
        run(HERE / "data.py", data, task, "--seed", seed)
    if not model.exists():
        run(HERE / "model.py", model, "--from", start, "--seed", seed)
    chosen = HERE / scheme if scheme.endswith(".toml") else scheme
    plan = trainer(pockc, model, program, "--batch", BATCH, "--sparse-scheme", chosen, "--schedule", "cosine:warmup=20",
                   "--optimizer", OPTIMIZER)
    files = ["--data", data / task / "train.npy", "--labels", data / task / "train-labels.npy", "--seed", seed]
    timed = run(program, "train", *files, "--steps", 40, "--threads", 1, "--checkpoint", out / "timed.safetensors")
    steps, seconds = re.search(r"(\d+) steps in ([\d.]+) s", timed.stderr).groups()
    done = run(program, "train", *files, "--eval-data", data / task / "test.npy", "--eval-labels", data / task / "test-labels.npy",
               *length, "--log", "json", "--checkpoint", out / "transfer.safetensors")
    memory = re.search(r"RssAnon\): ([\d.]+) (KiB|MiB)", timed.stderr)
    return {"accuracy": evaluations(done)[-1], "ms": 1000 * float(seconds) / int(steps),
            "memory_mib": float(memory[1]) / (1024 if memory[2] == "KiB" else 1), "arena_mib": plan["arena_bytes"] / 2**20}


def table(runs, schemes, tasks, seeds):
    rows = [("scheme", *(f"{task} %" for task in tasks), "ms a step", "arena MiB", "memory MiB")]
    for scheme in schemes:
        of = {task: [runs[f"{scheme}/{task}/{seed}"] for seed in range(seeds)] for task in tasks}
        both = [r for task in tasks for r in of[task]]
        spread = [[100 * r["accuracy"] for r in of[task]] for task in tasks]
        rows.append((scheme, *(f"{statistics.mean(s):.1f} ({min(s):.1f} to {max(s):.1f})" for s in spread),
                     f"{statistics.median(r['ms'] for r in both):.2f}", f"{both[0]['arena_mib']:.2f}",
                     f"{max(r['memory_mib'] for r in both):.2f}"))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip() for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pockc")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=2, help="of pretraining (default 2)")
    parser.add_argument("--steps", type=int, help="of pretraining and of each run, to see that all works")
    parser.add_argument("--scheme", action="append", help="only this one; may be repeated")
    parser.add_argument("--task", action="append", choices=TASKS, help="only this one; may be repeated")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    few = args.steps and ["--steps", str(args.steps)]
    start = pretrain(args.pockc, args.folder, few or ["--epochs", str(args.epochs)])
    log = args.folder / "runs.json"
    runs = json.loads(log.read_text()) if log.exists() else {}
    schemes, tasks = args.scheme or SCHEMES, args.task or TASKS
    wanted = [(s, t, seed) for s in schemes for t in tasks for seed in range(args.seeds)]
    todo = [w for w in wanted if "/".join(map(str, w)) not in runs]
    began = time.monotonic()
    for i, (scheme, task, seed) in enumerate(todo):
        key = f"{scheme}/{task}/{seed}"
        runs[key] = transfer(args.pockc, start, args.folder, scheme, task, seed, few or ["--epochs", str(EPOCHS)])
        log.write_text(json.dumps(runs, indent=1) + "\n")
        left = (time.monotonic() - began) / (i + 1) * (len(todo) - i - 1)
        print(f"{i + 1}/{len(todo)} {key}: accuracy {100 * runs[key]['accuracy']:.1f} %, {runs[key]['ms']:.2f} ms a step; "
              f"{left:.0f} s left", file=sys.stderr, flush=True)
    text = table(runs, schemes, tasks, args.seeds)
    (args.folder / "table.txt").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
