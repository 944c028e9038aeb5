"""``lossdial reproduce``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

if TYPE_CHECKING:
    from lossdial_studies.sweeps import Progress

T = TypeVar("T")


def reproduce(
    study: str,
    preset: Literal["cpu", "fast", "frozen", "paper"] = "frozen",
    store: str = "runs/store",
    methods: list[str] | None = None,
    settings: int | None = None,
    seeds: int | None = None,
    epochs: int | None = None,
    rates: list[float] | None = None,
    jobs: int = 1,
    backend: Literal["local", "ray"] = "local",
    ray_address: str = "auto",
    cpus_per_trial: float = 1,
    gpus_per_trial: float = 0,
    accelerator: str = "cpu",
    features: str | None = None,
) -> None:
    """Run a part of the paper's study and print our numbers beside the paper's.

    What the store has already is not run again, so an interrupted sweep goes on with the same command, and several
    sweeps may share a store.

    Parameters
    ----------
    study
        auto-deer, auto-truck, animal-vehicle, household, melanoma, ham10000, aptos, ablations, heat-maps, scratch or
        claim.
    preset
        frozen: heads on the features of a pretrained network. cpu: a small ResNet from scratch. fast: a small whitened
        network by Muon from scratch, for pairs of CIFAR-10. paper: as the paper trains, which wants a GPU.
    store
        The folder of results.
    methods
        In place of the study's own: --methods vs,vs+lct. With --preset frozen there are, beside the paper's and its
        ablations, vs:exact and focal:exact, which are solved, and ridge, a search by LogisticRegression.
    settings
        How many of the 16 settings of each method; 4 hold each value of each hyperparameter once. By default the
        study's own, which is all of them for most.
    seeds
        How many seeds, from 0 on. By default the study's own, which is 3 for most.
    epochs
        Passes over the data, in place of the preset's.
    rates
        Only these of the preset's learning rates: --rates 0.001,0.0003. By default all, which are 0.001, 0.0003 and
        0.0001 with --preset frozen, for every method alike, and one with the others.
    jobs
        Trials at once on this machine.
    backend
        local: processes of this machine. ray: a Ray cluster, such as `ray start --head` starts.
    ray_address
        With --backend ray: auto, host:port of the head, or ray://host:port.
    cpus_per_trial
        With --backend ray.
    gpus_per_trial
        With --backend ray.
    accelerator
        With --backend local: cpu, cuda, mps or auto.
    features
        With --preset frozen: where the features are, or are to go, a folder for each data set. By default in the store.
    """
    from rich.console import Console

    from lossdial.base.progress import ProgressBar
    from lossdial_studies.backends import Local, OnRay
    from lossdial_studies.commands.paper import print_study
    from lossdial_studies.store import Store
    from lossdial_studies.studies import study as find_study
    from lossdial_studies.sweeps import sweep

    console = Console(soft_wrap=True)
    wanted = find_study(study).experiments(preset, _tuple(methods), settings, seeds, epochs, _tuple(rates))
    kept = Store.create(store)
    on_ray = backend == "ray"
    engine = OnRay(ray_address, cpus_per_trial, gpus_per_trial) if on_ray else Local(jobs, accelerator)
    started = time.monotonic()
    try:
        with ProgressBar("reproducing", len(wanted)) as bar:

            def show(progress: Progress) -> None:
                running = sum(len(trial.experiments) for trial in progress.running)
                bar.advance(progress.done + progress.failed, {"running": running, "failed": progress.failed})

            progress = sweep(wanted, kept, engine, Path(features) if features else kept.folder / "features", show)
    except KeyboardInterrupt:
        text = f"stopped; the runs that were done are kept in {store}. The same command goes on with the others."
        raise KeyboardInterrupt(text) from None
    for damaged in kept.damaged:
        console.print(f"a damaged row counts as missing: {damaged}", style="yellow", markup=False)
    kinds = ", ".join(f"{count} {status}" for status, count in progress.ended.items() if status != "done")
    console.print(
        f"{progress.total:,} runs: {progress.before:,} were there, {progress.ended['done']:,} done now, "
        f"{progress.failed:,} failed{f' ({kinds})' * bool(kinds)}, {progress.retried:,} retried; "
        f"{time.monotonic() - started:.0f} s"
    )
    if progress.failed:
        text = f"What failed and why: lossdial results --store {store} --failed"
        console.print(text, style="yellow", markup=False)
    print_study(kept, progress.experiments, console)


def _tuple(values: list[T] | None) -> tuple[T, ...] | None:
    return None if values is None else tuple(values)
