#!/usr/bin/python3
"""What each pass saves: the planned memory of a training step with each of them left out in turn, by pockc explain.

    memory.py                               the nets and schemes of CASES
    memory.py --write docs/performance.md   and puts the rows into that document's table

KiB of a step of one sample, SGD with momentum, batch norms frozen, and the node where the most is alive. Needs what nets.py
needs.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

import compare
import nets

HEADS = ("net", "trained", "without", "KiB", "peak at", "commit")
CASES = (("mobilenetv2-0.35@128", "full"), ("mobilenetv2-0.35@128", "expand-convs:6"), ("proxyless-0.3@128", "full"),
         ("proxyless-0.3@128", "expand-convs:6"), ("mcunet-5fps@128", "full"), ("mcunet-5fps@128", "expand-convs:6"),
         ("encoder@16", "full"), ("encoder@16", "attention:2"))


def explain(pockc, model, scheme):
    argv = [pockc, "explain", model, "--batch", "1", "--loss", "cross-entropy", "--optimizer", "sgd:lr=0.01,momentum=0.9",
            "--sparse-scheme", scheme, "--json"]
    if b"BatchNormalization" in model.read_bytes():
        argv += ["--bn", "frozen"]
    return json.loads(subprocess.run(argv, check=True, stdout=subprocess.PIPE).stdout)


def rows(net, scheme, answer):
    """The whole pipeline first, then every pass that saves something."""
    whole = answer["this"]["arena_bytes"]
    rungs = [("nothing", whole, answer["this"]["peak_node"])]
    rungs += [(r["without"], r["arena_bytes"], r["peak_node"]) for r in answer["ladder"] if r["arena_bytes"] != whole]
    return [(net, scheme, without, f"{size / 1024:.1f}", node, compare.commit()) for without, size, node in rungs]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pockc", type=pathlib.Path, default=compare.ROOT / "build/release/tools/pockc")
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE", help="put the rows into this document's table")
    args = parser.parse_args()
    compare.need("torch", "onnx")
    table = []
    with tempfile.TemporaryDirectory() as folder:
        for net, scheme in CASES:
            model = pathlib.Path(folder) / net / "model.onnx"
            if not model.exists():
                model.parent.mkdir()
                nets.export(nets.make_net(net), model)
            for row in rows(net, scheme, explain(args.pockc, model, scheme)):
                print("| " + " | ".join(map(str, row)) + " |", flush=True)
                table.append(row)
    if args.write:
        compare.write_table(args.write, HEADS, table, 3)


if __name__ == "__main__":
    main()
