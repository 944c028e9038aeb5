"""Every mistake is told in one line: which argument, what came, what to do, in the words of the command."""

from pathlib import Path

import pytest

from lossdial.base.errors import InputError
from lossdial.cli.commands import commands

FLOOR = ["--maximize", "precision", "--subject-to", "recall=0.85"]
REFERRAL = ["--npv", "0.97", "--precision", "0.5", "--prevalence", "0.1", "--name", "triage"]
RIDGE = ["--space", "gamma=0", "--space", "tau=0,3,0.33", "--space", "ridge=-3,0,0.333"]
SOLVED = ["--preset", "features", "--space", "gamma=0", "--space", "tau=0", "--space"]
COSTS = ["--cost-fn", "amount"]


@pytest.mark.parametrize(
    ("words", "argument", "got", "fragment"),
    [
        # choosing
        (["tune", "{run}"], "maximize", "", "--maximize or --minimize must be given"),
        (["tune", "{run}", "--maximize", "f11"], "maximize", "", "Did you mean 'f1'?"),
        (
            ["tune", "{run}", "--maximize", "precision", "--subject-to", "recal=0.9"],
            "subject_to",
            "",
            "Did you mean 'recall'?",
        ),
        (
            ["tune", "{run}", "--maximize", "precision", "--subject-to", "recall=1.5"],
            "subject_to",
            "",
            "must lie in [0, 1]",
        ),
        (["tune", "{run}", *FLOOR, "--confidence", "1.5"], "confidence", "1.5", "strictly between 0 and 1"),
        (["tune", "{run}", *FLOOR, "--jointly", "5"], "jointly", "", "--confidence"),
        (["tune", "{run}", *FLOOR, "--confidence", "0.9", "--by", "site"], "by", "'site'", "--data"),
        (["tune", "{run}", "{val}", *FLOOR, "--by", "site"], "by", "", "--confidence"),
        (
            ["tune", "{run}", "{val}", *FLOOR, "--confidence", "0.9", "--by", "sit"],
            "by",
            "'sit'",
            "Did you mean 'site'?",
        ),
        (["tune", "{run}", "--maximize", "f1", "--target", "state"], "target", "'state'", "--data, which is not given"),
        (["tune", "{run}", "--score", "p", "--maximize", "f1"], "score", "'p'", "--score goes with --scores"),
        (["tune", "{run}", "--scores", "s.csv", "--maximize", "f1"], "", "", "give RUN, with --data or without, or"),
        (["tune", "--maximize", "f1"], "", "", "RUN is needed, the folder that `lossdial train` wrote; or --scores"),
        (["adapt", "{run}"], "", "", "give one of --prevalence and --unlabelled"),
        (["adapt", "{run}", "--prevalence", "1.2"], "prevalence", "1.2", "must lie strictly between 0 and 1"),
        (["adapt", "{run}", "--prevalence", "0.1", "--cost-fn", "0"], "cost_fn", "0.0", "--cost-fn must be"),
        (["adapt", "{run}", "--prevalence", "0.1", "--group-new", "a"], "group_new", "'a'", "a column of --unlabelled"),
        (["refer", "{run}", "--npv", "1", *REFERRAL[2:]], "npv", "1.0", "must lie strictly between 0 and 1"),
        (["refer", "{run}", "{val}", *REFERRAL[:-2], "--name", "default"], "name", "", "default"),
        (["refer", "{run}", *REFERRAL[:-4], "--name", "t"], "--prevalence", "", "--prevalence is needed: the share of"),
        (["refer", "{run}", *REFERRAL[:-2]], "--name", "", "--name is needed: what to call the point"),
        (["cap-alerts", "{run}", "--per-day", "5"], "--volume", "", "--volume is needed: how many cases come a day"),
        (["cap-alerts", "{run}", "--per-day", "50", "--volume", "20"], "per_day", "", "--per-day must lie strictly"),
        (
            ["cap-alerts", "{run}", "--per-day", "5", "--volume", "20", "--group-new", "a"],
            "group_new",
            "'a'",
            "which is",
        ),
        (["sample-size", "{run}"], "--recall", "", "--recall is needed: the floor on recall"),
        # measuring
        (["certify", "{run}"], "--data", "", "--data is needed"),
        (["certify", "{run}", "{val}", "--point", "defalt"], "point", "'defalt'", "There are 'default'."),
        (["certify", "{run}", "{val}", "--confidence", "2"], "confidence", "", "must lie strictly between 0 and 1"),
        (["compare", "{run}", "{run}"], "--data", "", "--data is needed"),
        (["evaluate", "{run}", "--report", "card.txt"], "report", "'card.txt'", "--report must end in .html"),
        (["evaluate", "{run}", "--purpose", "x"], "purpose", "", "--purpose goes with --report"),
        (["evaluate", "{run}", "--by", "site"], "by", "", "--by needs --data"),
        (["evaluate", "{run}", "{val}", *COSTS], "", "", "--cost-fn and --cost-fp go together"),
        (
            ["evaluate", "{run}", "{negative}", *COSTS, "--cost-fp", "5"],
            "cost_fn",
            "",
            "--cost-fn amount must be finite",
        ),
        (["monitor", "{run}"], "", "", "no certificate"),
        (["points", "{run}", "--delete", "screning"], "delete", "'screning'", "There are 'default'."),
        (["points", "{run}", "--delete", "default"], "delete", "", "must not name default"),
        (["points", "{run}", "--delete", "a", "--import", "b"], "", "", "give one of --delete and --import"),
        (["points", "{run}", "--cost-fn", "5"], "", "", "--cost-fn and --cost-fp go with --prevalence"),
        # scoring and taking elsewhere
        (["predict", "{run}", "{val}", "--out", "o.xls"], "out", "'o.xls'", "must end in .csv or .parquet"),
        (
            ["predict", "{run}", "--data", "{tables}/val.csv", "--out", "{tables}/val.csv"],
            "out",
            "",
            "another file than",
        ),
        (["predict", "{run}", "{val}", "--out", "o.csv", "--point", "x"], "point", "'x'", "There are 'default'."),
        (["predict", "{run}x", "{val}", "--out", "o.csv"], "", "", "does not exist"),
        (["predict", "{run}", "{negative}", "--out", "o.csv", *COSTS, "--cost-fp", "5"], "cost_fn", "", "0 or more"),
        (["predict", "{run}", "--data", "{renamed}", "--out", "o.csv"], "", "", "'heat'"),
        (["explore", "{run}", "--out", "page.txt"], "out", "'page.txt'", "--out must end in .html"),
        (["explore", "{run}", "--thumbnails"], "thumbnails", "", "--thumbnails needs --data"),
        (["explore", "{run}", "{val}", "--thumbnails"], "thumbnails", "", "--thumbnails is for images"),
        (["explore", "{run}", "--data", "{tables}/new.parquet", "--target", "stat"], "", "", "no column 'stat'"),
        (["export", "{run}"], "", "", "give --onnx FILE for the model, --card FILE for its card, or both."),
        (["export", "{run}", "--card", "card.txt"], "card", "'card.txt'", "--card must end in .md"),
        (["export", "{run}", "--card", "c.md", "--point", "clinc"], "point", "'clinc'", "There are 'default'."),
        (["export", "{run}", "--onnx", "m.pb"], "onnx", "'m.pb'", "--onnx must be a file that ends in .onnx"),
        (["export", "{run}", "--onnx", "{tables}/val.csv/m.onnx"], "", "", "nothing can be written there"),
        (["serve", "{run}", "--points", "{tables}/val.csv"], "points", "", "val.csv holds none"),
        # training
        (["train", "{train}", "--target", "stat"], "target", "", "did you mean 'state'?"),
        (["train", "{train}", "--target", "state", "--drop", "idd"], "drop", "", "did you mean 'id'?"),
        (["train", "{train}", "--target", "state", "--positive", "broken"], "positive", "'broken'", "'failing'"),
        (["train", "{train}", "--target", "kind"], "target", "", "binary classification"),
        (["train", "{train}", "--target", "state", "--beta", "0"], "beta", "", "--beta must be greater than 0"),
        (["train", "{train}", "--target", "state", "--image-size", "32"], "image_size", "32", "is for images"),
        (["train", "{train}", "--target", "state", "--features", "f"], "features", "'f'", "--features is for images"),
        (["train", "{train}", "--target", "state", "--weights", "w"], "weights", "'w'", "--weights is for images"),
        (
            ["train", "{train}", "--target", "state", "--space", "tau=0,3"],
            "tau",
            "[0.0, 3.0]",
            "one number (a constant)",
        ),
        (["train", "{train}", "--target", "state", "--space", "ridge=-5,0,0.2"], "space", "", "--space gamma=0"),
        (["train", "{train}", "--target", "state", "--space", "phi=0"], "space", "", "no hyperparameter 'phi'"),
        (
            ["train", "{train}", "--target", "state", *RIDGE, "--head-widths", "8,4"],
            "head_widths",
            "'8,4'",
            "--head poly",
        ),
        (
            ["train", "{train}", "--target", "state", "--head", "plain", "--head-widths", "8"],
            "",
            "",
            "are of --head film",
        ),
        (["train", "{train}", "--target", "state", "--preset", "features", "--hidden", "8"], "hidden", "", "--preset"),
        (
            ["train", "{train}", "--target", "state", "--space", "tau=1,3,2", "--space", "gamma=0"],
            "",
            "",
            "h_b must lie",
        ),
        (["train", "{train}", "--target", "state", *SOLVED, "ridge=0.001,1000,0.001"], "", "", "log₁₀ C, so that 3"),
        (
            ["train", "{train}", "--target", "state", "--method", "focal+lct", *SOLVED, "ridge=-3,1,0.25"],
            "",
            "",
            "FocalLoss",
        ),
        (["train", "{photos}", "--drop", "id"], "drop", "['id']", "--drop is for tables"),
        (["train", "{photos}", "--validation", "v.csv"], "validation", "'v.csv'", "--validation is for tables"),
        (["train", "{photos}", "--hidden", "8"], "hidden", "[8]", "--hidden is for tables"),
        (["train", "{photos}", "--image-size", "0"], "image_size", "0", "--image-size must be at least 1"),
        (["train", "{photos}", "--preset", "features"], "preset", "'features'", "must be one of cpu, frozen, paper"),
        (["train", "{photos}", "--preset", "frozen", "--weights", "w.pt"], "", "", "weights"),
        (["train", "--data", "cifar10-auto-trukc"], "", "", "truck"),
        (["train", "--data", "{tables}/table.xlsx", "--target", "y"], "", "", ".csv"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_one_line_with_its_fields(
    words: list[str], argument: str, got: str, fragment: str, places: dict[str, str], tmp_path: Path, refusal
) -> None:
    filled = [part for word in words for part in (places.get(word) or word.format(**places)).split("\n")]
    if words[0] in ("train",):
        filled += ["--out", str(tmp_path / "out")]
    refused = refusal(*filled)
    assert refused.line.startswith(f"lossdial {words[0]}: ")
    assert fragment in refused.line
    assert argument in ("", refused.argument)
    assert got in ("", refused.got)
    assert not (tmp_path / "out" / "bundle.json").exists()


@pytest.fixture(scope="module")
def places(run: Path, tables: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What stands in the words for folders and files; those in braces alone are options with a value."""
    import pandas as pd
    from PIL import Image

    folder = tmp_path_factory.mktemp("mistakes")
    frame = pd.read_csv(tables / "val.csv").head(400)
    frame.assign(amount=-frame.amount).to_csv(folder / "negative.csv", index=False)
    frame.rename(columns={"heat": "Heat"}).to_csv(folder / "renamed.csv", index=False)
    (tables / "table.xlsx").write_bytes(b"PK")
    for i in range(12):
        (folder / "photos" / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (i, i, i)).save(folder / "photos" / "ab"[i % 2] / f"{i}.png")
    named = {"val": tables / "val.csv", "train": tables / "train.csv", "photos": folder / "photos"}
    named["negative"] = folder / "negative.csv"
    files = {f"{{{name}}}": f"--data\n{path}" for name, path in named.items()}
    return files | {"run": str(run), "tables": str(tables), "renamed": str(folder / "renamed.csv")}


SCORES = ["--scores", "scores.csv", "--target", "state"]


@pytest.mark.parametrize(
    ("words", "argument", "got", "fragment"),
    [
        (
            ["--maximize", "f1"],
            "score",
            "",
            "--score is needed with --scores: the column with the scores. There are p,",
        ),
        (["--score", "q", "--maximize", "f1"], "score", "'q'", "--score names no column of scores.csv; got 'q'."),
        (["--score", "text", "--maximize", "f1"], "score", "", "--score text must be finite numbers; row 1 has 'x'."),
        (["--score", "gap", "--maximize", "f1"], "score", "", "--score gap is empty in 1 rows of scores.csv, first in"),
        (["--score", "margin", "--score-is", "probability", "--maximize", "f1"], "score", "", "Use --score-is margin."),
        (["--score", "p", "--positive", "sick", "--maximize", "f1"], "pos_label", "'sick'", "--positive must be"),
        (["--score", "p", "--group", "patent", "--maximize", "f1"], "group", "'patent'", "Did you mean 'patient'?"),
        (["--score", "p", "--target", "one", "--maximize", "f1"], "", "", "two classes are needed"),
        (["--score", "p"], "maximize", "", "--maximize or --minimize must be given"),
        (["--score", "p", *FLOOR, "--confidence", "0.9", "--weight", "w"], "sample_weight", "", "--weight cannot be"),
        (["--score", "constant", *FLOOR, "--confidence", "0.9"], "", "", "all 900 scores equal 0"),
        (["--score", "p", "--maximize", "f1", "--out", "scores.csv/x"], "", "", "scores.csv"),
        (["--score", "p", "--maximize", "f1", "--path-column", "x"], "path_column", "'x'", "goes with RUN"),
    ],
)
def test_mistakes_in_a_file_of_scores(
    words: list[str], argument: str, got: str, fragment: str, tmp_path: Path, monkeypatch, refusal
) -> None:
    import numpy as np
    import pandas as pd

    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    ill = rng.random(900) < 0.2
    margin = rng.normal(size=900) + 2.5 * ill - 1.5
    frame = pd.DataFrame({"p": 1 / (1 + np.exp(-margin)), "margin": margin, "state": np.where(ill, "ill", "well")})
    frame = frame.assign(text="x", one="ill", constant=0.5, w=ill + 1, patient=np.arange(900) // 2, gap=frame.p)
    frame.loc[3, "gap"] = np.nan
    frame.to_csv("scores.csv", index=False)
    refused = refusal("tune", *SCORES, *words)
    assert fragment in refused.line
    assert argument in ("", refused.argument)
    assert got in ("", refused.got)
    assert [path.name for path in tmp_path.iterdir()] == ["scores.csv"]


@pytest.mark.parametrize(
    ("command", "error", "line"),
    [
        ("train", InputError("pos_label", "must be 0 or 1"), "--positive must be 0 or 1."),
        (
            "train",
            InputError("pos_label", "is not one of the classes", got=3),
            "--positive is not one of the classes; got 3.",
        ),
        (
            "tune",
            InputError("", "give exactly one of {maximize} and {minimize}"),
            "give exactly one of --maximize and --minimize.",
        ),
        (
            "tune",
            InputError("maximize", "is missing", remedy="Give {maximize=f1}."),
            "--maximize is missing. Give --maximize f1.",
        ),
        (
            "tune",
            InputError("", "{cost_fn} and {cost_fp} must be positive"),
            "--cost-fn and --cost-fp must be positive.",
        ),
        ("predict", InputError("out", "must end in .csv", got="x"), "--out must end in .csv; got 'x'."),
        ("train", InputError("random_state", "must be 0 or more", got=-1), "--seed must be 0 or more; got -1."),
        (
            "train",
            InputError("space", "needs 'gamma'", remedy="Add {gamma=Constant(0)}."),
            "--space needs 'gamma'. Add --space gamma=0.",
        ),
        ("train", InputError("", "use {alpha=Linear(0.1, 0.9, 1.25)}"), "use --space alpha=0.1,0.9,1.25."),
        ("train", InputError("recipe__optimizer__lr", "differs"), "--recipe.optimizer.lr differs."),
        (
            "points",
            InputError("point", "is not certified", remedy="See {certify}."),
            "point is not certified. See `lossdial certify`.",
        ),
        # words of prose, columns and paths are nobody's arguments
        (
            "tune",
            InputError("", "no column is called 'targt'; did you mean 'target'?"),
            "no column is called 'targt'; did you mean 'target'?",
        ),
        ("train", InputError("", "the file cost_fn/x.csv is empty"), "the file cost_fn/x.csv is empty."),
        ("train", InputError("", "space=3 in row 2"), "space=3 in row 2."),
        ("tune", InputError("", "tuned for a target=1 … no"), "tuned for a target=1 … no."),
        ("train", InputError("", "other λ: Space(gamma=Constant(0.1))"), "other λ: Space(gamma=Constant(0.1))."),
        (
            "predict",
            InputError("sample_weight", "must be positive"),
            "sample_weight must be positive.",
        ),  # no option of it
    ],
)
def test_arguments_of_the_library_are_spelled_as_options(command: str, error: InputError, line: str) -> None:
    assert error.spelled(commands()[command].spell) == line
