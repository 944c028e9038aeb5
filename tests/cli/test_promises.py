"""Certificates, bands, budgets, watches and the page for those who decide, on the command line."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lossdial import Bundle, LCTClassifier
from lossdial.cli import main
from lossdial.dial import Dial, Monitor, margin_of_probability
from lossdial.dial.uncertainty.intervals import rounded

FLOOR = ["--maximize", "precision", "--subject-to", "recall=0.85"]
BAND = ["--refer", "npv=0.97,precision=0.5", "--prevalence", "0.1", "--name", "triage"]
INPUTS = ["heat", "wear", "kind"]


def more(n: int, seed: int, moved: float = 0.0) -> pd.DataFrame:
    """Rows as those of the trained run, with a site and an amount."""
    rng = np.random.default_rng(seed)
    failing = rng.random(n) < 0.12
    return pd.DataFrame(
        {
            "heat": rng.normal(size=n) + 2.0 * failing + moved,
            "wear": rng.normal(size=n) + 1.0 * failing,
            "kind": rng.choice(["low", "medium", "high"], size=n),
            "state": np.where(failing, "failing", "healthy"),
            "site": rng.choice(["north", "south"], n),
            "patient": rng.integers(0, n // 4, n),
            "amount": rng.lognormal(3, 1, n).round(2),
        }
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    for name, frame in {
        "val": more(2000, 1),
        "test": more(2000, 2),
        "new": more(1000, 7).drop(columns="state"),
        "scanner": more(1000, 4, 1.0).drop(columns="state"),
        "week": more(300, 5),
        "bad": more(2000, 6, -2.5),
    }.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
    return folder


@pytest.fixture
def own(run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run, tmp_path / "own"))


def err(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().err.split())


def test_the_certificate_is_printed_wherever_the_point_is(own: Path, files: Path, capsys) -> None:
    tune = ["tune", str(own), "--data", str(files / "val.csv"), *FLOOR]
    assert main([*tune, "--confidence", "0.95", "--name", "screening"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    point = Bundle.load(own).points["screening"]
    assert str(point.certificate) in told
    assert main(["points", str(own), "--prevalence", "0.01", "--cost-fn", "20", "--cost-fp", "1"]) == 0
    listed = " ".join(capsys.readouterr().out.split())
    assert str(point.certificate) in listed
    assert str(point.at(0.01, 20, 1)) in listed
    assert "not certified: nothing holds for sure" in listed  # of the default point
    assert main([*tune, "--confidence", "0.95", "--jointly", "5", "--name", "one of five"]) == 0
    assert "5 such hold jointly at 95 %" in " ".join(capsys.readouterr().out.split())
    assert main([*tune, "--jointly", "5", "--name", "hopeful"]) == 2
    assert "--jointly needs --confidence beside it" in err(capsys)
    assert main([*tune, "--name", "hopeful"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert re.search(r"how sure: recall >= 0.85 holds on new data with probability 0\.\d\d at most", told)
    assert "(--confidence=0.95 makes sure)" in told


def test_a_band_is_the_same_through_every_face(own: Path, files: Path, tmp_path: Path, capsys) -> None:
    assert main(["tune", str(own), "--data", str(files / "val.csv"), *BAND]) == 0
    assert "refer" in capsys.readouterr().out
    out = tmp_path / "out.csv"
    assert main(["predict", str(own), "--data", str(files / "new.csv"), "--out", str(out), "--point", "triage"]) == 0
    scored, frame = pd.read_csv(out), pd.read_csv(files / "val.csv")
    counts = scored.prediction.value_counts()
    assert f"{counts['refer']} to refer to a person" in capsys.readouterr().out
    loaded = LCTClassifier.load(own)
    new = pd.read_csv(files / "new.csv")
    assert (loaded.predict(new[INPUTS], point="triage") == scored.prediction).all()
    probability = loaded.predict_proba(new[INPUTS], point="triage")[:, list(loaded.classes_).index("failing")]
    np.testing.assert_allclose(probability, scored.probability, rtol=1e-12)
    again = loaded.dial(frame[INPUTS], frame.state).refer(npv=0.97, precision=0.5, prevalence=0.1, name="triage")
    assert again.to_json() == Bundle.load(own).points["triage"].to_json()

    assert main(["points", str(own)]) == 0
    assert "npv >= 0.97" in capsys.readouterr().out
    assert main(["monitor", str(own), "--point", "triage"]) == 2
    assert "no bound on recall or fpr" in err(capsys)
    assert main(["points", str(own), "--delete", "triage"]) == 0
    assert "triage" not in Bundle.load(own).points


def test_budgets_on_labelled_and_unlabelled_cases(own: Path, files: Path, tables: Path, capsys) -> None:
    budget = ["--alerts-per-day", "30", "--volume", "300", "--confidence", "0.9"]
    assert main(["tune", str(own), "--data", str(files / "val.csv"), *budget, "--name", "labelled"]) == 0
    told = "at 300 cases a day 30 alerts on average at most, and at most 39 on 95 % of days with as many cases."
    assert told in capsys.readouterr().out
    assert main(["tune", str(own), "--unlabelled", str(files / "new.csv"), *budget, "--name", "free"]) == 0
    assert "on 1000 unlabelled cases" in " ".join(capsys.readouterr().out.split())
    points = Bundle.load(own).points
    assert points["labelled"].certificate.bound("alert_rate") == points["free"].certificate.bound("alert_rate") == 0.1
    days = ["--alerts-per-day", "30", "--volume", ",".join(map(str, range(200, 400, 5))), "--confidence", "0.9"]
    new = ["--unlabelled", str(files / "new.csv"), "--group-new", "patient"]
    assert main(["tune", str(own), *new, *days, "--name", "patients"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "At 297.5 cases a day on the mean of 40 days 30 alerts on average at most" in told
    assert 99 < Bundle.load(own).points["patients"].certificate.n_unlabelled < 250  # one row of a patient
    labelled = ["--data", str(files / "val.csv"), "--group", "patient"]
    assert main(["tune", str(own), *labelled, *budget, "--name", "none"]) == 2
    assert "give the cases as --unlabelled with --group-new" in err(capsys)
    train = str(tables / "train.csv")
    assert main(["tune", str(own), "--unlabelled", train, *budget, "--name", "trained"]) == 2
    assert re.search(r"these rows cannot certify: about [\d,]+ of these 1,200 samples .* were trained on", err(capsys))
    assert "trained" not in Bundle.load(own).points
    main(["adapt", str(own), "--unlabelled", train, "--name", "trained"])  # declines or not, it tells
    assert "were trained on, so their scores are not those of new cases" in err(capsys)
    frame = pd.read_csv(files / "test.csv")
    flagged = LCTClassifier.load(own).predict(frame[INPUTS], point="free") == "failing"
    assert flagged.mean() < 0.115


def test_adapting_declines_where_no_share_explains_the_scores(own: Path, files: Path, capsys) -> None:
    adapt = ["adapt", str(own), "--data", str(files / "val.csv"), "--cost-fn", "10", "--name", "there"]
    assert main([*adapt, "--unlabelled", str(files / "scanner.csv")]) == 2
    assert "Something other than the prevalence changed" in err(capsys)
    assert "there" not in Bundle.load(own).points
    assert main([*adapt, "--unlabelled", str(files / "new.csv")]) == 0
    told = capsys.readouterr().out
    assert "It cannot see positives that now score like negatives" in told
    assert "not certified" in told
    alone = float(told.split("prevalence in ")[1].split(": ")[1].split()[0])
    copies = pd.read_csv(files / "new.csv")
    copies = copies.loc[copies.index.repeat(8)].assign(patient=np.arange(8000) // 8)
    copies.to_csv(files / "copies.csv", index=False)
    assert main([*adapt, "--unlabelled", str(files / "copies.csv"), "--group-new", "patient"]) == 0
    assert f": {alone:.3f} [" in capsys.readouterr().out
    assert main([*adapt, "--prevalence", "0.05", "--group-new", "patient"]) == 2
    assert "--group-new names a column of --unlabelled" in err(capsys)
    assert main([*adapt, "--prevalence", "0.05", "--confidence", "0.9"]) == 0
    assert Bundle.load(own).points["there"].certificate.confidence == 0.9


def test_certify_on_fresh_data_and_not_on_data_that_chose(own: Path, files: Path, tmp_path: Path, capsys) -> None:
    assert main(["tune", str(own), "--data", str(files / "val.csv"), "--maximize", "f1"]) == 0
    certify = ["evaluate", str(own), "--certify", "default", "--out", str(tmp_path / "e")]
    assert main([*certify, "--data", str(files / "val.csv")]) == 2
    assert "they cannot certify it" in err(capsys)
    assert main([*certify, "--data", str(files / "test.csv"), "--confidence", "0.9"]) == 0
    certificate = Bundle.load(own).points["default"].certificate
    assert certificate.n_positive == (pd.read_csv(files / "test.csv").state == "failing").sum()
    assert certificate.confidence == 0.9
    assert f"default: {certificate}" in capsys.readouterr().out
    assert main(["tune", str(own), "--data", str(files / "val.csv"), *FLOOR, "--confidence", "0.95"]) == 0
    before = Bundle.load(own).points["default"].certificate
    pd.read_csv(files / "test.csv").head(400).to_csv(tmp_path / "few.csv", index=False)
    capsys.readouterr()
    assert main([*certify, "--data", str(tmp_path / "few.csv")]) == 0
    told, certificate = capsys.readouterr().out, Bundle.load(own).points["default"].certificate
    assert f"default: {certificate} In place of: {before}" in told
    assert certificate.recall < 0.85  # so few promise less
    short = f"only recall >= {certificate.recall:.4g} is."
    assert f"default: its aim, recall >= 0.85, is NOT certified here: {short}" in told
    assert main(certify) == 2
    assert "--certify needs --data" in err(capsys)


def test_the_page_for_those_who_decide(own: Path, run: Path, files: Path, tmp_path: Path, capsys) -> None:
    val, test = str(files / "val.csv"), str(files / "test.csv")
    assert main(["tune", str(own), "--data", val, *FLOOR, "--confidence", "0.95", "--name", "screening"]) == 0
    assert main(["tune", str(own), "--data", val, *BAND]) == 0
    card = tmp_path / "card.html"
    words = ["--report", str(card), "--purpose", "Warns of <failing> machines.", "--by", "site"]
    words += ["--against", str(run), "--cost-fn", "amount", "--cost-fp", "5", "--out", str(tmp_path / "e")]
    capsys.readouterr()
    assert main(["evaluate", str(own), "--data", test, *words]) == 0
    told, page = capsys.readouterr().out, card.read_text()
    assert "Warns of &lt;failing&gt; machines." in page
    assert not re.search(r"(?:src|href)=[\"'](?!data:)|url\(|https?:", page)  # nothing from elsewhere
    assert page.count("data:image/png;base64,") == 4
    point = Bundle.load(own).points["screening"]
    assert f"data <code>{point.certificate.data[:16]}</code>" in page
    assert 'recall is at least</td><td class="n">0.85' in page
    assert f"at least {rounded(point.at(0.01).precision)}" in page
    assert "Not certified." in page  # the default point
    found = json.loads((tmp_path / "e" / "evaluation.json").read_text())
    figures = found["points"]["triage"]["figures"]
    assert "{} [{}, {}]".format(*(rounded(1000 * share, 1, 1000) for share in figures["referred"])) in page
    assert sum(figures[name][0] for name in ("cleared", "referred", "acted")) == pytest.approx(1)
    assert "screening by site" in told
    assert "a threshold per case costs" in told
    assert "over run;" in told  # no gain over the same network


def test_one_price_for_all_cases_is_one_line(own: Path, files: Path, tmp_path: Path, capsys) -> None:
    assert main(["tune", str(own), "--data", str(files / "val.csv"), *FLOOR, "--name", "screening"]) == 0
    capsys.readouterr()
    out = tmp_path / "e"
    words = ["evaluate", str(own), "--data", str(files / "test.csv"), "--out", str(out)]
    assert main([*words, "--cost-fn", "500", "--cost-fp", "2"]) == 0
    told = capsys.readouterr().out
    assert "a threshold per case" not in told
    line = next(line for line in told.splitlines() if line.startswith("money"))
    assert line.startswith("money a case, at 500 for a missed positive and 2 for a false alarm: default ")
    counts = json.loads((out / "evaluation.json").read_text())["points"]["screening"]["counts"]
    cost = (500 * counts["fn"] + 2 * counts["fp"]) / sum(counts.values())
    assert f"screening {cost:.4g}" in line


def test_the_parts_count_groups(own: Path, files: Path, tmp_path: Path, capsys) -> None:
    words = ["evaluate", str(own), "--data", str(files / "test.csv"), "--by", "site", "--out", str(tmp_path / "e")]
    assert main(words) == 0
    assert "Exact 95 % intervals" in " ".join(capsys.readouterr().out.split())
    assert main([*words, "--group", "patient"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "Shares are over rows; their 95 % intervals count groups" in told
    assert "positives in" in told


def test_watch_keeps_its_state_and_speaks(own: Path, files: Path, tmp_path: Path, capsys) -> None:
    monitor = ["monitor", str(own), "--point", "screening"]
    tune = ["tune", str(own), "--data", str(files / "val.csv"), "--name", "screening", "--confidence", "0.95"]
    assert main([*tune, *FLOOR]) == 0
    assert main([*monitor, "--data", str(files / "val.csv")]) == 2
    assert "these 2000 rows chose this point or made its certificate" in err(capsys)
    assert main([*monitor, "--data", str(files / "week.csv")]) == 0
    assert "not refuted" in capsys.readouterr().out
    state = Monitor.load(own / "watch" / "screening.json")
    assert sum(test.n for test in state.tests.values()) == 300
    assert main([*monitor, "--data", str(files / "week.csv")]) == 2
    assert "these very 300 outcomes have been seen already" in err(capsys)
    assert main([*monitor, "--data", str(files / "bad.csv")]) == 0
    assert "NO LONGER HOLDS" in capsys.readouterr().out
    frame = pd.read_csv(files / "week.csv")
    loaded = LCTClassifier.load(own)
    margin, y = loaded.margin(frame[INPUTS], "screening"), (frame.state == "failing").astype(int)
    assert loaded.monitor("screening").see(margin, y).tests == state.tests  # the same answer in Python
    frame.iloc[np.argsort(margin)].to_csv(tmp_path / "sorted.csv", index=False)
    assert main([*monitor, "--data", str(tmp_path / "sorted.csv"), "--state", str(tmp_path / "s.json")]) == 0
    assert Monitor.load(tmp_path / "s.json").tests == state.tests  # a file sorted by score is no change
    assert "not refuted" in capsys.readouterr().out

    alerts = frame.copy()
    alerts.loc[loaded.predict(frame[INPUTS], point="screening") != "failing", "state"] = None
    alerts.to_csv(tmp_path / "alerts.csv", index=False)
    only = [*monitor, "--alerts-only", "--prevalence", "0.1", "--state", str(tmp_path / "w.json")]
    assert main([*only, "--data", str(tmp_path / "alerts.csv")]) == 0
    assert "recall cannot be watched" in capsys.readouterr().out
    alerts.assign(state=None).to_csv(tmp_path / "none.csv", index=False)
    assert main([*only, "--data", str(tmp_path / "none.csv")]) == 2
    assert "alerts: give those whose outcome is known" in err(capsys)
    assert main([*monitor, "--alerts-only"]) == 2
    assert "give --precision, the floor to watch, or --prevalence" in err(capsys)

    assert main([*tune, "--maximize", "precision", "--subject-to", "recall=0.8"]) == 0
    assert main(monitor) == 2
    assert "was tuned anew since" in err(capsys)
    assert main([*monitor, "--restart"]) == 0


def test_a_price_is_told_and_nothing_chosen(own: Path, files: Path, capsys) -> None:
    before = (own / "bundle.json").read_bytes()
    words = ["tune", str(own), "--data", str(files / "val.csv"), "--subject-to", "recall=0.95", "--price"]
    assert main(words) == 0
    n = int((pd.read_csv(files / "val.csv")["state"] == "failing").sum())
    told = capsys.readouterr().out
    assert f"you have {n} certifying positives; recall >= 0.95" in told  # the samples held out in training choose λ
    assert "takes 59 certifying positives with no miss." in told
    assert (own / "bundle.json").read_bytes() == before


def test_parts_and_costs_per_case(own: Path, files: Path, tmp_path: Path, capsys) -> None:
    words = ["tune", str(own), "--data", str(files / "val.csv"), *FLOOR, "--by", "site", "--name", "each"]
    assert main([*words, "--confidence", "0.9"]) == 0
    assert "recall in north >= 0.85" in " ".join(capsys.readouterr().out.split())
    assert main(words) == 2
    assert "--by asks for a certified floor in each part: give --confidence too" in err(capsys)
    out = tmp_path / "out.csv"
    costs = ["--cost-fn", "amount", "--cost-fp", "5"]
    assert main(["predict", str(own), "--data", str(files / "new.csv"), "--out", str(out), *costs]) == 0
    scored = pd.read_csv(out)
    worth = scored.probability * scored.amount > (1 - scored.probability) * 5
    assert ((scored.prediction == "failing") == worth).all()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*FLOOR, "--confidence", "1.5"], "--confidence must lie strictly between 0 and 1; got 1.5"),
        (["--maximize", "precision", "--subject-to", "recall=1", "--confidence", "0.95"], "strictly between 0 and 1"),
        (["--maximize", "precision", "--subject-to", "recall=0.9,recall=0.8"], "--subject-to names recall twice"),
        (
            ["--maximize", "precision", "--subject-to", "recall=0.999", "--confidence", "0.95"],
            "2995 certifying positives with no miss",
        ),
        (["--refer", "npv=0.9", "--prevalence", "0.1", "--name", "t"], "--refer takes what both ends promise"),
        (["--refer", "npv=0.9,precision=0.5", "--name", "t"], "--refer needs --prevalence"),
        (["--refer", "npv=0.9,precision=0.5", "--prevalence", "0.1"], "--refer needs --name"),
        (["--refer", "npv=1,precision=0.5", "--prevalence", "0.1", "--name", "t"], "npv must lie strictly between"),
        ([*BAND, "--maximize", "f1"], "--refer asks for a band, --maximize for a point"),
        (["--alerts-per-day", "5"], "--alerts-per-day and --volume go together"),
        (["--alerts-per-day", "50", "--volume", "20"], "--alerts-per-day must lie strictly between 0"),
        (["--maximize", "f1", "--price"], "--price needs the floor to be priced"),
        (["--maximize", "f1", "--unlabelled", "x.csv"], "--unlabelled goes with --alerts-per-day"),
        ([*FLOOR, "--confidence", "0.9", "--by", "sit"], "--by sit:"),
        (["--maximize", "f1", "--subject-to", "precision=0.5", "--confidence", "0.9"], "give --prevalence="),
    ],
)
def test_mistakes_are_one_line(own: Path, files: Path, capsys, words: list[str], message: str) -> None:
    assert main(["tune", str(own), "--data", str(files / "val.csv"), *words]) == 2
    captured = capsys.readouterr()
    lines = [line for line in captured.err.splitlines() if not line.startswith("note:")]
    assert len(lines) == 1
    assert message in lines[0]


def test_negative_amounts_equal_scores_and_empty_samples(own: Path, tmp_path: Path, capsys) -> None:
    frame = more(400, 8)
    frame.assign(amount=-frame.amount).to_csv(tmp_path / "negative.csv", index=False)
    costs = ["--cost-fn", "amount", "--cost-fp", "5"]
    for command in (["evaluate", str(own)], ["predict", str(own), "--out", str(tmp_path / "o.csv")]):
        assert main([*command, "--data", str(tmp_path / "negative.csv"), *costs]) == 2
        assert "--cost-fn amount must be finite and 0 or more" in err(capsys)
    (tmp_path / "empty.csv").write_text("heat,wear,kind\n")
    assert main(["adapt", str(own), "--unlabelled", str(tmp_path / "empty.csv"), "--name", "x"]) == 2
    assert "has no rows" in err(capsys)
    frame[frame.state == "healthy"].to_csv(tmp_path / "healthy.csv", index=False)
    assert main(["tune", str(own), "--data", str(tmp_path / "healthy.csv"), "--maximize", "f1"]) == 2
    assert "there are no positives among these" in err(capsys)
    parts = frame.assign(site=np.where(frame.state == "failing", "north", frame.site))
    parts.to_csv(tmp_path / "parts.csv", index=False)
    words = ["--maximize", "precision", "--subject-to", "recall=0.5", "--confidence", "0.9", "--by", "site"]
    assert main(["tune", str(own), "--data", str(tmp_path / "parts.csv"), *words]) == 2
    assert "part 'south' has no positives" in err(capsys)


def scores_file(folder: Path, decimal: str = ".", constant: bool = False) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    ill = rng.random(900) < 0.2
    p = 1 / (1 + np.exp(-(rng.normal(size=900) + 2.5 * ill - 1.5)))
    frame = pd.DataFrame({"p": 0.5 if constant else p.round(6), "state": np.where(ill, "ill", "well"), "w": ill + 1})
    frame.to_csv(folder / "scores.csv", index=False, decimal=decimal, sep=";")
    return frame


def test_somebody_else_s_scores_have_bands_prices_and_decimal_commas(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    frame = scores_file(tmp_path, ",")
    words = ["tune", "--scores", "scores.csv", "--target", "state", "--score", "p"]
    assert main([*words, *BAND, "--out", "band.json"]) == 0
    assert "refer between" in capsys.readouterr().out
    content = json.loads((tmp_path / "band.json").read_text())
    dial = Dial(frame.state == "ill", margin_of_probability(frame.p))
    band = dial.refer(npv=0.97, precision=0.5, prevalence=0.1, name="triage")
    assert (content["lower"], content["threshold"]) == (band.lower, band.threshold)
    cuts = content["score"]
    actions = np.where(frame.p > cuts["threshold"], "act", np.where(frame.p > cuts["lower"], "refer", "clear"))
    assert (actions == band.actions(margin_of_probability(frame.p))).all()
    assert main([*words, *FLOOR, "--price"]) == 0
    assert "certifying positives" in capsys.readouterr().out
    assert main([*words, *FLOOR, "--confidence", "0.9", "--weight", "w"]) == 2
    assert "--weight cannot be certified" in err(capsys)
    scores_file(tmp_path, constant=True)
    assert main([*words, *FLOOR, "--confidence", "0.9"]) == 2
    assert "all 900 scores equal 0" in err(capsys)
