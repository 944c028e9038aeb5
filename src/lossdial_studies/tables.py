"""The paper's tables from our results, the paper's own figures beside them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import pandas as pd

from lossdial.base.errors import closest
from lossdial.dial.metrics.registry import PAPER_METRICS, as_metric
from lossdial_studies.methods import ABLATIONS, METHODS, SOLVED, method
from lossdial_studies.protocols import PROTOCOLS, Protocol, best
from lossdial_studies.published import COLUMNS, published
from lossdial_studies.rendering import Marks, ResultCell, ResultRow, ResultTable

_METRIC_TITLES: Final = {
    "auc": "AUC",
    "average_precision": "Average precision",
    "brier": "Brier score",
    "max_f1": "Max F1",
    "max_balanced_accuracy": "Max balanced accuracy",
    "precision_at_recall@0.99": "Precision at recall ≥ 0.99",
}
_STAND_IN: Final = (
    "† HAM10000, one source of ISIC 2019, stands in for the paper's Melanoma, whose figures are the ones beside it."
)
_FILM_ROWS: Final = (("", "baseline"), ("+lct", "+ LCT"), ("+lct:no-film", "+ LCT without FiLM"))
_BESIDE: Final = (*(name for name in ABLATIONS if ":polynomial" in name), *SOLVED)
_AUTO_TRUCK: Final = ("cifar10-auto-truck", 100.0)


def result_table(frame: pd.DataFrame, metric: str, protocol: Protocol) -> ResultTable:
    """One metric of the six methods on each data set and β of the paper that ``frame`` has.

    Below them, where there are results: LCT with the polynomial head, and what is solved rather than trained.
    """
    name = as_metric(metric).name
    frame = _of(frame, [*METHODS, *_BESIDE])
    methods = [*METHODS, *(m for m in _BESIDE if (frame["method"] == m).any())]
    columns = [c for c in COLUMNS if (c.data, c.beta) in _pairs(frame)]
    if not columns:
        raise ValueError(
            f"frame has no result on a data set of the paper; it has {_text(_pairs(frame))}. "
            f"The tables show {_text([(c.data, c.beta) for c in COLUMNS])}."
        )
    frame = pd.concat([_at(frame, c.data, c.beta) for c in columns])
    trained = _trained(frame)
    rows = [
        ResultRow(
            method(m).title,
            tuple(_cell(frame, name, m, (c.data, c.beta), protocol, published(name, m, c)) for c in columns),
            ends_section=m.endswith("+lct"),
        )
        for m in methods
    ]
    notes = [trained, *([_STAND_IN] if any(c.stand_in for c in columns) else [])]
    headings = tuple(f"{c.heading} †" if c.stand_in else c.heading for c in columns)
    return _table(_title(name), protocol, headings, rows, notes)


def film_table(frame: pd.DataFrame, protocol: Protocol) -> ResultTable:
    """AUC of a baseline, LCT and LCT without FiLM, on the one data set that has the last, else CIFAR-10 auto/truck."""
    columns = ("vs", "vs+sam", "focal")
    frame, place = _one_data_set(frame, [column + suffix for column in columns for suffix, _ in _FILM_ROWS])
    trained = _trained(frame)
    papers = next((c for c in COLUMNS if (c.data, c.beta) == place == _AUTO_TRUCK), None)

    def cell(name: str) -> ResultCell:
        paper = None if papers is None else published("auc", name, papers)
        return _cell(frame, "auc", name, place, protocol, paper)

    rows = [ResultRow(label, tuple(cell(column + suffix) for column in columns)) for suffix, label in _FILM_ROWS]
    title = f"AUC with and without FiLM, {_text([place])}"
    return _table(title, protocol, tuple(method(m).title for m in columns), rows, [trained])


def ablation_table(frame: pd.DataFrame, protocol: Protocol) -> ResultTable:
    """The paper's six metrics of VS, VS + LCT and each change to it, on a data set found as in `film_table`."""
    methods = ["vs", "vs+lct", *(name for name in ABLATIONS if name.startswith("vs+lct:"))]
    frame, place = _one_data_set(frame, methods)
    trained = _trained(frame)
    rows = [
        ResultRow(method(m).title, tuple(_cell(frame, metric, m, place, protocol) for metric in PAPER_METRICS))
        for m in methods
        if (frame["method"] == m).any()
    ]
    return _table(f"Ablations, {_text([place])}", protocol, tuple(map(_title, PAPER_METRICS)), rows, [trained])


#: by the names that the command line knows
TABLES: Final = (*PAPER_METRICS, "film", "ablation")


def make_table(name: str, frame: pd.DataFrame, protocol: Protocol) -> ResultTable:
    """The table of that name in `TABLES`."""
    if name not in TABLES:
        raise ValueError(f"no table is called {name!r}; {closest(name, TABLES)}")
    if name in PAPER_METRICS:
        return result_table(frame, name, protocol)
    return film_table(frame, protocol) if name == "film" else ablation_table(frame, protocol)


def _of(frame: pd.DataFrame, methods: Sequence[str]) -> pd.DataFrame:
    rows = frame if frame.empty else frame[frame["method"].isin(list(methods))]  # an empty store has no columns either
    if rows.empty:
        raise ValueError(f"frame has no result of {', '.join(methods)}. Run one of them first, or filter less.")
    return rows


