"""The report: who wins, by how much, how sure that is, and what it cost; as Markdown, tables and pictures."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lossdial.base.files import write
from lossdial_studies.scoreboard.field import Field, Floats, critical_difference, field, friedman
from lossdial_studies.scoreboard.objectives import COSTS, OBJECTIVES, BoardObjective
from lossdial_studies.scoreboard.rivals import OURS, RIVALS
from lossdial_studies.scoreboard.running import Board
from lossdial_studies.scoreboard.sets import CAPS, Kind

if TYPE_CHECKING:
    from rich.console import Console

_TITLES: Final[dict[Kind, str]] = {"table": "Tables", "images": "Image features"}
_STEMS: Final[dict[Kind, str]] = {"table": "tables", "images": "images"}
_BY_NAME: Final = {objective.name: objective for objective in OBJECTIVES}
_DUELS: Final = [_BY_NAME[name] for name in ("auc", "average_precision", "log_loss", "cost")]
_BELOW_RIDGE: Final = 0.003
_SETTINGS: Final = 16  # of the VS loss, which train side by side at each learning rate


def report(board: Board, console: Console, out: Path | None = None, page: Path | None = None) -> None:
    """Print the claims and the mean ranks; write rows, tables and pictures to `out`, the page to `page`."""
    rows = board.rows()
    fields = [one for kind in _TITLES if (one := field(rows, kind)).rivals]
    if not fields:
        console.print(f"{board.folder} has no rows that can be compared yet.", markup=False)
        return
    for one in fields:
        console.print(f"\n{_TITLES[one.kind]}: {_scope(one)}", style="bold", highlight=False)
        for claim in claims(one):
            console.print(str(claim), style=None if claim.reached else "yellow", markup=False, highlight=False)
        ranks = one.mean_ranks().mean(axis=0)
        for i in np.argsort(ranks):
            console.print(f"{ranks[i]:6.2f}  {RIVALS[one.rivals[i]].title}", markup=False, highlight=False)
        for note in one.missing:
            console.print(note, markup=False, highlight=False)
    if out is not None:
        board.pack(out, rows)
        for one in fields:
            write(out / f"{_STEMS[one.kind]}.csv", _csv(one))
            for rivals, who in _groups(one):
                if len(rivals) > 1:
                    write(_picture_path(out, one, rivals), _picture(one, rivals, who))
        console.print(f"\nrows, tables and pictures in {out}", markup=False)
    if page is not None:
        write(page, _markdown(fields, page, out))
        console.print(f"report in {page}", markup=False)


@dataclass(frozen=True)
class Claim:
    """What the scoreboard was asked to show, whether it holds, and the number it hangs on."""

    text: str
    reached: bool
    number: str

    def __str__(self) -> str:
        return f"{'reached' if self.reached else 'MISSED'}: {self.text}. {self.number}"


def claims(one: Field) -> tuple[Claim, ...]:
    """Those for a kind of set, as far as their rivals have played."""
    if OURS[one.kind] not in one.rivals:
        return ()
    if one.kind == "table":
        return (*_first_place(one), *_against_trees(one))
    return tuple(claim for path in ("exact", "exact_ridge") if path in one.rivals for claim in _of_path(one, path))


def _of_path(one: Field, path: str) -> Iterator[Claim]:
    """Of the exact path that counts, or of the one with the ridge alone."""
    who = f"the {RIVALS[path].title}," if path == "exact_ridge" else "the exact path"
    auc, ap = _BY_NAME["auc"], _BY_NAME["average_precision"]
    if "ridge" in one.rivals:
        for objective in (auc, ap):
            sets, gain = _gains(one, objective, path, "ridge")
            below = max(0.0, -float(gain.min()) - _BELOW_RIDGE)
            number = f"The least is {gain.min():+.4f}, on {sets[int(gain.argmin())]}; on average {gain.mean():+.4f}"
            if below:
                missed = f"{(gain < -_BELOW_RIDGE).sum()} of {len(gain)} sets miss it, the worst by {below:.4f}"
                number = f"{number}; {missed}"
            text = f"{who} is on no set below the ridge search by more than {_BELOW_RIDGE} {objective.title}"
            yield Claim(text, below == 0, number)
    for other in ("vs", "focal", "cross_entropy"):
        if other in one.rivals:
            gains = [float(_gains(one, objective, path, other)[1].mean()) for objective in (auc, ap)]
            text = f"{who} is on average above {RIVALS[other].title}"
            yield Claim(text, min(gains) > 0, f"AUC {gains[0]:+.4f}, AP {gains[1]:+.4f}")
    if "vs" in one.rivals:
        share = one.effort(path, "seconds") / one.effort("vs", "seconds")
        rates = one.effort("vs", "trainings") / _SETTINGS
        number = f"It takes {share:.2f} of it, and {share * rates:.2f} of the same at one learning rate"
        yield Claim(f"{who} takes at most half of the VS search's time, trained as stacks", share <= 0.5, number)


def _first_place(one: Field) -> Iterator[Claim]:
    for rivals, who in ((one.rivals, "all rivals"), (one.learned, "the neural and linear rivals")):
        ranks = one.mean_ranks(rivals).mean(axis=0)
        own, best = ranks[rivals.index(OURS["table"])], int(ranks.argmin())
        place = int((ranks < own).sum()) + 1
        ahead = "" if place == 1 else f"; first is {RIVALS[rivals[best]].title} with {ranks[best]:.2f}"
        text = f"LCTClassifier(), trained once, ranks first on average over all aims among {who}"
        yield Claim(text, place == 1, f"It is number {place} of {len(ranks)} with mean rank {own:.2f}{ahead}")


def _against_trees(one: Field) -> Iterator[Claim]:
    for other, names in (("lightgbm", ("average_precision", "log_loss", "cost")), ("dialed", ("cost",))):
        for objective in (_BY_NAME[name] for name in names if other in one.rivals):
            gain = one.against(OURS["table"], other, objective).gain
            text = f"it is better than {RIVALS[other].title} in {objective.title} by an interval that excludes zero"
            if other == "dialed":
                text = f"it is level with {RIVALS[other].title} in {objective.title}, or better"
            reached = gain.high >= 0 if other == "dialed" else gain.low > 0
            yield Claim(text, reached, f"It is better by {gain.value:+.4f} [{gain.low:+.4f}, {gain.high:+.4f}]")


def _gains(one: Field, objective: BoardObjective, ours: str, other: str) -> tuple[list[str], Floats]:
    """Sets, and what ours is better by on each, the mean over splits."""
    differences = one.differences(ours, other, objective)
    return list(differences), np.array([d.mean() for d in differences.values()])


def _markdown(fields: Sequence[Field], page: Path, out: Path | None) -> str:
    sections = [_HEAD.format(costs=len(COSTS), caps=", ".join(f"{cap:,}" for cap in CAPS))]
    for one in fields:
        sections.append(f"## {_TITLES[one.kind]}\n{_scope(one)}.\n")
        sections.append("### What it had to show\n" + "\n".join(f"- {claim}." for claim in claims(one)) + "\n")
        sections.append(_ranks_section(one, page, out))
        if OURS[one.kind] in one.rivals:
            sections.append(_duels_section(one))
        sections += [_sets_section(one, _BY_NAME[name]) for name in ("average_precision", "auc")]
        if one.missing:
            sections.append("### Left out\n" + "\n".join(f"- {note}" for note in one.missing) + "\n")
    return "\n".join(sections)


def _scope(one: Field) -> str:
    splits = one.frame.groupby("set")["split"].nunique()
    each = f"{splits.min()}" if splits.min() == splits.max() else f"{splits.min()} to {splits.max()}"
    what = f"{len(one.sets)} sets, {each} {'split' if each == '1' else 'splits'} each, {len(one.rivals)} rivals"
    played = one.whole.drop_duplicates(["set", "split"])
    if len(played) == len(one.frame.drop_duplicates(["set", "split"])):
        return what
    return f"{what}; where two meet, up to {played['set'].nunique()} sets and {len(played)} splits in all"


def _groups(one: Field) -> tuple[tuple[tuple[str, ...], str], ...]:
    return (one.rivals, "all rivals"), (one.learned, "neural and linear rivals")


def _ranks_section(one: Field, page: Path, out: Path | None) -> str:
    ranks, learned = one.mean_ranks().mean(axis=0), one.mean_ranks(one.learned).mean(axis=0)
    kept = {f"recall@{floor}": f"recall kept, .{floor[2:]}" for floor in ("0.9", "0.99")}
    figures = [one.means(name).mean(axis=0) for name in (*(objective.name for objective in OBJECTIVES), *kept)]
    titles = [*(objective.title for objective in OBJECTIVES), *kept.values()]
    head = ["rival", "mean rank", "neural and linear", *titles, "trainings", "seconds"]
    lines = []
    for i in np.argsort(ranks):
        name = one.rivals[i]
        title = f"**{RIVALS[name].title}**" if RIVALS[name].family == "ours" else RIVALS[name].title
        among = f"{learned[one.learned.index(name)]:.2f}" if name in one.learned else ""
        effort = f"{one.effort(name, 'trainings'):.0f}", f"{one.effort(name, 'seconds'):.1f}"
        lines.append([title, f"{ranks[i]:.2f}", among, *(f"{values[i]:.4f}" for values in figures), *effort])
    text = (
        "### Mean ranks, mean figures, cost\n"
        "Ranks are over all sets and nine aims, 1 the best; figures are means over sets. *Recall kept* is what the "
        "thresholds for a recall of .9 and .99 reached on test rows: a precision above a smaller one is no merit. "
        "*Seconds* are of one processor, for all trainings that serve all aims of one split."
        f"\n\n{_table(head, lines)}\n"
    )
    for rivals, who in _groups(one):
        text += (
            f"{who.capitalize()}: Friedman's p = {friedman(one.mean_ranks(rivals)):.2g}; mean ranks that differ by "
            f"more than {critical_difference(len(rivals), len(one.sets)):.2f} (Nemenyi, 5 %, {len(one.sets)} sets) "
            "are not equal.\n\n"
        )
        if out is not None:
            text += f"![{who.capitalize()}]({_relative(_picture_path(out, one, rivals), page)})\n\n"
    return text[:-1]


def _duels_section(one: Field) -> str:
    ours = OURS[one.kind]
    lines = []
    for name in one.rivals:
        if name != ours:
            duels = [one.against(ours, name, objective) for objective in _DUELS]
            cells = [(f"{d.gain.value:+.4f} [{d.gain.low:+.4f}, {d.gain.high:+.4f}]", d.score) for d in duels]
            lines.append([RIVALS[name].title, *(text for pair in cells for text in pair)])
    head = ["against", *(title for objective in _DUELS for title in (f"{objective.title}, better by", "w/t/l"))]
    return (
        f"### {RIVALS[ours].title} against each\n"
        "What it is better by, the mean over sets, with a 95 % interval (sets resampled, then splits). Wins, ties and "
        "losses are sets: a tie is a difference whose 95 % interval over splits, corrected for the rows they share, "
        f"holds 0.\n\n{_table(head, lines)}"
    )


def _sets_section(one: Field, objective: BoardObjective) -> str:
    lines = []
    for name, values in zip(one.sets, one.means(objective.name), strict=True):
        best = np.round(values, 3).max()
        lines.append([name, *(f"**{v:.3f}**" if np.round(v, 3) == best else f"{v:.3f}" for v in values)])
    return (
        f"### {objective.title}, set by set\n\n{_table(['set', *(RIVALS[name].title for name in one.rivals)], lines)}"
    )


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    ruler = ["---", *["---:"] * (len(head) - 1)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, ruler, *lines))


def _csv(one: Field) -> str:
    keys = {"set", "split", "rival", "seconds", "trainings"}
    wanted = ["seconds", "trainings", *sorted(set(map(str, one.frame)) - keys)]
    return str(one.frame.groupby(["set", "rival"], sort=False)[wanted].mean().round(5).to_csv(lineterminator="\n"))


def _picture_path(out: Path, one: Field, rivals: Sequence[str]) -> Path:
    return out / f"ranks-{_STEMS[one.kind]}-{'all' if len(rivals) == len(one.rivals) else 'learned'}.png"


def _relative(path: Path, page: Path) -> str:
    return path.as_posix() if page.is_absolute() else Path(*[".."] * (len(page.parts) - 1), path).as_posix()


def _picture(one: Field, rivals: Sequence[str], who: str) -> bytes:
    figure = critical_difference_picture(
        [RIVALS[name].title for name in rivals],
        one.mean_ranks(rivals).mean(axis=0).tolist(),
        critical_difference(len(rivals), len(one.sets)),
        f"{_TITLES[one.kind]}, {len(one.sets)} sets, nine aims: mean ranks of {who}",
        [rival.title for rival in RIVALS.values() if rival.family == "ours"],
    )
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130, metadata={"Software": None})
    return buffer.getvalue()


def cliques(ranks: Sequence[float], difference: float) -> list[tuple[int, int]]:
    """The longest runs (first, last) of ascending mean ranks that lie within the critical difference."""
    found: list[tuple[int, int]] = []
    for first in range(len(ranks)):
        last = max(i for i in range(first, len(ranks)) if ranks[i] - ranks[first] <= difference)
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return found


def critical_difference_picture(
    titles: Sequence[str], ranks: Sequence[float], difference: float, heading: str, bold: Sequence[str] = ()
) -> Any:
    """A figure of matplotlib's."""
    from matplotlib.figure import Figure

    order = np.argsort(ranks, kind="stable")
    names, values = [titles[i] for i in order], [float(ranks[i]) for i in order]
    bars = cliques(values, difference)
    half = (len(names) + 1) // 2
    top, step = 0.25 * len(bars) + 0.5, 0.42
    figure = Figure(figsize=(8.5, 1.5 + 0.2 * len(bars) + 0.22 * half), layout="constrained")
    axes = figure.subplots()
    low, high = 1, len(names)
    axes.set_xlim(low - 0.42 * (high - low), high + 0.42 * (high - low))
    axes.set_ylim(-top - step * (half + 0.5), 1.6)
    axes.axis("off")
    axes.set_title(heading, fontsize=10)
    axes.plot([low, high], [0, 0], color="black", linewidth=1)
    for tick in range(low, high + 1):
        axes.plot([tick, tick], [0, 0.15], color="black", linewidth=1)
        axes.text(tick, 0.25, str(tick), ha="center", va="bottom", fontsize=8)
    axes.plot([low, low + difference], [1.05, 1.05], color="black", linewidth=2)
    axes.text(low + difference / 2, 1.12, f"critical difference {difference:.2f}", ha="center", va="bottom", fontsize=8)
    for i, (name, value) in enumerate(zip(names, values, strict=True)):
        left = i < half
        y = -top - step * (i if left else len(names) - 1 - i)
        edge = low - 0.04 * (high - low) if left else high + 0.04 * (high - low)
        axes.plot([value, value, edge], [0, y, y], color="0.45", linewidth=0.8)
        text = f"{name}  {value:.2f}" if left else f"{value:.2f}  {name}"
        weight = "bold" if name in bold else "normal"
        axes.text(edge, y, text, ha="right" if left else "left", va="center", fontsize=8, fontweight=weight)
    for i, (first, last) in enumerate(bars):
        y = -0.25 * (i + 1)
        axes.plot([values[first] - 0.05, values[last] + 0.05], [y, y], color="tab:red", linewidth=2.5)
    return figure


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
