"""Every mistake is told in one line: which argument, what came, what to do, in the words of the command."""

import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from lossdial import LCTClassifier
from lossdial.base.errors import InputError
from lossdial.cli.commands import commands
from tests.cli.conftest import INPUTS

FLOOR = "--maximize precision --subject-to recall=0.85"
REFERRAL = "--precision 0.5 --prevalence 0.1"


@pytest.mark.parametrize(
    ("line", "argument", "fragment"),
    [
        # choosing
        ("tune {run}", "maximize", "--maximize or --minimize must be given"),
        ("tune {run} --maximize f11", "maximize", "Did you mean 'f1'?"),
        ("tune {run} --maximize precision --subject-to recal=0.9", "subject_to", "Did you mean 'recall'?"),
        ("tune {run} --maximize precision --subject-to recall=1.5", "subject_to", "must lie in [0, 1]"),
        (f"tune {{run}} {FLOOR} --confidence 1.5", "confidence", "--confidence must lie strictly"),
        (f"tune {{run}} {FLOOR} --jointly 5", "jointly", "--confidence"),
        (f"tune {{run}} {FLOOR} --confidence 0.9 --by site", "by", "--data"),
        (f"tune {{run}} {{val}} {FLOOR} --by site", "by", "--confidence"),
        (f"tune {{run}} {{val}} {FLOOR} --confidence 0.9 --by sit", "by", "got 'sit'. Did you mean 'site'?"),
        ("tune {run} --maximize f1 --target state", "target", "--data, which is not given; got 'state'"),
        ("tune {run} --score p --maximize f1", "score", "--score goes with --scores; got 'p'"),
        ("tune {run} --scores s.csv --maximize f1", "", "give RUN, with --data or without, or --scores; not both"),
        ("tune --maximize f1", "", "RUN is needed, the folder that `lossdial train` wrote; or --scores"),
        ("adapt {run}", "", "give one of --prevalence and --unlabelled"),
        ("adapt {run} --prevalence 1.2", "prevalence", "must lie strictly between 0 and 1; got 1.2"),
        ("adapt {run} --prevalence 0.1 --cost-fn 0", "cost_fn", "--cost-fn must be"),
        ("adapt {run} --prevalence 0.1 --group a", "group", "--data, which is not given; got 'a'"),
        (f"refer {{run}} --npv 1 {REFERRAL} --name t", "npv", "must lie strictly between 0 and 1"),
        (f"refer {{run}} {{val}} --npv 0.97 {REFERRAL} --name default", "name", "default"),
        ("refer {run} --npv 0.97 --precision 0.5 --name t", "--prevalence", "is needed: the share of"),
        (f"refer {{run}} --npv 0.97 {REFERRAL}", "--name", "is needed: what to call the point"),
        ("cap-alerts {run} --per-day 5", "--volume", "is needed: how many cases come a day"),
        ("cap-alerts {run} --per-day 50 --volume 20", "per_day", "--per-day must lie strictly"),
        ("cap-alerts {run} --per-day 5 --volume 20 --group a", "group", "which is not given"),
        ("sample-size {run}", "--recall", "is needed: the floor on recall"),
        ("sample-size --scores s.csv --recall 0.9 --out x.json", "out", "--out is of no use"),
        # measuring
        ("certify {run}", "--data", "is needed"),
        ("certify {run} {val} --point defalt", "point", "got 'defalt'. Did you mean 'default'? There are 'default'."),
        ("certify {run} {val} --confidence 2", "confidence", "must lie strictly between 0 and 1"),
        ("explain {run}", "--data", "is needed"),
        ("explain {run} {val} --point x", "point", "There are 'default'."),
        (
            "explain {run} {val}",
            "",
            "the score of this model is no sum over columns and cannot be explained; that of the",
        ),
        ("explain {solved} {val} --row 0", "row", "val.csv, 1 to 2,000; got 0."),
        ("explain {solved} {val} --row 2001", "row", "val.csv, 1 to 2,000; got 2001."),
        ("explain {solved} {val} --row x", "--row", "--row must be a whole number"),
        ("explain {solved} --data {renamed}", "", "'heat'"),
        ("compare {run} {run}", "--data", "is needed"),
        ("evaluate {run} --by site", "by", "--by needs --data"),
        ("evaluate {run} {val} --cost-fn amount", "", "--cost-fn and --cost-fp go together"),
        ("evaluate {run} {negative} --cost-fn amount --cost-fp 5", "cost_fn", "--cost-fn amount must be finite"),
        ("monitor {run}", "", "no certificate"),
        ("points {run} --delete screning", "delete", "There are 'default'."),
        ("points {run} --delete default", "delete", "must not name default"),
        ("points {run} --delete a --import b", "", "give one of --delete and --import"),
        ("points {run} --cost-fn 5", "", "--cost-fn and --cost-fp go with --prevalence"),
        # scoring and taking elsewhere
        ("predict {run} {val} --out o.xls", "out", "must end in .csv or .parquet; got 'o.xls'"),
        ("predict {run} {val} --out {tables}/val.csv", "out", "must be another file than --data"),
        ("predict {run} {val} --out o.csv --point x", "point", "There are 'default'."),
        ("predict {run}x {val} --out o.csv", "", "does not exist"),
        ("predict {run} {negative} --out o.csv --cost-fn amount --cost-fp 5", "cost_fn", "0 or more"),
        ("predict {run} --data {renamed} --out o.csv", "", "'heat'"),
        ("explore {run} --out page.txt", "out", "--out must end in .html; got 'page.txt'"),
        ("explore {run} --thumbnails", "thumbnails", "--thumbnails needs --data"),
        ("explore {run} {val} --thumbnails", "thumbnails", "--thumbnails is for images"),
        ("explore {run} --data {tables}/new.parquet --target stat", "", "no column 'stat'"),
        ("export {run}", "", "give --onnx FILE for the model, --card FILE for its card, or both."),
        ("export {run} --card card.txt", "card", "--card must end in .md; got 'card.txt'"),
        ("export {run} --card c.md --point clinc", "point", "There are 'default'."),
        ("export {run} --onnx m.pb", "onnx", "--onnx must be a file that ends in .onnx; got 'm.pb'"),
        ("export {run} --onnx {tables}/val.csv/m.onnx", "", "nothing can be written there"),
        ("serve {run} --points {tables}/val.csv", "points", "val.csv holds none"),
        # training
        ("train {train} --target stat", "target", "did you mean 'state'?"),
        ("train {train} --target state --drop idd", "drop", "did you mean 'id'?"),
        ("train {train} --target state --positive broken", "positive", "'failing'"),
        ("train {train} --target kind", "target", "binary classification"),
        ("train {train} --target state --beta 0", "beta", "--beta must be greater than 0"),
        ("train {train} --target state --epochs 0", "epochs", "--epochs must be at least 1; got 0"),
        ("train {train} --target state --epochs 1 --learning-rate 0", "lr", "--learning-rate must be greater than 0"),
        ("train {train} --target state --image-size 32", "image_size", "is for images"),
        ("train {train} --target state --features f", "features", "--features is for images"),
        ("train {train} --target state --weights w", "weights", "--weights is for images"),
        ("train {train} --target state --space tau=0,3", "tau", "one number (a constant)"),
        ("train {train} --target state --space ridge=-5,0,0.2", "space", "--space gamma=0"),
        ("train {train} --target state --space phi=0", "space", "no hyperparameter 'phi'"),
        ("train {train} --target state --preset features --hidden 8", "hidden", "--preset features has none"),
        ("train {train} --target state --space tau=1,3,2,gamma=0", "", "h_b must lie"),
        (
            "train {train} --target state --preset features --space gamma=0,tau=0,ridge=0.001,1000,0.001",
            "",
            "log₁₀ C, so that 3",
        ),
        (
            "train {train} --target state --method focal+lct --preset features --space gamma=0,tau=0,ridge=-3,1,0.25",
            "",
            "FocalLoss",
        ),
        ("train {photos} --drop id", "drop", "--drop is for tables"),
        ("train {photos} --validation v.csv", "validation", "--validation is for tables"),
        ("train {photos} --hidden 8", "hidden", "--hidden is for tables"),
        ("train {photos} --image-size 0", "image_size", "--image-size must be at least 1"),
        ("train {photos} --preset features", "preset", "must be one of cpu, frozen, paper"),
        ("train {photos} --preset frozen --weights w.pt", "", "weights"),
        ("train --data cifar10-auto-trukc", "", "truck"),
        ("train --data {tables}/table.xlsx --target y", "", ".csv"),
    ],
)
def test_a_mistake_is_one_line_with_its_argument(line, argument, fragment, places, tmp_path, refusal):
    words = shlex.split(line.format(**places))
    if words[0] == "train":
        words += ["--out", str(tmp_path / "out")]
    refused = refusal(*words)
    assert refused.line.startswith(f"lossdial {words[0]}: ")
    assert fragment in refused.line
    assert argument in ("", refused.argument)
    assert not (tmp_path / "out" / "bundle.json").exists()


