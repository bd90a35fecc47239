#!/usr/bin/python3
"""The two tasks that the pretrained net is moved to, as .npy files of 28x28 bytes:

    data.py FOLDER turned|digits [--seed S] [--count 2000]

writes train.npy, train-labels.npy, test.npy and test-labels.npy to FOLDER/turned or FOLDER/digits. `turned` are so
many images of Fashion-MNIST for training and as many of its test images, turned by a quarter and inverted. `digits` are the 1797
images of handwritten digits that come with scikit-learn, 8x8 stretched to 28x28, three quarters of them for training. The seed
draws which.
"""
import argparse
import gzip
import pathlib

import numpy as np

FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")


def idx(name):
    raw = gzip.decompress((FASHION / f"{name}.gz").read_bytes())
    dims = np.frombuffer(raw, ">i4", raw[3], 4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(dims)


def some(rng, images, labels, count):
    chosen = rng.permutation(len(images))[:count]
    return images[chosen], labels[chosen]


def turned(rng, count):
    for part, name in (("train", "train"), ("test", "t10k")):
        images, labels = some(rng, idx(f"{name}-images-idx3-ubyte"), idx(f"{name}-labels-idx1-ubyte"), count)
        yield part, 255 - np.rot90(images, axes=(1, 2)), labels


def stretched(images, size):
    """Bilinear, pixel centres at halves."""
    at = np.clip((np.arange(size) + 0.5) * images.shape[1] / size - 0.5, 0, images.shape[1] - 1)
    low = np.minimum(at.astype(int), images.shape[1] - 2)
    share = at - low
    for axis in (1, 2):
        shape = [1, 1, 1]
        shape[axis] = size
        w = share.reshape(shape)
        images = np.take(images, low, axis) * (1 - w) + np.take(images, low + 1, axis) * w
    return images


def digits(rng, _):
    from sklearn.datasets import load_digits

    found = load_digits()
    images = np.rint(stretched(found.images, 28) * 255 / 16).astype(np.uint8)
    images, labels = some(rng, images, found.target.astype(np.uint8), len(images))
    split = len(images) * 3 // 4
    yield "train", images[:split], labels[:split]
    yield "test", images[split:], labels[split:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("task", choices=("turned", "digits"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=2000)
    args = parser.parse_args()
    folder = args.folder / args.task
    folder.mkdir(parents=True, exist_ok=True)
    parts = turned if args.task == "turned" else digits
    for part, images, labels in parts(np.random.default_rng(args.seed), args.count):
        np.save(folder / f"{part}.npy", np.ascontiguousarray(images))
        np.save(folder / f"{part}-labels.npy", labels)


if __name__ == "__main__":
    main()
