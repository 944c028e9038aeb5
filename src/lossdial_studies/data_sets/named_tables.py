"""Tabular data sets by name, as files of one folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from lossdial.data.leaks import split_rows
from lossdial.data.readers.tables import read_table, split_target
from lossdial.data.samples import TableSplit
from lossdial.data.splits import subsample_minority
from lossdial_studies.data_sets.dataset import SPLIT_SEED
from lossdial_studies.data_sets.fingerprints import file_fingerprint


@dataclass(frozen=True, kw_only=True)
class TableDataSet:
    """A table by name, split 80/20 within each class, copies on one side; label 1 of the target is the minority."""

    name: str
    file: str
    rows: int
    source: str
    address: str
    licence: str
    target: str = "y"
    drop: tuple[str, ...] = ()
    majority: str = "negative"
    minority: str = "positive"
    default_beta: float | None = None
    betas: tuple[float, ...] = ()
    test_share: float = 0.2

    @property
    def kind(self) -> Literal["table"]:
        """Not images."""
        return "table"

    def how_to_get(self, root: str | Path) -> str:
        """What to download, and where to put it."""
        return f"Put {self.file} (from {self.source}, {self.address}) into {root}/tables"

    def present(self, root: str | Path) -> bool:
        """Whether the file is in the folder `root` or in its folder `tables`."""
        return self._path(Path(root)) is not None

    def fingerprint(self, root: str | Path) -> str:
        """A checksum of the file, computed once per process."""
        path = self._require(Path(root))
        return file_fingerprint([path], path.parent)

    def load(self, root: str | Path, beta: float | None, seed: int = 0) -> TableSplit:
        """Training and test rows at ratio `beta`; None keeps the minority as it is. The test rows never change."""
        path = self._require(Path(root))
        features, labels = split_target(read_table(path), self.target, self.drop)
        y = labels.astype(np.int64)
        test = split_rows(features, y, None, self.test_share, SPLIT_SEED).test
        train = np.flatnonzero(~test)
        if beta is not None:
            train = train[subsample_minority(y[train], beta, seed)]
        return TableSplit(
            name=self.name,
            class_names=(self.majority, self.minority),
            beta=float(beta if beta is not None else (y[train] == 0).sum() / (y[train] == 1).sum()),
            x_train=features.iloc[train].reset_index(drop=True),
            y_train=y[train],
            x_test=features[test].reset_index(drop=True),
            y_test=y[test],
        )

    def _require(self, root: Path) -> Path:
        path = self._path(root)
        if path is None:
            raise FileNotFoundError(f"{self.name} is not in {root}. {self.how_to_get(root)}")
        return path

    def _path(self, root: Path) -> Path | None:
        return next((p for p in (root / self.file, root / "tables" / self.file) if p.is_file()), None)


ADBENCH = ("ADBench", "https://github.com/Minqi824/ADBench")
KEEL = ("KEEL", "https://sci2s.ugr.es/keel/imbalanced.php")
# name, rows
ADBENCH_ROWS = (
    ("mammography", 11_183),
    ("campaign", 41_188),
    ("cover", 286_048),
    ("celeba", 202_599),
    ("satimage_2", 5_803),
    ("wilt", 4_819),
    ("fault", 1_395),
    ("internet_ads", 1_678),
    ("magic_gamma", 12_949),
    ("mnist_0_vs_6", 7_603),
    ("musk", 3_062),
    ("pendigits", 6_870),
    ("spambase", 2_654),
    ("stamps", 340),
)
KEEL_ROWS = (
    ("keel_abalone19", 4_174),
    ("keel_car_good", 1_728),
    ("keel_flare_f", 1_066),
    ("keel_kr_vs_k_zero_vs_fifteen", 2_193),
    ("keel_page_blocks0", 5_472),
    ("keel_poker_8_9_vs_5", 2_075),
    ("keel_winequality_red_4", 1_599),
    ("keel_yeast4", 1_484),
)

TABLES: tuple[TableDataSet, ...] = (
    *(
        TableDataSet(
            name=name, file=f"{name}.npz", rows=rows, source=source, address=address, licence="as the original data"
        )
        for (source, address), listed in ((ADBENCH, ADBENCH_ROWS), (KEEL, KEEL_ROWS))
        for name, rows in listed
    ),
    TableDataSet(
        name="credit_default",
        file="credit_default.csv",
        rows=30_000,
        target="default.payment.next.month",
        drop=("ID",),
        majority="paid",
        minority="default",
        source="UCI",
        address="https://archive.ics.uci.edu/dataset/350",
        licence="CC BY 4.0",
    ),
    TableDataSet(
        name="machine_failure",
        file="machine_failure.csv",
        rows=10_000,
        target="Machine failure",
        # The five failure modes give the label away.
        drop=("UID", "Product ID", "TWF", "HDF", "PWF", "OSF", "RNF"),
        majority="running",
        minority="failure",
        source="UCI, AI4I 2020",
        address="https://archive.ics.uci.edu/dataset/601",
        licence="CC BY 4.0",
    ),
)
