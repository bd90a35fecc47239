#!/usr/bin/python3
"""Measures how much faster a training step is on more threads, by whole trainers on this machine.

    threads.py                              the nets and batches of CASES
    threads.py --write docs/performance.md  and puts the rows into that document's table

Trainers of one and of more threads take turns (--rounds), each for a short and for a long run: what the long one takes more
is the time of its steps, each at its best of all rounds. Needs what compare.py needs, and as many idle cores as threads.
"""
import argparse
import pathlib
import tempfile
import time

import compare

HEADS = ("net", "batch", "threads", "ms on one", "ms", "times", "wanted", "commit")
CASES = {"resnet18@224:8": 1.75, "mobilenetv2-1.0@224:8": 1.3}
SHORT, LONG = 2, 10  # steps


def seconds(trainer, folder, steps, threads):
    argv = [trainer, "train", "--data", folder / "x.npy", "--labels", folder / "labels.npy", "--steps", steps, "--no-shuffle",
            "--threads", threads]
    start = time.monotonic()
    compare.run(argv)
    return time.monotonic() - start


def measure(case, place, threads, rounds):
    """Seconds of a step on one thread and on `threads`."""
    folder = case.folder(place)
    compare.make_batch(case, compare.info_of(case.net, place), folder)
    trainer = compare.Pock(case, place).folder / "trainer"
    least = {}
    for _ in range(rounds):
        for run in ((count, steps) for count in (1, threads) for steps in (SHORT, LONG)):
            least[run] = min(least.get(run, float("inf")), seconds(trainer, folder, run[1], run[0]))
    return tuple((least[count, LONG] - least[count, SHORT]) / (LONG - SHORT) for count in (1, threads))


def row(case, threads, one, more):
    return (case.net, case.batch, threads, f"{1e3 * one:.4g}", f"{1e3 * more:.4g}", f"{one / more:.2f}",
            CASES.get(case.name, ""), compare.commit())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", type=compare.parse_case, metavar="NET:BATCH")
    parser.add_argument("--pockc", type=pathlib.Path, default=compare.ROOT / "build/release/tools/pockc")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5, help="turns for each number of threads (default 5)")
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE", help="put the rows into this document's table")
    args = parser.parse_args()
    compare.need("torch", "onnx")
    cases = args.cases or [compare.parse_case(c) for c in CASES]
    if args.write:
        compare.write_table(args.write, HEADS, [], 3)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        place = compare.Place(0, 0, args.pockc, pathlib.Path(folder))
        compare.export(sorted({c.net for c in cases}), place)
        for i, case in enumerate(cases, 1):
            compare.say(f"{i} of {len(cases)}: {case.name}")
            rows.append(row(case, args.threads, *measure(case, place, args.threads, args.rounds)))
            if args.write:
                compare.write_table(args.write, HEADS, rows, 3)
    print(compare.table(HEADS, rows))


if __name__ == "__main__":
    main()
