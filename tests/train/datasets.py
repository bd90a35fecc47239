#!/usr/bin/python3
"""Data that several nets of tests/train share: data/NAME/data.npy and labels.npy. Drawn, not taken from anywhere.

    python3 tests/train/datasets.py     writes them again, the same bytes each time
"""
import pathlib

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent


def pictures(count=24, size=48):
    """u8[count,3,size,size]: one of ten shapes in some colour, place and size on a shaded ground, with noise."""
    rng = np.random.default_rng(5)
    labels = np.arange(count) % 10
    rng.shuffle(labels)
    y, x = np.mgrid[0:size, 0:size]
    images = np.empty((count, 3, size, size), np.uint8)
    for image, label in zip(images, labels):
        cy, cx = rng.uniform(0.4, 0.6, 2) * size
        r = rng.uniform(0.25, 0.4) * size
        dy, dx, far = y - cy, x - cx, np.hypot(y - cy, x - cx)
        box = np.maximum(abs(dx), abs(dy)) < r
        period = rng.uniform(5, 8)
        shape = (far < r,                                            # disk
                 (far < r) & (far > 0.6 * r),                        # ring
                 np.maximum(abs(dx), abs(dy)) < 0.85 * r,            # square
                 (dy < 0.7 * r) & (2 * abs(dx) < dy + r),            # triangle
                 np.minimum(abs(dx), abs(dy)) < 0.25 * r,            # cross
                 box & (np.sin(2 * np.pi * dx / period) > 0),        # stripes that stand
                 box & (np.sin(2 * np.pi * dy / period) > 0),        # lie
                 box & (np.sin(2 * np.pi * (dx + dy) / period) > 0),  # lean
                 box & (np.sin(2 * np.pi * dx / period) * np.sin(2 * np.pi * dy / period) > 0),  # checks
                 abs(dx) + abs(dy) < r)[label]                       # diamond
        ground, colour, slope = rng.uniform(40, 120, 3), rng.uniform(130, 250, 3), rng.uniform(-1, 1, (2, 3))
        shaded = ground[:, None, None] + slope[0][:, None, None] * dy + slope[1][:, None, None] * dx
        lit = np.where(shape, colour[:, None, None], shaded)
        image[:] = np.clip(lit + rng.normal(0, 12, lit.shape), 0, 255).round()
    return images, labels.astype(np.uint8)


def keywords(count=24):
    """f32[count,1,49,10]: cepstral coefficients of twelve words; each coefficient follows a curve of its word."""
    rng = np.random.default_rng(6)
    labels = rng.integers(0, 12, count)
    curves = np.random.default_rng(7).uniform(-1, 1, (12, 10, 4))
    time = np.linspace(0, 1, 49)[:, None]
    data = np.empty((count, 1, 49, 10))
    for sample, label in zip(data, labels):
        level, slope, size, turns = curves[label].T
        moved = time + rng.uniform(-0.1, 0.1)
        sample[0] = 2 * level + 3 * slope * moved + 2 * size * np.sin(2 * np.pi * (1 + 2 * abs(turns)) * moved)
        sample[0] += rng.normal(0, 0.5, (49, 10))
    return data.astype("<f4"), labels.astype(np.int32)


def motions(count=40):
    """f32[count,3,53]: an accelerometer's three axes during one of six motions of different rhythm."""
    rng = np.random.default_rng(8)
    labels = rng.integers(0, 6, count)
    time = np.arange(53) / 53
    data = np.empty((count, 3, 53))
    for sample, label in zip(data, labels):
        phase, strength = rng.uniform(0, 2 * np.pi), rng.uniform(0.7, 1.3, 3)
        for axis in range(3):
            beat = 2 * np.pi * (1.5 + label) * (1 + axis % 2) * time
            sample[axis] = strength[axis] * np.sin(beat + phase + axis) + rng.normal(0, 0.3, 53)
        sample[2] += 1  # gravity
    return data.astype("<f4"), labels.astype(np.int64)


def scenes(count=12, height=18, width=14):
    """u8[count,3,height,width]: a disk and a box on a shaded ground, with noise; each pixel is labelled as one of the three."""
    rng = np.random.default_rng(9)
    y, x = np.mgrid[0:height, 0:width]
    images, labels = np.empty((count, 3, height, width), np.uint8), np.zeros((count, height, width), np.uint8)
    for image, label in zip(images, labels):
        top, left = rng.uniform(0, 8), rng.uniform(0, 6)
        label[(abs(y - top - 4) < 4) & (abs(x - left - 3) < 3)] = 2
        label[np.hypot(y - rng.uniform(4, 14), x - rng.uniform(4, 10)) < rng.uniform(2, 5)] = 1
        colours, slope = rng.uniform(40, 210, (3, 3)), rng.uniform(-1, 1, (2, 3))
        lit = colours[label] + y[..., None] * slope[0] + x[..., None] * slope[1]
        image[:] = np.clip(lit + rng.normal(0, 15, lit.shape), 0, 255).round().transpose(2, 0, 1)
    return images, labels


SETS = {"scenes": scenes, "pictures": pictures, "keywords": keywords, "motions": motions}


def main():
    for name, make in SETS.items():
        folder = HERE / "data" / name
        folder.mkdir(parents=True, exist_ok=True)
        for kind, array in zip(("data", "labels"), make()):
            np.save(folder / f"{kind}.npy", array)
            print(f"{folder / kind}.npy: {array.dtype}{list(array.shape)}")


if __name__ == "__main__":
    main()
