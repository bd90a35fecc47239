#!/usr/bin/python3
"""Compares training steps of pock and of PyTorch on one thread of this machine, in one run.

    compare.py                          the nets and batches of CASES
    compare.py resnet18@224:8 lenet:1   others
    compare.py encoder@16:8:attention:2 one with a sparse scheme
    compare.py --write docs/performance.md
    compare.py --plot steps.png         MobileNetV2: step time against batch and against width

Both sides train the same weights on the same batch with SGD, momentum, weight decay and batch norm in training mode. First the
losses of a few steps are compared with PyTorch's in float64: pock's must be as near as float32 can be, which PyTorch's own
float32 shows. Then all take turns, pinned to one core: pock, PyTorch with either layout, and PyTorch
with either layout and an allocator that gives no memory back to the system (--rounds times). "default" is the faster of the
first two, "tuned" the fastest of all four. Times are the least of all steps; medians stand beside. They are what the process
had of the core, which on a quiet machine is the time on the wall; elsewhere a long step would pay for other work more than a
short one. The FMA peak is measured before and after; where it moved by more than 3 %, the net is measured again.

Memory is the highest RssAnon of the whole trainer program, and for PyTorch the highest VmHWM less VmRSS after importing it,
of its better layout. With a sparse scheme both sides train the same tensors, `full` all of them, and batch norms use their
running statistics. Needs Debian's python3-torch with OpenBLAS, python3-onnx, python3-numpy and, for --plot, python3-matplotlib.
"""
import argparse
import ctypes
import dataclasses
import importlib.util
import json
import math
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

from recipe import POCKC, STEPS_COMPARED

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TORCH = ["/usr/bin/python3", HERE / "torch_steps.py"]
SETTINGS = [(layout, tuned) for tuned in (False, True) for layout in ("nchw", "channels_last")]
TUNED = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "17179869184", "MALLOC_TOP_PAD_": "67108864"}
# Of pock's losses from those in float64, relative; or else these times PyTorch's own distance in float32.
LOSS_TOLERANCE, LOSS_FACTOR = 1e-4, 4
LOSS_CAP, LEAST_COMPARED = 0.1, 3
PEAK_TOLERANCE = 0.03


@dataclasses.dataclass(frozen=True)
class Case:
    net: str
    batch: int
    wanted: tuple = ()      # how many times faster than default and than tuned
    memory: float = None    # wanted share of PyTorch's memory
    scheme: str = ""        # "": everything, with batch norm in training mode
    than_full: float = None  # wanted times faster than the scheme `full`

    @property
    def name(self):
        return f"{self.net}:{self.batch}" + (f":{self.scheme}" if self.scheme else "")

    def flags(self, info):
        """Of pockc, besides those that all cases have."""
        return POCKC if not self.scheme else [*POCKC, "--sparse-scheme", self.scheme,
                                              *(["--bn", "frozen"] if info["batch_norm"] else [])]

    def folder(self, place):
        return place.folder / self.net / self.name.replace("/", "_")


CASES = [Case("mlp", 1, (7, 7)), Case("lenet", 1, (6, 6)),
         Case("mobilenetv2-0.35@128", 1, (4.8, 4.6), 0.40), Case("mobilenetv2-0.35@128", 8, (2.6, 2.2)),
         Case("mobilenetv2-1.0@224", 1, (2.1, 1.8)), Case("mobilenetv2-1.0@224", 8, (1.9, 1.5), 0.45),
         Case("mcunet-5fps@128", 8, (2.3, 2.0)),
         Case("resnet18@224", 1, (1.5, 1.35)), Case("resnet18@224", 8, (1.05, 1.0), 0.50),
         Case("resnet50@224", 8, (1.2, 1.05))]
SPARSE = [Case("mobilenetv2-1.0@224", 8, scheme="full"),
          Case("mobilenetv2-1.0@224", 8, scheme="expand-convs:6", than_full=1.7),
          Case("encoder@16", 8, scheme="full"), Case("encoder@16", 8, scheme="attention:2", than_full=1.7)]
