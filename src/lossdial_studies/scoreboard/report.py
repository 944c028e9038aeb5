"""The report: who wins, by how much, how sure that is, and what it cost; as Markdown, tables and pictures."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from lossdial.base.files import write
from lossdial_studies.scoreboard.checks import checks
from lossdial_studies.scoreboard.objectives import COSTS, OBJECTIVES
from lossdial_studies.scoreboard.picture import critical_difference_picture
from lossdial_studies.scoreboard.ranks import critical_difference, friedman
from lossdial_studies.scoreboard.rivals import OURS, RIVALS
from lossdial_studies.scoreboard.rows import Board
from lossdial_studies.scoreboard.sets import CAPS, Kind
from lossdial_studies.scoreboard.table import Field, field

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["markdown", "report"]

_TITLES: Final[dict[Kind, str]] = {"table": "Tables", "images": "Image features"}
_DUELS: Final = ("average_precision", "auc", "log_loss", "cost")


def report(board: Board, console: Console, out: Path | None = None, page: Path | None = None) -> None:
    """Print what was asked for and the mean ranks; write rows, tables and pictures to `out`, the page to `page`."""
    rows = board.rows()
    fields = [found for kind in _TITLES if (found := field(rows, kind)).rivals]
    if not fields:
        console.print(f"{board.folder} has no rows that can be compared yet.", markup=False)
        return
    for one in fields:
        console.print(f"\n{_TITLES[one.kind]}: {_scope(one)}", style="bold", highlight=False)
        for check in checks(one):
            console.print(str(check), style=None if check.reached else "yellow", markup=False, highlight=False)
        for line in _rank_lines(one):
            console.print(line, markup=False, highlight=False)
        for note in one.missing:
            console.print(note, markup=False, highlight=False)
    if out is not None:
        board.pack(out, rows)
        for one in fields:
            write(out / f"{_stem(one)}.csv", _csv(one))
            for group, rivals in _groups(one):
                _draw(one, rivals, out / f"ranks-{_stem(one)}-{group}.png")
        console.print(f"\nrows, tables and pictures in {out}", markup=False)
    if page is not None:
        write(page, markdown(fields, page, out))
        console.print(f"report in {page}", markup=False)


def markdown(fields: Sequence[Field], page: Path | None = None, out: Path | None = None) -> str:
    """The whole report."""
    parts = [_HEAD.format(costs=len(COSTS), caps=", ".join(f"{cap:,}" for cap in CAPS))]
    for one in fields:
        parts.append(f"## {_TITLES[one.kind]}\n{_scope(one)}.\n")
        parts.append("### What it had to show\n" + "\n".join(f"- {check}." for check in checks(one)) + "\n")
        parts.append(_ranks_section(one, page, out))
        if OURS[one.kind] in one.rivals:
            parts.append(_duels_section(one))
        parts.append(_sets_section(one))
        if one.missing:
            parts.append("### Left out\n" + "\n".join(f"- {note}" for note in one.missing) + "\n")
    return "\n".join(parts)


def _scope(one: Field) -> str:
    splits = one.frame.groupby("set")["split"].nunique()
    each = f"{splits.min()}" if splits.min() == splits.max() else f"{splits.min()} to {splits.max()}"
    what = f"{len(one.sets)} sets, {each} {'split' if each == '1' else 'splits'} each, {len(one.rivals)} rivals"
    played = one.whole.drop_duplicates(["set", "split"])
    if len(played) == len(one.frame.drop_duplicates(["set", "split"])):
        return what
    return f"{what}; where two meet, up to {played['set'].nunique()} sets and {len(played)} splits in all"


def _groups(one: Field) -> list[tuple[str, tuple[str, ...]]]:
    return [("all", one.rivals), ("learned", one.learned)]


def _rank_lines(one: Field) -> list[str]:
    ranks = one.mean_ranks().mean(axis=0)
    order = np.argsort(ranks)
    return [f"{ranks[i]:6.2f}  {RIVALS[one.rivals[i]].title}" for i in order]


def _ranks_section(one: Field, page: Path | None, out: Path | None) -> str:
    ranks, learned = one.mean_ranks().mean(axis=0), one.mean_ranks(one.learned).mean(axis=0)
    figures = {objective.name: one.means(objective.name).mean(axis=0) for objective in OBJECTIVES}
    head = [
        "rival",
        "mean rank",
        "neural and linear",
        *(objective.title for objective in OBJECTIVES),
        "trainings",
        "seconds",
    ]
    lines = [_line(head), _line(["---", *["---:"] * (len(head) - 1)])]
    for i in np.argsort(ranks):
        name = one.rivals[i]
        among = f"{learned[one.learned.index(name)]:.2f}" if name in one.learned else ""
        cells = [
            _title(name),
            f"{ranks[i]:.2f}",
            among,
            *(f"{figures[objective.name][i]:.4f}" for objective in OBJECTIVES),
        ]
        lines.append(_line([*cells, f"{one.trainings(name):.0f}", f"{one.seconds(name):.1f}"]))
    text = [
        "### Mean ranks, mean figures, cost",
        "Ranks are over all sets and nine aims, 1 the best; figures are means over sets. *Seconds* are of one "
        "processor, for all trainings that serve all aims of one split.\n",
        *lines,
        "",
    ]
    for group, rivals in _groups(one):
        per_set = one.mean_ranks(rivals)
        who = "All rivals" if group == "all" else "Neural and linear rivals"
        text.append(
            f"{who}: Friedman's p = {friedman(per_set):.2g}; mean ranks that differ by more than "
            f"{critical_difference(len(rivals), len(one.sets)):.2f} (Nemenyi, 5 %, {len(one.sets)} sets) "
            "are not equal.\n"
        )
        if page is not None and out is not None:
            text.append(f"![{who}]({_relative(out / f'ranks-{_stem(one)}-{group}.png', page)})\n")
    return "\n".join(text)


def _duels_section(one: Field) -> str:
    ours = OURS[one.kind]
    objectives = [objective for objective in OBJECTIVES if objective.name in _DUELS]
    head = ["against", *(part for objective in objectives for part in (f"{objective.title}, better by", "w/t/l"))]
    lines = [_line(head), _line(["---", *["---:"] * (len(head) - 1)])]
    for name in one.rivals:
        if name == ours:
            continue
        cells = [RIVALS[name].title]
        for objective in objectives:
            found = one.against(ours, name, objective)
            gain = found.gain
            cells += [f"{gain.value:+.4f} [{gain.low:+.4f}, {gain.high:+.4f}]", found.score]
        lines.append(_line(cells))
    text = (
        f"### {RIVALS[ours].title} against each\n"
        "What it is better by, the mean over sets, with a 95 % interval (sets resampled, then splits). Wins, ties and "
        "losses are sets: a tie is a difference whose 95 % interval over splits, corrected for the rows they share, "
        "holds 0.\n"
    )
    return text + "\n".join(["", *lines, ""])


def _sets_section(one: Field) -> str:
    text = []
    for metric, title in (("average_precision", "AP"), ("auc", "AUC")):
        means = one.means(metric)
        lines = [_line(["set", *(RIVALS[name].title for name in one.rivals)])]
        lines.append(_line(["---", *["---:"] * len(one.rivals)]))
        for name, values in zip(one.sets, means, strict=True):
            best = np.round(values, 3).max()
            cells = [f"**{v:.3f}**" if np.round(v, 3) == best else f"{v:.3f}" for v in values]
            lines.append(_line([name, *cells]))
        text.append("\n".join([f"### {title}, set by set\n", *lines, ""]))
    return "\n".join(text)


def _csv(one: Field) -> str:
    wanted = [
        "seconds",
        "trainings",
        *sorted(set(map(str, one.frame)) - {"set", "split", "rival", "seconds", "trainings"}),
    ]
    means = one.frame.groupby(["set", "rival"], sort=False)[wanted].mean().round(5)
    buffer = io.StringIO()
    means.to_csv(buffer, lineterminator="\n")
    return buffer.getvalue()


def _draw(one: Field, rivals: Sequence[str], path: Path) -> None:
    if len(rivals) < 2:
        return
    ranks = one.mean_ranks(rivals).mean(axis=0)
    who = "all rivals" if len(rivals) == len(one.rivals) else "neural and linear rivals"
    figure = critical_difference_picture(
        [RIVALS[name].title for name in rivals],
        ranks.tolist(),
        critical_difference(len(rivals), len(one.sets)),
        f"{_TITLES[one.kind]}, {len(one.sets)} sets, nine aims: mean ranks of {who}",
        [rival.title for rival in RIVALS.values() if rival.family == "ours"],
    )
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130, metadata={"Software": None})
    write(path, buffer.getvalue())


def _stem(one: Field) -> str:
    return "tables" if one.kind == "table" else "images"


def _title(name: str) -> str:
    title = RIVALS[name].title
    return f"**{title}**" if RIVALS[name].family == "ours" else title


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _relative(path: Path, page: Path) -> str:
    return Path(*[".."] * (len(page.parts) - 1), path).as_posix() if not page.is_absolute() else path.as_posix()


_HEAD: Final = """# Scoreboard
Written by `lossdial scoreboard --store results/scoreboard --report-only --out results/scoreboard --page \
docs/scoreboard.md`; without `--report-only` it runs what is missing. Whoever wins is printed.

