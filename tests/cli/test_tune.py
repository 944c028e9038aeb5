"""Choosing an operating point: tune, adapt, refer, cap-alerts; and sample-size."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lossdial import Bundle, LCTClassifier
from lossdial.cli import main
from tests.cli.conftest import INPUTS, make_table, with_columns

FLOOR = ["--maximize", "precision", "--subject-to", "recall=0.85"]
REFERRAL = ["--npv", "0.97", "--precision", "0.5", "--prevalence", "0.1", "--name", "triage"]


def test_tune_keeps_a_named_point_and_predict_uses_it(own: Path, tables: Path, tmp_path: Path, output) -> None:
    tune = ["tune", own, "--data", tables / "val.csv"]
    assert "tuned in" in output(*tune, "--maximize", "f1")
    floor = ["--maximize", "precision", "--subject-to", "recall=0.95", "--name", "screening"]
    assert "maximise precision subject to recall >= 0.95" in output(*tune, *floor)
    points = Bundle.load(own).points
    assert set(points) == {"default", "screening"}
    assert points["screening"].metrics["recall"].value >= 0.95
    flagged = {}
    for point in points:
        out = tmp_path / f"{point}.csv"
        output("predict", own, "--data", tables / "new.parquet", "--out", out, "--point", point)
        scored = pd.read_csv(out)
        assert list(scored.columns) == ["id", *INPUTS, "probability", "prediction"]
        flagged[point] = set(scored.index[scored.prediction == "failing"])
    assert len(flagged["screening"]) > len(flagged["default"])


def test_the_rows_that_tune_are_told(own: Path, tables: Path, output, capsys) -> None:
    evidence = Bundle.load(own).evidence
    counts = f"{evidence.y.sum()} positives, {(1 - evidence.y).sum()} negatives"
    assert counts in output("tune", own, "--minimize", "brier")  # those held out
    assert main(["tune", str(own), "--data", str(tables / "train.csv"), "--maximize", "f1"]) == 0
    note = " ".join(capsys.readouterr().err.split())
    assert re.search(r"about 9\d\d of these 1,200 samples \((79|80|81)%\) were trained on", note)


def test_the_certificate_is_printed_wherever_the_point_is(own: Path, tables: Path, output) -> None:
    tune = ["tune", own, "--data", tables / "val.csv", *FLOOR]
    text = output(*tune, "--confidence", "0.95", "--name", "screening")
    point = Bundle.load(own).points["screening"]
    assert str(point.certificate) in text
    listed = output("points", own, "--prevalence", "0.01", "--cost-fn", "20", "--cost-fp", "1")
    assert str(point.certificate) in listed
    assert str(point.at(0.01, 20, 1)) in listed
    assert "not certified: nothing holds for sure" in listed  # of the default point
    jointly = output(*tune, "--confidence", "0.95", "--jointly", "5", "--name", "one of five")
    assert "5 such hold jointly at 95 %" in jointly
    assert "recall in north >= 0.85" in output(*tune, "--by", "site", "--name", "each", "--confidence", "0.9")
    text = output(*tune, "--name", "hopeful")
    assert re.search(r"how sure: recall >= 0.85 holds on new data with probability 0\.\d\d at most", text)
    assert "(`lossdial tune --confidence 0.95` makes sure)" in text


def test_adapt_needs_no_data_and_moves_probabilities(own: Path, tables: Path, tmp_path: Path, output) -> None:
    means = []
    for name, prevalence in (("clinic", "0.002"), ("hospital", "0.4")):
        terms = ["--prevalence", prevalence, "--cost-fn", "500", "--cost-fp", "1", "--name", name]
        assert f"at prevalence {prevalence}" in output("adapt", own, *terms)
        words = ["--data", tables / "new.parquet", "--out", tmp_path / "scored.csv", "--point", name]
        output("predict", own, *words)
        means.append(pd.read_csv(tmp_path / "scored.csv").probability.mean())
    assert means[0] < 0.02 < means[1]
    bundle = Bundle.load(own)
    assert bundle.points["clinic"].prevalence == 0.002
    assert bundle.envelope is not None


def test_adapt_estimates_the_prevalence_or_declines(own: Path, tables: Path, tmp_path: Path, output, refusal) -> None:
    text = output("adapt", own, "--unlabelled", tables / "new.parquet", "--cost-fn", "10")
    assert "prevalence in" in text
    assert Bundle.load(own).points["default"].prevalence == pytest.approx(0.12, abs=0.06)
    adapt = ["adapt", own, "--data", tables / "val.csv", "--cost-fn", "10", "--name", "there"]
    declined = refusal(*adapt, "--unlabelled", tables / "scanner.csv")
    assert "Something other than the prevalence changed" in declined.line
    assert "there" not in Bundle.load(own).points
    text = output(*adapt, "--unlabelled", tables / "cases.csv")
    assert "It cannot see positives that now score like negatives" in text
    assert "not certified" in text
    here = ["adapt", own, "--cost-fn", "10", "--name", "here", "--unlabelled"]
    estimate = output(*here, tables / "cases.csv").split("prevalence in ")[1].split(": ")[1].split()[0]
    copies = pd.read_csv(tables / "cases.csv")
    copies = copies.loc[copies.index.repeat(8)].assign(patient=np.arange(8000) // 8)
    copies.to_csv(tmp_path / "copies.csv", index=False)
    text = output(*here, tmp_path / "copies.csv", "--group", "patient")
    assert f": {estimate} [" in text
    output(*adapt, "--prevalence", "0.05", "--confidence", "0.9")
    certificate = Bundle.load(own).points["there"].certificate
    assert certificate.confidence == 0.9


def test_a_referral_is_the_same_through_every_face(own: Path, tables: Path, tmp_path: Path, output) -> None:
    assert "refer" in output("refer", own, "--data", tables / "val.csv", *REFERRAL)
    out = tmp_path / "out.csv"
    text = output("predict", own, "--data", tables / "cases.csv", "--out", out, "--point", "triage")
    scored, new = pd.read_csv(out), pd.read_csv(tables / "cases.csv")
    assert f"{(scored.prediction == 'refer').sum()} to refer to a person" in text
    loaded = LCTClassifier.load(own)
    assert (loaded.predict(new[INPUTS], point="triage") == scored.prediction).all()
    probability = loaded.predict_proba(new[INPUTS], point="triage")[:, list(loaded.classes_).index("failing")]
    np.testing.assert_allclose(probability, scored.probability, rtol=1e-12)
    frame = pd.read_csv(tables / "val.csv")
    dial = loaded.dial(frame[INPUTS], frame.state)
    point = dial.refer(npv=0.97, precision=0.5, prevalence=0.1, name="triage")
    assert point.to_json() == Bundle.load(own).points["triage"].to_json()
    assert "clear" in output("points", own)
    output("points", own, "--delete", "triage")
    assert "triage" not in Bundle.load(own).points


def test_budgets_on_labelled_and_unlabelled_cases(own: Path, tables: Path, output, refusal, capsys) -> None:
    budget = ["--per-day", "30", "--volume", "300", "--confidence", "0.9"]
    text = output("cap-alerts", own, "--data", tables / "val.csv", *budget, "--name", "labelled")
    assert "at 300 cases a day 30 alerts on average at most, and at most 39 on 95 % of days" in text
    text = output("cap-alerts", own, "--unlabelled", tables / "cases.csv", *budget, "--name", "free")
    assert "on 1000 unlabelled cases" in text
    points = Bundle.load(own).points
    rates = [points[name].certificate.bound("alert_rate") for name in ("labelled", "free")]
    assert rates == [0.1, 0.1]
    flagged = LCTClassifier.load(own).predict(pd.read_csv(tables / "test.csv")[INPUTS], point="free") == "failing"
    assert flagged.mean() < 0.115

    days = ["--per-day", "30", "--volume", ",".join(map(str, range(200, 400, 5))), "--confidence", "0.9"]
    cases = ["--unlabelled", tables / "cases.csv", "--group", "patient"]
    text = output("cap-alerts", own, *cases, *days, "--name", "patients")
    assert "At 297.5 cases a day on the mean of 40 days 30 alerts on average at most" in text
    assert 99 < Bundle.load(own).points["patients"].certificate.n_unlabelled < 250  # one row of a patient
    trained = refusal("cap-alerts", own, "--unlabelled", tables / "train.csv", *budget, "--name", "trained")
    assert re.search(r"these rows cannot certify: about [\d,]+ of these 1,200 samples .* were trained on", trained.line)
    assert "trained" not in Bundle.load(own).points
    main(["adapt", str(own), "--unlabelled", str(tables / "train.csv"), "--name", "trained"])  # it may decline
    assert "so their scores are not those of new cases" in " ".join(capsys.readouterr().err.split())


def test_sample_size_chooses_and_keeps_nothing(own: Path, tables: Path, output) -> None:
    before = (own / "bundle.json").read_bytes()
    text = output("sample-size", own, "--data", tables / "val.csv", "--recall", "0.95")
    n = int((pd.read_csv(tables / "val.csv")["state"] == "failing").sum())
    assert f"you have {n} certifying positives; recall >= 0.95" in text  # the samples held out in training choose λ
    assert "takes 59 certifying positives with no miss." in text
    assert (own / "bundle.json").read_bytes() == before


def test_samples_that_cannot_answer(own: Path, tmp_path: Path, refusal) -> None:
    frame = with_columns(make_table(400, 8), 8)
    files = {
        "healthy": frame[frame.state == "healthy"],
        "parts": frame.assign(site=np.where(frame.state == "failing", "north", frame.site)),
        "empty": frame[INPUTS].head(0),
    }
    for name, table in files.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    tune = ["tune", own, "--data"]
    assert "no positives" in refusal(*tune, tmp_path / "healthy.csv", "--maximize", "f1").line
    floor = ["--maximize", "precision", "--subject-to", "recall=0.5", "--confidence", "0.9", "--by", "site"]
    assert "'south'" in refusal(*tune, tmp_path / "parts.csv", *floor).line
    assert "has no rows" in refusal("adapt", own, "--unlabelled", tmp_path / "empty.csv", "--name", "x").line