PLOT_BATCHES = [Case("mobilenetv2-0.35@128", n) for n in (1, 2, 4, 8, 16, 32)]
PLOT_WIDTHS = [Case(f"mobilenetv2-{w}@128", 8) for w in (0.35, 0.5, 0.75, 1.0, 1.4)]


def say(text):
    print(text, file=sys.stderr, flush=True)


def run(argv, **options):
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, argv))}\nended with {done.returncode}:\n{done.stderr}")
    return done.stdout


class Worker:
    """A process that takes steps on request and prints their seconds."""

    def __init__(self, argv, environment, on):
        self.process = subprocess.Popen(on.argv(argv), env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.seconds = []

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{' '.join(self.process.args)} ended with {self.process.wait()}")
        return json.loads(line)

    def steps(self, count):
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return self.answer()

    def measure(self, seconds):
        """Steps for about that many seconds, but three at least."""
        count = max(3, int(seconds / min(self.seconds or self.steps(1))))
        self.seconds += self.steps(min(count, 5000))

    def page_faults(self):
        """So far."""
        after_name = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(after_name[7])

    def end(self):
        self.process.stdin.close()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@dataclasses.dataclass
class Place:
    """Where processes run, and the tools of this checkout."""
    cpu: int
    priority: int
    pockc: pathlib.Path
    folder: pathlib.Path

    def argv(self, argv):
        nice = ["nice", "-n", self.priority] if self.priority else []
        return [str(a) for a in ("taskset", "-c", self.cpu, *nice, *argv)]

    def peak(self):
        """FMA peak of the core in operations a second, as pockc measures it beside any model."""
        model = self.folder / "mlp" / "model.onnx"
        out = run(self.argv([self.pockc, "bench", model, "--batch", "1", *POCKC, "--rounds", "1", "--json"]))
        return json.loads(out)["peak_flops"]


def export(nets, place):
    say(f"exporting {', '.join(nets)}")
    run(["/usr/bin/python3", HERE / "nets.py", place.folder, *nets])


def info_of(net, place):
    return json.loads((place.folder / net / "info.json").read_text())


class Pock:
    """A case, compiled as a program and as a library."""

    def __init__(self, case, place):
        self.place, self.folder = place, case.folder(place)
        model, info = place.folder / case.net / "model.onnx", info_of(case.net, place)
        self.data = [f"{'' if len(info['inputs']) == 1 else name + '='}{self.folder / name}.npy" for name in info["inputs"]]
        command = [place.pockc, "compile", model, "--batch", case.batch, *case.flags(info)]
        run([*command, "-o", self.folder / "trainer", "--report", self.folder / "report.json"])
        self.report = json.loads((self.folder / "report.json").read_text())
        run([*command, "--emit", "lib", "-o", self.folder / "net"])
        inputs = "-DINPUTS(F)=" + " ".join(f"F({name})" for name in info["inputs"])
        run(["cc", "-O2", inputs, "-I", self.folder, HERE / "steps.c", self.folder / "libnet.a", "-o", self.folder / "steps"])

    def losses_and_memory(self, step_seconds):
        """Of a run of the trainer that is long enough to be looked at."""
        steps = max(STEPS_COMPARED, min(20000, int(1 / step_seconds)))
        log = self.folder / "log"
        argv = [self.folder / "trainer", "train", *(flag for data in self.data for flag in ("--data", data)), "--labels", self.folder / "labels.npy",
                "--steps", steps, "--no-shuffle", "--threads", 1, "--log", "json"]
        with open(log, "w") as out:
            process = subprocess.Popen(self.place.argv(argv), stdout=out, stderr=subprocess.DEVNULL)
            most = 0
            while process.poll() is None:
                most = max(most, rss_anon(process.pid))
                time.sleep(0.002)
        if process.returncode != 0:
            raise SystemExit(f"{argv[0]} ended with {process.returncode}")
        losses = [json.loads(line)["loss"] for line in log.read_text().splitlines()[:STEPS_COMPARED]]
        return losses, most


def rss_anon(pid):
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    found = re.search(r"RssAnon:\s+(\d+) kB", status)
    return int(found[1]) << 10 if found else 0


def make_batch(case, info, folder):
    """The same samples for both sides, in their own formats."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(2)
    for name, below in info["inputs"].items():  # numbers, or of tokens integers below that
        shape = (case.batch, *info["shape"])
        x = rng.integers(0, below, shape) if below else rng.standard_normal(shape, dtype=np.float32)
        np.save(folder / f"{name}.npy", x)
        x.tofile(folder / f"{name}.bin")
    labels = rng.integers(0, info["classes"], case.batch)
    np.save(folder / "labels.npy", labels)
    labels.astype(np.int32).tofile(folder / "labels.bin")


def distance(losses, reference):
    """The worst of all steps, relative. Infinite where something is no number."""
    if len(losses) != len(reference):
        return float("inf")
    parts = [abs(a - b) / abs(b) for a, b in zip(losses, reference)]
    return max(d if math.isfinite(d) else float("inf") for d in parts)


def check_losses(case, ours, theirs, reference):
    """`theirs`: PyTorch's in float32, of several runs; `reference`: in float64. Gives our distance.

    A net of few samples a batch norm is chaotic: where float32 says less than LOSS_CAP of a step, that step and those behind it
    say nothing of us either, and only the steps before it are compared, LEAST_COMPARED at least."""
    def allowed(steps):
        return max(LOSS_TOLERANCE, LOSS_FACTOR * max(distance(l[:steps], reference[:steps]) for l in theirs))
    steps = max((n for n in range(LEAST_COMPARED, len(reference) + 1) if allowed(n) < LOSS_CAP), default=len(reference))
    ours, reference, theirs = ours[:steps], reference[:steps], [l[:steps] for l in theirs]
    if not distance(ours, reference) <= allowed(steps) < LOSS_CAP:
        raise SystemExit(f"{case.name}: the losses differ by {distance(ours, reference):.2g} of their size; PyTorch's float32 "
                         f"allows {allowed(steps):.2g}, and {LOSS_CAP} is too much:\n  pock             {ours}\n"
                         f"  PyTorch float64  {reference}\n" + "\n".join(f"  PyTorch float32  {l}" for l in theirs))
    return distance(ours, reference)


def float64_losses(case, place, folder):
    out = run(place.argv([*TORCH, folder, case.net, "float64", case.scheme]), stdin=subprocess.DEVNULL)
    return json.loads(out.splitlines()[0])


def measure(case, place, rounds, seconds):
    info = info_of(case.net, place)
    folder = case.folder(place)
    make_batch(case, info, folder)
    pock = Pock(case, place)
    ours = Worker([folder / "steps", folder], {}, place)
    workers, losses = [ours], []
    try:
        for layout, tuned in SETTINGS:
            workers.append(Worker([*TORCH, folder, case.net, layout, case.scheme], TUNED if tuned else {}, place))
            losses.append(workers[-1].answer())
        theirs = workers[1:]
        mine, memory = pock.losses_and_memory(min(ours.steps(3)))
        worst = check_losses(case, mine, losses, float64_losses(case, place, folder))
        before, after, tries = place.peak(), 0, 0
        while abs(before - after) > PEAK_TOLERANCE * max(before, after) and tries < 3:
            before, tries = after or before, tries + 1
            for w in workers:
                w.seconds = []
            faults = ours.page_faults()
            for _ in range(rounds):
                for w in workers:
                    w.measure(seconds)
            after = place.peak()
        faults = (ours.page_faults() - faults) / len(ours.seconds)
        for w in workers:
            w.end()
        their_memory = [w.answer() for w in theirs]
    finally:
        for w in workers:
            w.kill()
    return result(case, pock, ours, theirs, memory, min(their_memory[:2]), worst, faults, (before, after),
                  info["flop_per_sample"] * case.batch)


def result(case, pock, ours, theirs, memory, their_memory, worst, faults, peaks, flop):
    least = [min(w.seconds) for w in theirs]
    default, tuned = min(range(2), key=least.__getitem__), min(range(4), key=least.__getitem__)
    program = pock.folder / "trainer"
    return {
        "net": case.net, "batch": case.batch, "scheme": case.scheme, "than_full": case.than_full, "commit": commit(), "flop": flop, "peak": max(peaks),
        "peak_moved": abs(peaks[0] - peaks[1]) > PEAK_TOLERANCE * max(peaks), "loss_distance": worst,
        "page_faults": faults,
        "seconds": min(ours.seconds), "median": statistics.median(ours.seconds), "steps": len(ours.seconds),
        "pytorch": [{"layout": layout, "tuned": is_tuned, "seconds": min(w.seconds), "median": statistics.median(w.seconds),
                     "steps": len(w.seconds)} for (layout, is_tuned), w in zip(SETTINGS, theirs)],
        "default": default, "best": tuned, "times_default": least[default] / min(ours.seconds),
        "times_tuned": least[tuned] / min(ours.seconds), "wanted": case.wanted, "memory": memory,
        "pytorch_memory": their_memory, "wanted_memory": case.memory, "arena": pock.report["arena_bytes"],
        "compile_seconds": pock.report["seconds"],
        "program_without_weights": program.stat().st_size - pock.report["weights_bytes"]}


def commit():
    git = shutil.which("git")
    if not git or subprocess.run([git, "rev-parse"], cwd=ROOT, capture_output=True).returncode != 0:
        return "unknown"
    changed = run([git, "status", "--porcelain", "--untracked-files=no"], cwd=ROOT).strip()
    return run([git, "rev-parse", "--short", "HEAD"], cwd=ROOT).strip() + ("+" if changed else "")


# --- tables

TIMES = ("net", "batch", "pock ms", "% of peak", "PyTorch default", "tuned", "% of peak", "faster than default", "than tuned",
         "wanted", "commit")
MEMORY = ("net", "batch", "pock MiB", "PyTorch MiB", "share", "wanted", "arena MiB", "page faults a step", "compiled in s",
          "program KB")


def times_row(r):
    def ms(m):
        return f"{m['seconds'] * 1e3:.4g} ({m['median'] * 1e3:.4g})"

    def share(seconds):
        return f"{100 * r['flop'] / seconds / r['peak']:.0f}"

    best = r["pytorch"][r["best"]]
    mark = " *" if r["peak_moved"] else ""
    return (r["net"], r["batch"], ms(r) + mark, share(r["seconds"]), ms(r["pytorch"][r["default"]]), ms(best),
            share(best["seconds"]), f"{r['times_default']:.2f}", f"{r['times_tuned']:.2f}",
            " / ".join(map(str, r["wanted"])), r["commit"])


def memory_row(r):
    mib = 1 << 20
    return (r["net"], r["batch"], f"{r['memory'] / mib:.1f}", f"{r['pytorch_memory'] / mib:.1f}",
            f"{r['memory'] / r['pytorch_memory']:.2f}", r["wanted_memory"] or "", f"{r['arena'] / mib:.1f}",
            f"{r['page_faults']:.2g}", f"{r['compile_seconds']:.1f}", f"{r['program_without_weights'] / 1e3:.0f}")


SPARSE_TIMES = ("net", "batch", "scheme", "pock ms", "PyTorch default", "tuned", "faster than default", "than tuned",
                "faster than full", "wanted", "pock MiB", "PyTorch MiB", "commit")


def sparse_row(r, results):
    _, _, ms, _, default, tuned, _, than_default, than_tuned, _, commit = times_row(r)
    full = [f["seconds"] for f in results if (f["net"], f["batch"], f["scheme"]) == (r["net"], r["batch"], "full")]
    memory, theirs = (f"{r[key] / (1 << 20):.1f}" for key in ("memory", "pytorch_memory"))
    return (r["net"], r["batch"], r["scheme"], ms, default, tuned, than_default, than_tuned,
            f"{full[0] / r['seconds']:.2f}" if full else "", r["than_full"] or "", memory, theirs, commit)


def line(cells):
    return "| " + " | ".join(map(str, cells)) + " |"


def table(heads, rows):
    return "\n".join([line(heads), "|" + " --- |" * len(heads), *map(line, rows)]) + "\n"


def write_table(path, heads, new_rows, keys):
    """Replaces the rows of a document's table that have the same first cells, `keys` of them, or adds them; the others stay."""
    text = path.read_text()
    start = text.find(line(heads))
    if start < 0:
        raise SystemExit(f"{path} has no table that starts with\n{line(heads)}")
    end = text.find("\n\n", start) + 1 or len(text)
    rows = [tuple(c.strip() for c in l[1:-1].split("|")) for l in text[start:end].splitlines()[2:]]
    for new in (tuple(map(str, r)) for r in new_rows):
        rows = [new if old[:keys] == new[:keys] else old for old in rows]
        if new not in rows:
            rows.append(new)
    path.write_text(text[:start] + table(heads, rows) + text[end:])


def tables(results):
    """Heads, rows, and by how many cells a row is known."""
    whole, sparse = ([r for r in results if bool(r["scheme"]) == s] for s in (False, True))
    found = [(TIMES, [times_row(r) for r in whole], 2), (MEMORY, [memory_row(r) for r in whole], 2),
             (SPARSE_TIMES, [sparse_row(r, results) for r in sparse], 3)]
    return [t for t in found if t[1]]


def write_rows(path, results):
    for heads, rows, keys in tables(results):
        write_table(path, heads, rows, keys)


def plot(results, path):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4), constrained_layout=True)
    for axis, cases, x_of, name in ((axes[0], PLOT_BATCHES, lambda c: c.batch, "batch, MobileNetV2-0.35 @128"),
                                    (axes[1], PLOT_WIDTHS, lambda c: float(c.net.split("-")[1].split("@")[0]),
                                     "width, MobileNetV2 @128, batch 8")):
        rows = [next(r for r in results if (r["net"], r["batch"]) == (c.net, c.batch)) for c in cases]
        for label, of in (("PyTorch default", lambda r: r["pytorch"][r["default"]]["seconds"]),
                          ("PyTorch tuned", lambda r: r["pytorch"][r["best"]]["seconds"]), ("pock", lambda r: r["seconds"])):
            axis.plot([x_of(c) for c in cases], [1e3 * of(r) for r in rows], "o-", label=label)
        axis.set(xscale="log", yscale="log", xlabel=name, ylabel="ms a step")
        ticks = [x_of(c) for c in cases]
        axis.set_xticks(ticks, [str(t) for t in ticks])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
        axis.legend()
    figure.suptitle("Training step, one thread")
    figure.savefig(path, dpi=110)


