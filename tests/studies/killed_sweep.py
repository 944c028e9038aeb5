"""Runs a sweep until it is killed, or to its end: STORE FEATURES JOBS, and the address of a Ray cluster, if any.

A script of its own, so that a test can kill it, with its workers or without.
"""

import sys
from pathlib import Path

from lossdial_studies.backends import Local, OnRay
from lossdial_studies.experiment import grid, spread_settings
from lossdial_studies.store import Store
from lossdial_studies.sweeps import sweep

METHODS = ("vs+lct", "vs+sam+lct", "vs+lct:per-sample")


def main(store: str, features: str, jobs: str, address: str | None = None) -> None:
    runs = grid([("cifar10-auto-truck", 20.0)], "frozen", METHODS, spread_settings(4), range(2), 12)
    backend = Local(int(jobs)) if address is None else OnRay(address)
    progress = sweep(runs, Store.create(store), backend, Path(features), tick=0.05, checkpoint_seconds=0)
    print(progress.before, progress.ended["done"], progress.failed, progress.retried)


if __name__ == "__main__":
    main(*sys.argv[1:])