How it is played:
- Five random splits of every set into train, validation and test, 60/20/20 within each class. Copies of a row or of a
  picture, and pictures of one lesion, are on one side. At most {caps} rows of each.
- Image sets are features of a frozen EfficientNet-Lite0. β holds for their training rows alone, as in the paper.
- Settings (λ, C, weights, learning rates), thresholds and calibrations are chosen on validation rows, by the same
  function for everybody, anew for each aim; every figure is of test rows. Early stopping reads validation rows too.
- Nine aims count alike. *Precision at a recall* is at the threshold that kept it on validation rows. *Cost* is the mean
  over {costs} expected costs (a miss costs 5, 20 or 100 false alarms; 1, 5 or 20 % are positive), each as a share of
  what deciding without a model costs.
- All networks on tables have the estimator's former size (64-64), and the same batches, epochs and Adam. Heads on
  image features start from zero weights and the best constant bias, 30 epochs. TabM is cut to 8 members of width 96 and
  at most 40 epochs. Boosting: 3 weights of the positives, on tables with 2 sizes of trees each, early stopping. One
  thread each.
- On tables `LCTClassifier()` and *DialedClassifier(LightGBM)* learn from validation rows too, and choose on scores of
  rows left out fold by fold. Every rival that is not a network is fitted again on training and validation rows, with
  the setting, threshold and number of trees chosen before. Networks are not: they stop by validation rows.
- The searches of VS and Focal are over the paper's 16 settings; on image features these, and cross entropy however
  weighted, are trained at learning rates of 1e-3, 3e-4 and 1e-4, and the best of all is taken. The LCT heads there
  have one training: 3e-4 with the polynomial head, 1e-4 with FiLM, which earlier trials suggested.
- *Logit adjustment* adds a constant to every margin, which a threshold and a calibration undo: what differs from cross
  entropy there is the kind of calibration that was chosen.
- *TunedThresholdClassifierCV* is around scikit-learn's histogram boosting on tables, logistic regression on images.
- The exact path is `LCTClassifier("focal", network="features")`: ridge and class weight as coordinates of λ, the richer
  of the two spaces. With the ridge alone it is `LCTClassifier(network="features")`.
- `LCTClassifier()` is the default for tables. Its parts were chosen on these tables, on other splits of them.
  [choices.md](choices.md) measures how much that flatters: the choice made on each half is judged on the other.
"""
