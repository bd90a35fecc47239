#!/usr/bin/python3
"""PyTorch's side of compare.py: a training step, measured on request.

    torch_steps.py FOLDER NET HOW [SCHEME]

trains NET on the batch in FOLDER: in nchw, channels_last, or float64 (and nchw); with a sparse scheme only what that trains,
and with batch norms in eval mode. First some steps whose losses it prints, then for every line of standard input as many
steps as that says, whose seconds it prints. At the end of the input it prints its peak memory.
Every line of the answer is JSON.
"""
import json
import pathlib
import sys
import time

import numpy as np
import torch
from torch.nn import functional as F

import nets
import schemes
from recipe import LR, MOMENTUM, STEPS_COMPARED, WEIGHT_DECAY


def memory(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(key + ":"))


def answer(what):
    print(json.dumps(what), flush=True)


def main():
    folder, (name, how, scheme, *_) = pathlib.Path(sys.argv[1]), [*sys.argv[2:], ""]
    torch.set_num_threads(1)
    imported = memory("VmRSS")
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak so far was that of importing
    net = nets.make_net(name)
    x = [torch.from_numpy(np.load(folder / f"{input}.npy")) for input in nets.example(net, 1)]
    y = torch.from_numpy(np.load(folder / "labels.npy"))
    if how == "float64":
        net, x = net.double(), [part.double() if part.is_floating_point() else part for part in x]
    if how == "channels_last" and x[0].dim() == 4:
        net, x = net.to(memory_format=torch.channels_last), [x[0].to(memory_format=torch.channels_last)]
    net.train(not scheme)
    if scheme:
        trained = schemes.masks(scheme, nets.make_net(name), nets.example(net, 1).values())
        for parameter, p in net.named_parameters():
            p.requires_grad_(parameter in trained)
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=LR, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(net(*x), y)
        loss.backward()
        optimizer.step()
        return loss

    answer([step().item() for _ in range(STEPS_COMPARED)])
    for line in sys.stdin:
        seconds = []
        for _ in range(int(line)):
            start = time.process_time()  # of the core, as steps.c has it
            step()
            seconds.append(time.process_time() - start)
        answer(seconds)
    answer(memory("VmHWM") - imported)


if __name__ == "__main__":
    main()