# --- the run

class Clock:
    """How long the rest will take, by operations and by how long those before took."""

    def __init__(self, cases, flops, rounds, seconds):
        sides = 1 + len(SETTINGS)
        self.left = [20 + rounds * sides * max(seconds, 3 * (flops[c.net] * c.batch / 3e10 + 1e-3)) for c in cases]
        self.start, self.done = time.monotonic(), 0.0

    def text(self):
        spent = time.monotonic() - self.start
        rest = sum(self.left) * (spent / self.done if self.done else 1)
        return f"about {rest / 60:.0f} min left" if rest > 90 else f"about {rest:.0f} s left"

    def tick(self):
        self.done += self.left.pop(0)


def parse_case(text):
    net, batch, scheme = (text.split(":", 2) + ["", ""])[:3]
    if not batch.isdigit() or not net or int(batch) < 1:
        raise argparse.ArgumentTypeError(f"want NET:BATCH or NET:BATCH:SCHEME, as in resnet18@224:8, not '{text}'")
    return next((c for c in CASES + SPARSE if c.name == text), Case(net, int(batch), scheme=scheme))


def measure_all(cases, place, rounds, seconds, keep=lambda results: None):
    """`keep` is given what there is after each case: an interrupted run is not lost."""
    nets = sorted({c.net for c in cases} | {"mlp"})
    export(nets, place)
    flops = {n: info_of(n, place)["flop_per_sample"] for n in nets}
    clock, results = Clock(cases, flops, rounds, seconds), []
    for i, case in enumerate(cases, 1):
        say(f"{i} of {len(cases)}: {case.name}; {clock.text()}")
        results.append(measure(case, place, rounds, seconds))
        keep(results)
        clock.tick()
        r = results[-1]
        say(f"  {r['seconds'] * 1e3:.4g} ms, {r['times_default']:.2f} x default, {r['times_tuned']:.2f} x tuned, "
            f"memory {r['memory'] / r['pytorch_memory']:.2f}, losses within {r['loss_distance']:.1g}, "
            f"peak {r['peak'] / 1e9:.1f} GF/s{', which moved' if r['peak_moved'] else ''}")
    return results