def _pairs(frame: pd.DataFrame) -> list[tuple[str, float]]:
    """The data sets and β there are, in order of appearance."""
    return list(dict.fromkeys(zip(frame["data"].astype(str), frame["beta"].astype(float), strict=True)))


def _at(frame: pd.DataFrame, data: str, beta: float) -> pd.DataFrame:
    return frame[(frame["data"] == data) & (frame["beta"] == beta)]


def _one_data_set(frame: pd.DataFrame, methods: Sequence[str]) -> tuple[pd.DataFrame, tuple[str, float]]:
    """The rows of these methods on the one data set and β that has an ablation; the paper's own where several have."""
    frame = _of(frame, methods)
    places = _pairs(frame[frame["method"].isin(list(ABLATIONS))]) or _pairs(frame)
    if len(places) > 1 and _AUTO_TRUCK not in places:
        raise ValueError(
            f"this table is of one data set and β; frame has {_text(places)}. Keep one with --data and --beta."
        )
    place = _AUTO_TRUCK if _AUTO_TRUCK in places else places[0]
    return _at(frame, *place), place


def _trained(frame: pd.DataFrame) -> str:
    """With which preset, how long: a note. Figures of different trainings do not belong in one column."""
    ways: dict[str, dict[str, None]] = {}
    for data, preset, epochs in frame[["data", "preset", "epochs"]].drop_duplicates().itertuples(index=False):
        ways.setdefault(data, {})[f"{preset}, {epochs:g} epochs"] = None
    mixed = [f"{data}: {' and '.join(several)}" for data, several in ways.items() if len(several) > 1]
    if mixed:
        raise ValueError(
            f"a table needs one preset and one number of epochs per data set; frame has {'; '.join(mixed)}. "
            "Keep one with --preset and --epochs."
        )
    if len({next(iter(way)) for way in ways.values()}) == 1:
        return f"Preset {next(iter(next(iter(ways.values()))))}."
    return f"Presets: {'; '.join(f'{data} {next(iter(way))}' for data, way in ways.items())}."


def _cell(
    frame: pd.DataFrame,
    metric: str,
    method: str,
    place: tuple[str, float],
    protocol: Protocol,
    paper: float | None = None,
) -> ResultCell:
    rows = _at(frame[frame["method"] == method], *place)
    return ResultCell(metric, method, *place, None if rows.empty else best(rows, metric, protocol), paper)


def _table(
    title: str, protocol: Protocol, headings: tuple[str, ...], rows: Sequence[ResultRow], notes: Sequence[str]
) -> ResultTable:
    """The table with its marks, and with notes on all that its figures do not say themselves."""
    cells = [cell for row in rows for cell in row.cells]
    legend = ["bold: best of its column"]
    if any(row.ends_section for row in rows):
        legend.append("underlined: better of a method with and without LCT")
    if any(cell.paper is not None for cell in cells):
        legend.append("in brackets: the paper's figure")
    said = [f"{protocol}: {PROTOCOLS[protocol]}.", f"±: standard deviation over seeds; {'; '.join(legend)}."]
    less = dict.fromkeys(_title(cell.metric) for cell in cells if not as_metric(cell.metric).greater_is_better)
    if less:
        said.append(f"Less is better: {', '.join(less)}.")
    if protocol == "held-out" and any(cell.metric.startswith("precision_at_recall") for cell in cells):
        said.append("The recall was met on the half that chose; on the half reported, it may fall short.")
    ours = _marks(rows, lambda cell: cell.ours.value if cell.ours else None)
    papers = _marks(rows, lambda cell: cell.paper)
    marked = tuple(
        replace(row, cells=tuple(replace(c, marks=m, paper_marks=p) for c, m, p in zip(row.cells, *marks, strict=True)))
        for row, *marks in zip(rows, ours, papers, strict=True)
    )
    return ResultTable(title, protocol, headings, marked, (*said, *notes))


def _marks(rows: Sequence[ResultRow], figure: Callable[[ResultCell], float | None]) -> list[list[Marks]]:
    """Of each cell: best of its column, and better within its section."""
    ends = [i + 1 for i, row in enumerate(rows) if row.ends_section]
    columns = []
    for column in zip(*(row.cells for row in rows), strict=True):
        greater = as_metric(column[0].metric).greater_is_better
        figures = [figure(cell) for cell in column]
        better = [won for a, b in zip([0, *ends], ends, strict=False) for won in _winners(figures[a:b], greater)]
        better += [False] * (len(rows) - len(better))
        columns.append([Marks(*both) for both in zip(_winners(figures, greater), better, strict=True)])
    return [list(row) for row in zip(*columns, strict=True)]


def _winners(figures: Sequence[float | None], greater: bool) -> list[bool]:
    """Which are the best at the three decimals printed; none where there is nothing to compare."""
    printed = [None if f is None or math.isnan(f) else round(f, 3) for f in figures]
    known = [f for f in printed if f is not None]
    if len(known) < 2:
        return [False] * len(figures)
    top = max(known) if greater else min(known)
    return [f == top for f in printed]


def _title(metric: str) -> str:
    return _METRIC_TITLES.get(metric, metric)


def _text(pairs: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{data} β={beta:g}" for data, beta in pairs) or "none"
