"""``lossdial reproduce``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

if TYPE_CHECKING:
    from rich.console import Console, Group

    from lossdial_studies import Progress

__all__ = ["reproduce"]

T = TypeVar("T")

_QUIET_SECONDS = 30.0  # between lines, where there is no terminal to draw on


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

    from lossdial_studies import Local, OnRay, Store, sweep
    from lossdial_studies.commands.paper import print_study
    from lossdial_studies.studies import study as find_study

    console = Console(soft_wrap=True)
    wanted = find_study(study).experiments(preset, _tuple(methods), settings, seeds, epochs, _tuple(rates))
    there = Store.create(store)
    on_ray = backend == "ray"
    engine = OnRay(ray_address, cpus_per_trial, gpus_per_trial) if on_ray else Local(jobs, accelerator)
    started = time.monotonic()
    try:
        with _display(console) as show:
            progress = sweep(wanted, there, engine, Path(features) if features else there.folder / "features", show)
    except KeyboardInterrupt:
        text = f"stopped; the runs that were done are kept in {store}. The same command goes on with the others."
        raise KeyboardInterrupt(text) from None
    for damaged in there.damaged:
        console.print(f"a damaged row counts as missing: {damaged}", style="yellow", markup=False)
    console.print(
        f"{progress.total:,} runs: {progress.before:,} were there, {progress.ended['done']:,} done now, "
        f"{progress.failed:,} failed{_kinds(progress)}, {progress.retried:,} retried; "
        f"{time.monotonic() - started:.0f} s"
    )
    if progress.failed:
        text = f"What failed and why: lossdial results --store {store} --failed"
        console.print(text, style="yellow", markup=False)
    print_study(there, progress.experiments, console)


def _tuple(values: list[T] | None) -> tuple[T, ...] | None:
    return None if values is None else tuple(values)


def _kinds(progress: Progress) -> str:
    kinds = [f"{count} {status}" for status, count in progress.ended.items() if status != "done"]
    return f" ({', '.join(kinds)})" if kinds else ""


@contextmanager
def _display(console: Console) -> Iterator[Callable[[Progress], None]]:
    """A live table on a terminal; a line now and then elsewhere."""
    from rich.live import Live

    if console.is_terminal:
        with Live(console=console, refresh_per_second=2, transient=True) as live:
            yield lambda progress: live.update(_picture(progress))
        return
    last = [time.monotonic()]

    def line(progress: Progress) -> None:
        if time.monotonic() - last[0] >= _QUIET_SECONDS:
            last[0] = time.monotonic()
            console.print(_summary(progress))

    yield line


def _summary(progress: Progress) -> str:
    left = progress.seconds_left()
    running = sum(len(trial.experiments) for trial in progress.running)
    return (
        f"done {progress.done:,} of {progress.total:,}   running {running:,}   failed {progress.failed:,}   "
        f"time left {'unknown yet' if left is None else _duration(left)}"
    )


def _picture(progress: Progress) -> Group:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table("running", "since", box=None, padding=(0, 2, 0, 0))
    for trial, since in progress.running.items():
        table.add_row(str(trial), _duration(time.monotonic() - since))
    return Group(Text(_summary(progress), style="bold"), table)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