def fast_blas():
    """Debian's PyTorch multiplies matrices with whatever libblas.so.3 is: the one it depends on is the slow reference, six
    times slower than OpenBLAS on MobileNetV2, with which any comparison would be unfair."""
    try:
        ctypes.CDLL("libblas.so.3")
    except OSError:
        return False
    return "openblas" in pathlib.Path("/proc/self/maps").read_text()


def need(*modules):
    """Ends with 77, which tests take for skipped, where Debian's packages are missing."""
    missing = ["python3-" + m for m in modules if importlib.util.find_spec(m) is None]
    if "torch" in modules and not fast_blas():
        missing.append("libopenblas0-pthread")
    if missing:
        packages = " ".join(missing)
        say(f"compare.py: needs {packages}. On Debian 12: apt-get install {packages}")
        raise SystemExit(77)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", type=parse_case, metavar="NET:BATCH[:SCHEME]")
    parser.add_argument("--sparse", action="store_true", help="the nets, batches and schemes of SPARSE")
    parser.add_argument("--pockc", type=pathlib.Path, default=ROOT / "build/release/tools/pockc")
    parser.add_argument("--rounds", type=int, default=3, help="turns for each side (default 3)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each turn, at least three steps (default 1)")
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)), help="core (default: the last)")
    parser.add_argument("--priority", type=int, default=0, help="as nice takes it; below 0 as root (default 0)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="everything that was measured")
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE", help="put the rows into this document's tables")
    parser.add_argument("--plot", type=pathlib.Path, metavar="FILE.png")
    args = parser.parse_args()
    if args.rounds < 1:
        parser.error("--rounds: want 1 at least")
    need("torch", "onnx", *(["matplotlib"] if args.plot else []))
    cases = args.cases or (SPARSE if args.sparse else [] if args.plot else CASES)
    if args.plot:
        cases += [c for c in PLOT_BATCHES + PLOT_WIDTHS if c.name not in {k.name for k in cases}]
    if args.write:
        # Or it has no such tables, which is better known now.
        for heads in {SPARSE_TIMES} if all(c.scheme for c in cases) else {TIMES, MEMORY}:
            write_table(args.write, heads, [], 2)

    def keep(results):
        if args.json:
            args.json.write_text(json.dumps(results, indent=1) + "\n")
        if args.write:
            write_rows(args.write, results)

    with tempfile.TemporaryDirectory() as folder:
        place = Place(args.cpu, args.priority, args.pockc, pathlib.Path(folder))
        results = measure_all(list(dict.fromkeys(cases)), place, args.rounds, args.seconds, keep)
    for heads, rows, _ in tables(results):
        print(table(heads, rows))
    if any(r["peak_moved"] for r in results):
        print("* the FMA peak moved by more than 3 %: the machine was not quiet\n")
    if args.plot:
        plot(results, args.plot)


if __name__ == "__main__":
    main()
