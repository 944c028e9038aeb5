"""Decoding a folder of JPEGs against Pillow's own rate.

    python benchmarks/decode.py             # about a minute

Writes 5,000 photo-like JPEGs of 512×384 to a temporary folder and decodes them to 224 px twice over, interleaved:
with the barest Pillow loop in one thread (open, convert, crop the centre square, resize, to an array), and with
`decode_images` in as many threads as there are cores. While the bare loop is timed, every other core runs
the same loop, so that both meet the same clock speed and memory traffic.
The rate per worker must be at least 90 % of the bare loop's; the exit code says whether it is.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from lossdial.data.readers.decoding import decode_images

SIZE, FLOOR = 224, 0.90


def write_photos(folder: Path, count: int) -> list[Path]:
    """JPEGs with the spectrum of photographs: smoothed noise plus grain, a few templates shifted at random."""
    generator = np.random.default_rng(0)
    templates = []
    for _ in range(20):
        coarse = Image.fromarray(generator.integers(0, 256, (12, 16, 3), dtype=np.uint8))
        smooth = np.asarray(coarse.resize((512, 384), Image.Resampling.BICUBIC), dtype=np.float64)
        templates.append(smooth + generator.normal(0, 8, smooth.shape))
    paths = []
    for i in range(count):
        shifted = np.roll(templates[i % len(templates)], generator.integers(0, 384, 2), axis=(0, 1))
        paths.append(folder / f"{i:05d}.jpg")
        Image.fromarray(np.clip(shifted, 0, 255).astype(np.uint8)).save(paths[-1], quality=90)
    return paths


def bare_rate(paths: list[Path]) -> float:
    """Images per second of the shortest correct Pillow loop."""
    images = np.empty((len(paths), 3, SIZE, SIZE), dtype=np.uint8)
    begun = time.perf_counter()
    for i, path in enumerate(paths):
        with Image.open(path) as image:
            side = min(image.size)
            left, top = (image.width - side) // 2, (image.height - side) // 2
            box = (left, top, left + side, top + side)
            square = image.convert("RGB").resize((SIZE, SIZE), Image.Resampling.BILINEAR, box=box)
        images[i] = np.asarray(square).transpose(2, 0, 1)
    return len(paths) / (time.perf_counter() - begun)


def pool_rate(paths: list[Path], workers: int) -> float:
    begun = time.perf_counter()
    decode_images(paths, SIZE, workers=workers)
    return len(paths) / (time.perf_counter() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=5000, help="number of JPEGs")
    parser.add_argument("--rounds", type=int, default=10, help="parts of the folder, each timed both ways in turn")
    arguments = parser.parse_args()
    workers = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder:
        paths = write_photos(Path(folder), arguments.count)
        pool_rate(paths[:200], workers)  # code into memory; the files were just written and are cached
        ratios = []
        for i in range(arguments.rounds):
            part = paths[i :: arguments.rounds]
            with multiprocessing.get_context("fork").Pool(workers) as others:
                bare = statistics.mean(others.map(bare_rate, [part[k::workers] for k in range(workers)], chunksize=1))
            ours = pool_rate(part, workers)
            ratios.append(ours / workers / bare)
            print(f"bare loop {bare:6.1f} images/s, {workers} workers {ours:6.1f}: {ratios[-1]:.1%} each")
    ratio = statistics.median(ratios)
    print(f"rate per worker / Pillow's single-thread rate: {ratio:.1%} (floor {FLOOR:.0%})")
    sys.exit(0 if ratio >= FLOOR else 1)


if __name__ == "__main__":
    main()
