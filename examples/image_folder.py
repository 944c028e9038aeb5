"""A folder in the layout of Hugging Face's `imagefolder`: images beside a metadata.csv with file_name and label.

    python examples/image_folder.py            # on a small folder that it paints
    python examples/image_folder.py FOLDER     # on yours: FOLDER/train and FOLDER/test, each with a metadata.csv

The same from the command line, for the train folder:

    lossdial train --data FOLDER/train/metadata.csv --path-column file_name --target label --out run
"""

import csv
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from lossdial import LCTClassifier, Recipe
from lossdial.models import CifarResNet


def read(split: Path) -> tuple[list[Path], np.ndarray]:
    """The files that a metadata.csv lists, and their labels."""
    with (split / "metadata.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [split / row["file_name"] for row in rows], np.array([row["label"] for row in rows])


def paint(root: Path) -> Path:
    """Noise, in one of six images a little brighter."""
    rng = np.random.default_rng(0)
    for split, count in (("train", 240), ("test", 240)):
        (root / split).mkdir(parents=True)
        lines = ["file_name,label"]
        for i in range(count):
            spot = i % 6 == 0
            pixels = rng.integers(0, 150, (16, 16, 3)) + 40 * spot
            Image.fromarray(pixels.astype(np.uint8)).save(root / split / f"{i:03d}.png")
            lines.append(f"{i:03d}.png,{'lesion' if spot else 'clear'}")
        (root / split / "metadata.csv").write_text("\n".join(lines) + "\n")
    return root


def main(root: Path) -> float:
    (files, labels), (test_files, test_labels) = read(root / "train"), read(root / "test")
    network = CifarResNet(8, 4)
    network.image_size = 16  # the side in pixels to which files are brought
    clf = LCTClassifier(network=network, recipe=Recipe(8, batch_size=32), random_state=0).fit(files, labels)
    point = clf.tune(test_files, test_labels, maximize="f1")
    print(point)
    return point.metrics["f1"].value


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(sys.argv[1]) if len(sys.argv) > 1 else paint(Path(folder) / "images"))
