"""The commands that choose an operating point: tune, adapt, refer, cap-alerts; and sample-size, which plans for one."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import lossdial
from lossdial.base.errors import InputError, warn
from lossdial.base.report import show
from lossdial.cli.options import Columns, ScoresOptions

if TYPE_CHECKING:
    from lossdial.cli.dials import ModelDial, ScoresDial
    from lossdial.dial import OperatingPoint


def tune(
    run: str | None = None,
    /,
    *,
    data: str | None = None,
    maximize: str | None = None,
    minimize: str | None = None,
    subject_to: dict[str, float] | None = None,
    cost_fn: float | None = None,
    cost_fp: float | None = None,
    prevalence: float | None = None,
    name: str = "default",
    calibration: Literal["auto", "temperature", "platt", "beta", "isotonic"] | None = "auto",
    confidence: float | None = None,
    jointly: int = 1,
    by: str | None = None,
    columns: Columns,
    scores: ScoresOptions,
) -> None:
    """Choose λ and threshold for an objective, and keep them as an operating point.

    With --confidence the bounds hold on new data, and the point carries the certificate. The point is kept in the model
    RUN. With --scores in place of RUN, the scores may be those of any classifier, and the point is written as JSON.

    Parameters
    ----------
    maximize
        A metric, such as f1, auc, average_precision, balanced_accuracy, precision, recall.
    minimize
        A metric, such as brier, log_loss, fpr, expected_cost.
    prevalence
        With --minimize expected_cost: the share of positives where the model will be used. By default that of the data.
    confidence
        Certify the bounds: they hold on new data with this probability, such as 0.95.
    jointly
        With --confidence: how many certificates these data are to give, all of which hold at once with it.
    by
        With --confidence: a column (sex, site, scanner); the floor on recall then holds in each of its subgroups.
    """
    from lossdial.cli.dials import open_dial
    from lossdial.dial import Objective

    source = open_dial(run, data, columns, scores)
    subgroups = source.column(by, "by")
    started = time.perf_counter()
    objective = Objective(maximize, minimize, subject_to or {}, cost_fn, cost_fp, prevalence)
    point = source.dial.tune(
        objective=objective, name=name, calibration=calibration, confidence=confidence, by=subgroups, jointly=jointly
    )
    _keep(source, point, started=started)


def adapt(
    run: str,
    /,
    *,
    prevalence: float | None = None,
    cost_fn: float = 1.0,
    cost_fp: float = 1.0,
    unlabelled: str | None = None,
    data: str | None = None,
    name: str = "default",
    confidence: float | None = None,
    columns: Columns,
) -> None:
    """Move to another prevalence and other costs; it takes no labels and no training.

    λ and threshold of the least expected cost come from the ROC envelope over all λ, and probabilities are moved to the
    new prevalence.

    Parameters
    ----------
    unlabelled
        In place of --prevalence: rows or images from there, without labels, to estimate it from. Where no share of
        positives explains their scores, because something else has changed too, this declines and says what moved.
    confidence
        Certify recall and FPR of the point on samples set aside: they hold with this probability. Without it, the point
        is not certified.
    """
    from lossdial.cli.dials import ModelDial, keep_in_model
    from lossdial.cli.inputs import require_data_for
    from lossdial.cli.points import point_sheet

    if (prevalence is None) == (unlabelled is None):
        raise InputError("", "give one of {prevalence} and {unlabelled}")
    costs: dict[str, Any] = {"cost_fn": cost_fn, "cost_fp": cost_fp, "name": name}
    if prevalence is not None and data is None and confidence is None:  # the envelope is enough, without evidence too
        require_data_for(columns)
        bundle = lossdial.Bundle.load(run)
        point = bundle.adapt(prevalence=prevalence, **costs)
        show(point_sheet(point), keep_in_model(bundle, run, point))
        return
    source = ModelDial.of(run, data, _labelled(columns, data, unlabelled))
    if unlabelled is None:
        point = source.dial.adapt(prevalence=prevalence, confidence=confidence, **costs)
    else:
        new = source.unlabelled(unlabelled, columns)
        if new.spent:
            warn(f"{{unlabelled}} {unlabelled}: {new.spent}, so their scores are not those of new cases.")
        seen: dict[str, Any] = {"score_new": new.scores, "groups_new": new.groups, "point": new.point}
        point = source.dial.adapt(confidence=confidence, **costs, **seen)
        mixture = source.dial.fit_mixture(new.scores, new.point, new.groups)
        show(f"prevalence in {unlabelled}: {mixture.share}", mixture.blind)
    _keep(source, point)


def refer(
    run: str | None = None,
    /,
    *,
    npv: float,
    precision: float,
    prevalence: float,
    name: str,
    data: str | None = None,
    confidence: float = 0.95,
    columns: Columns,
    scores: ScoresOptions,
) -> None:
    """Choose two thresholds, between which a person decides.

    Cases below both are cleared, with a certified NPV; cases above both are acted on, with a certified precision. The
    thresholds leave as few cases as possible between them.

    Parameters
    ----------
    npv
        The least NPV (negative predictive value) of the cases that are cleared.
    precision
        The least precision of the cases that are acted on.
    """
    from lossdial.cli.dials import open_dial

    source = open_dial(run, data, columns, scores)
    point = source.dial.refer(npv=npv, precision=precision, prevalence=prevalence, confidence=confidence, name=name)
    _keep(source, point)


def cap_alerts(
    run: str | None = None,
    /,
    *,
    per_day: float,
    volume: list[float],
    unlabelled: str | None = None,
    data: str | None = None,
    name: str = "budget",
    confidence: float | None = None,
    columns: Columns,
    scores: ScoresOptions,
) -> None:
    """Choose the threshold that keeps to so many alerts a day.

    With --unlabelled the cap is certified on cases as they come. Otherwise λ and threshold of the highest recall under
    the cap are chosen on labelled data.

    Parameters
    ----------
    per_day
        The most alerts a day, on average.
    volume
        How many cases come a day. Where that varies, how many came on each of some days: --volume 912,1104,870,…
    confidence
        The cap holds on new data with this probability. With --unlabelled 0.95 by default; on labelled data the cap is
        not certified without it.
    """
    from lossdial.cli.dials import ModelDial, open_dial
    from lossdial.dial.certificates.alerts import alert_rate_of, spell_daily
    from lossdial.dial.certificates.evidence import require_fresh

    days: Any = volume[0] if len(volume) == 1 else volume
    rate = alert_rate_of(None, per_day, days)
    source = open_dial(run, data, _labelled(columns, data, unlabelled), scores)
    if unlabelled is None:
        bounds = {"alert_rate": rate}
        point = source.dial.tune(maximize="recall", subject_to=bounds, confidence=confidence, name=name)
        _keep(source, point, note=f"{spell_daily(rate, days)}.")
        return
    if not isinstance(source, ModelDial):
        raise InputError("unlabelled", "goes with RUN; with {scores} the cap is certified on all its rows")
    new = source.unlabelled(unlabelled, columns)
    require_fresh(new.spent)
    point = source.dial.cap_alerts(
        new.scores,
        per_day=per_day,
        volume=days,
        confidence=0.95 if confidence is None else confidence,
        groups_new=new.groups,
        point=new.point,
        name=name,
    )
    _keep(source, point)


def sample_size(
    run: str | None = None,
    /,
    *,
    recall: float,
    confidence: float = 0.95,
    prevalence: float | None = None,
    data: str | None = None,
    columns: Columns,
    scores: ScoresOptions,
) -> None:
    """Say how many positives it takes to certify a recall.

    It also says what the labelled data at hand can certify, and which precision to expect. Nothing is chosen or kept.

    Parameters
    ----------
    recall
        The floor on recall that is to be certified.
    prevalence
        The share of positives at which to state the precision. By default that of the data.
    """
    from lossdial.cli.dials import open_dial

    source = open_dial(run, data, columns, scores, keeps=False)
    show(str(source.dial.sample_size(recall, confidence, prevalence)))


def _keep(source: ModelDial | ScoresDial, point: OperatingPoint, note: str = "", started: float | None = None) -> None:
    """Keep a point, and show it."""
    from lossdial.cli.points import point_sheet

    sheet = point_sheet(point)  # computes the figures, which are part of the time
    kept = source.keep(point)
    seconds = "" if started is None else f"tuned in {1000 * (time.perf_counter() - started):.0f} ms; "
    show(sheet, *([note] if note else []), f"{seconds}{kept}")


def _labelled(columns: Columns, data: str | None, unlabelled: str | None) -> Columns:
    """The columns of --data: without it --group and --path-column are columns of --unlabelled."""
    return columns if data is not None or unlabelled is None else replace(columns, group=None, path_column=None)