@pytest.fixture(scope="module")
def places(run: Path, tables: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What stands in the lines for folders, files, and for --data with one."""
    folder = tmp_path_factory.mktemp("mistakes")
    frame = pd.read_csv(tables / "val.csv").head(400)
    frame.assign(amount=-frame.amount).to_csv(folder / "negative.csv", index=False)
    frame.rename(columns={"heat": "Heat"}).to_csv(folder / "renamed.csv", index=False)
    (tables / "table.xlsx").write_bytes(b"PK")
    for i in range(12):
        (folder / "photos" / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (i, i, i)).save(folder / "photos" / "ab"[i % 2] / f"{i}.png")
    data = {"val": tables / "val.csv", "train": tables / "train.csv"}
    data |= {"photos": folder / "photos", "negative": folder / "negative.csv"}
    solved = LCTClassifier(network="features").fit(frame[INPUTS], frame["state"])
    solved.save(folder / "solved")
    named = {"solved": folder / "solved", "run": run, "tables": tables, "renamed": folder / "renamed.csv"}
    return {name: f"--data {path}" for name, path in data.items()} | {name: str(path) for name, path in named.items()}


@pytest.mark.parametrize(
    ("words", "argument", "fragment"),
    [
        ("--maximize f1", "score", "--score is needed with --scores: the column with the scores. There are p,"),
        ("--score q --maximize f1", "score", "--score names no column of scores.csv; got 'q'."),
        ("--score text --maximize f1", "score", "--score text must be finite numbers; row 1 has 'x'."),
        ("--score gap --maximize f1", "score", "--score gap is empty in 1 rows of scores.csv, first in"),
        ("--score p --positive sick --maximize f1", "pos_label", "--positive must be one of the labels; got 'sick'"),
        ("--score p --group patent --maximize f1", "group", "Did you mean 'patient'?"),
        ("--score p --target one --maximize f1", "", "two classes are needed"),
        ("--score p", "maximize", "--maximize or --minimize must be given"),
        (f"--score p {FLOOR} --confidence 0.9 --weight w", "sample_weight", "--weight cannot be"),
        (f"--score constant {FLOOR} --confidence 0.9", "", "all 900 scores equal 0"),
        ("--score p --maximize f1 --out scores.csv/x", "", "scores.csv"),
        ("--score p --maximize f1 --path-column x", "path_column", "goes with RUN"),
    ],
)
def test_mistakes_in_a_file_of_scores(words, argument, fragment, tmp_path, monkeypatch, refusal):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    ill = rng.random(900) < 0.2
    margin = rng.normal(size=900) + 2.5 * ill - 1.5
    frame = pd.DataFrame({"p": 1 / (1 + np.exp(-margin)), "state": np.where(ill, "ill", "well")})
    frame = frame.assign(text="x", one="ill", constant=0.5, w=ill + 1, patient=np.arange(900) // 2, gap=frame.p)
    frame.loc[3, "gap"] = np.nan
    frame.to_csv("scores.csv", index=False)
    refused = refusal("tune", "--scores", "scores.csv", "--target", "state", *words.split())
    assert fragment in refused.line
    assert argument in ("", refused.argument)
    assert [path.name for path in tmp_path.iterdir()] == ["scores.csv"]


@pytest.mark.parametrize(
    ("command", "error", "line"),
    [
        ("train", InputError("pos_label", "must be 0 or 1", got=3), "--positive must be 0 or 1; got 3."),
        ("tune", InputError("maximize", "is missing", remedy="Give {maximize=f1}."), "… missing. Give --maximize f1."),
        ("tune", InputError("", "give {cost_fn} and {cost_fp}"), "give --cost-fn and --cost-fp."),
        ("train", InputError("random_state", "must be 0 or more", got=-1), "--seed must be 0 or more; got -1."),
        ("train", InputError("space", "needs", remedy="Add {gamma=Constant(0)}."), "… needs. Add --space gamma=0."),
        ("train", InputError("", "use {alpha=Linear(0.1, 0.9, 1.25)}"), "use --space alpha=0.1,0.9,1.25."),
        ("train", InputError("recipe__batch_size", "differs"), "--batch-size differs."),
        ("points", InputError("point", "fails", remedy="See {certify}."), "point fails. See `lossdial certify`."),
        # words of prose, columns and paths are nobody's arguments, and an argument may be no option of a command
        ("tune", InputError("", "no column 'targt'; mean 'target'?"), "no column 'targt'; mean 'target'?"),
        ("train", InputError("", "the file cost_fn/x.csv is empty"), "the file cost_fn/x.csv is empty."),
        ("train", InputError("", "space=3 in row 2"), "space=3 in row 2."),
        ("train", InputError("", "other λ: Space(gamma=Constant(0.1))"), "other λ: Space(gamma=Constant(0.1))."),
        ("predict", InputError("sample_weight", "must be positive"), "sample_weight must be positive."),
    ],
)
def test_arguments_of_the_library_are_spelled_as_options(command: str, error: InputError, line: str) -> None:
    assert error.spelled(commands()[command].spell).endswith(line.removeprefix("… "))
