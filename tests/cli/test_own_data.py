"""From a user's file to a model, codes, descriptions and a page, with helpful errors."""

import json
import os

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from dynpart import cli
from dynpart.datasets import make_pairs
from dynpart.persistence import load, save
from dynpart.prior import CodePrior
from dynpart.tables import read_table

runner = CliRunner()


def run(*arguments, status=0, stdin=None):
    result = runner.invoke(cli.app, [str(argument) for argument in arguments], input=stdin)
    assert result.exit_code == status, (result.output, result.exception)
    assert "Traceback" not in result.output
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of presences, a model learnt from it by the command, and some images."""
    folder = tmp_path_factory.mktemp("own")
    X = make_pairs(3)
    names = ["owl", "lark", "trout", "pike", "oak", "fern"]
    rows = "\n".join(f"site{i}," + ",".join(map(str, row)) for i, row in enumerate(X.tolist()))
    (folder / "sites.csv").write_text("site," + ",".join(names) + "\n" + rows + "\n")
    np.save(folder / "sites.npy", X)
    run("fit", folder / "sites.csv", "-k", 6, "-o", folder / "sites.dynpart", "--iterations", 10)
    (folder / "pictures").mkdir()
    for i in range(6):
        picture = Image.new("L", (4, 4), 0)
        picture.paste(255, (0, 0, 2, 4) if i % 2 else (2, 0, 4, 4))
        picture.save(folder / "pictures" / f"p{i}.png")
    return folder


def test_fit_keeps_names_and_reports_how_good_it_is(folder):
    model = load(folder / "sites.dynpart")
    assert list(model.feature_names_in_)[:2] == ["owl", "lark"]
    out = folder / "again.dynpart"
    result = run(
        "fit", folder / "sites.csv", "-k", 6, "-o", out, "--iterations", 10, "-v",
        "--valid", folder / "sites.csv", "--force",
    )  # fmt: skip
    assert result.stderr.count(" experts active, 0.00% of values wrong") == 2
    assert "experts active" in result.stderr
    np.testing.assert_array_equal(load(out).means_, model.means_)
    assert not list(folder.glob("*.checkpoint"))


def test_fit_quietly_says_nothing(folder, tmp_path):
    result = run("fit", folder / "sites.npy", "-k", 6, "-o", tmp_path / "m", "-q")
    assert result.output == ""


def test_nothing_is_overwritten_without_force(folder, tmp_path):
    for arguments in (
        ["fit", folder / "sites.csv", "-o"],
        ["encode", folder / "sites.dynpart", folder / "sites.csv", "-o"],
        ["reconstruct", folder / "sites.dynpart", folder / "sites.csv", "-o"],
        ["report", folder / "sites.dynpart", folder / "sites.csv", "-o"],
    ):
        precious = tmp_path / "precious.csv"
        precious.write_text("precious")
        result = run(*arguments, precious, status=2)
        assert "exists already" in result.stderr
        assert precious.read_text() == "precious"


@pytest.mark.parametrize("ending", [".csv", ".npy", ".npz", ".parquet"])
def test_encode_writes_codes_by_the_ending(folder, tmp_path, ending):
    out = tmp_path / f"codes{ending}"
    run("encode", folder / "sites.dynpart", folder / "sites.csv", "-o", out)
    model = load(folder / "sites.dynpart")
    del model.feature_names_in_
    codes = model.transform(np.load(folder / "sites.npy"))
    np.testing.assert_array_equal(read_table(out).values, codes)
    if ending in (".csv", ".parquet"):
        assert read_table(out).labels[3] == "site3"


def test_columns_are_matched_by_name(folder, tmp_path):
    lines = [line.split(",") for line in (folder / "sites.csv").read_text().splitlines()]
    turned = "\n".join(",".join([line[0], *line[:0:-1], "7"]) for line in lines)
    (tmp_path / "turned.csv").write_text(turned.replace("owl,7", "owl,extra", 1))
    straight = run("encode", folder / "sites.dynpart", folder / "sites.csv").stdout
    assert run("encode", folder / "sites.dynpart", tmp_path / "turned.csv").stdout == straight
    (tmp_path / "less.csv").write_text("owl,lark\n1,0\n")
    result = run("encode", folder / "sites.dynpart", tmp_path / "less.csv", status=2)
    assert "no column 'trout' (and 3 more)" in result.stderr


def test_pipes_from_rows_to_codes_to_rows(folder):
    codes = run("encode", folder / "sites.dynpart", "-", stdin=(folder / "sites.csv").read_bytes())
    back = run("reconstruct", folder / "sites.dynpart", "-", "--codes", stdin=codes.stdout)
    direct = run("reconstruct", folder / "sites.dynpart", folder / "sites.csv")
    assert back.stdout == direct.stdout
    assert back.stdout.splitlines()[0] == "row,owl,lark,trout,pike,oak,fern"
    owners = run("reconstruct", folder / "sites.dynpart", folder / "sites.csv", "--owners")
    assert {int(v) for v in owners.stdout.splitlines()[1].split(",")[1:]} <= set(range(6))


def test_a_table_of_codes_is_recognised(folder, tmp_path):
    run("encode", folder / "sites.dynpart", folder / "sites.csv", "-o", tmp_path / "codes.csv")
    from_codes = run("reconstruct", folder / "sites.dynpart", tmp_path / "codes.csv").stdout
    assert from_codes == run("reconstruct", folder / "sites.dynpart", folder / "sites.csv").stdout


def test_info_for_people_and_programs(folder):
    words = run("info", folder / "sites.dynpart").stdout
    assert "bernoulli" in words
    assert "owl, lark" in words
    facts = json.loads(run("info", folder / "sites.dynpart", "--json").stdout)
    assert facts["n_experts"] == 6
    assert facts["names"][0] == "owl"
    joint = load(folder / "sites.dynpart").history_[-1].joint
    assert facts["objective"] == round(-joint / np.log(2), 2)
    assert f"{facts['objective']} in the last iteration of learning, not to be compared" in words
    bits = facts["baseline"]["bits_a_row"]
    assert f"{bits} bits a training row under this model, " in words
    assert words.count(" bits a ") == 1
    assert "column by column" in words
    lines = [line.strip() for line in words.splitlines()]
    first = next(n for n, line in enumerate(lines) if line.startswith("experts "))
    told = [lines[first].removeprefix("experts").strip(), *lines[first + 1 : first + 6]]
    assert told == [f"{k}  {name}" for k, name in enumerate(facts["experts"])]


def test_info_tells_the_prior_and_the_types_of_rows(folder, tmp_path):
    model = load(folder / "sites.dynpart")
    independent, never = np.full((1, 6, 2, 2), np.log(0.5)), np.log([[0.9, 0.1], [0.9, 0.1]])
    often = never[:, ::-1]
    tables = np.array([[often, often, *[never] * 4], [*[never] * 4, often, often]])
    chain = np.array([-1, 0, -1, -1, -1, -1])
    for prior, words in (
        (CodePrior.independent(np.full(6, 0.5)), "independent activations"),
        (CodePrior(np.zeros(1), chain[None], independent), "a tree of 1 edge"),
        (CodePrior(np.log([0.3, 0.7]), np.full((2, 6), -1), tables), "2 types of rows"),
        (CodePrior(np.log([0.3, 0.7]), np.array([chain, chain]), tables),
         "2 types of rows, 2 edges between experts"),
    ):  # fmt: skip
        model.prior_ = prior
        save(model, tmp_path / "m")
        facts = json.loads(run("info", tmp_path / "m", "--json").stdout)
        assert facts["prior"] == words
        assert ("types" in facts) == (prior.n_types > 1)
    assert [(kind["share"], kind["experts"]) for kind in facts["types"]] == [
        (pytest.approx(0.7), [4, 5]),
        (pytest.approx(0.3), [0, 1]),
    ]
    names = model.expert_names_
    lines = run("info", tmp_path / "m").stdout.splitlines()
    assert lines[[line.startswith("types") for line in lines].index(True) + 1].split() == (
        f"30% {names[0]} + {names[1]}".split()
    )
    save(model.set_params(prior=None), tmp_path / "m")
    assert "for scores only" in run("info", tmp_path / "m").stdout


def test_explain_names_experts_and_variables(folder):
    text = run("explain", folder / "sites.dynpart", folder / "sites.csv", "--row", 2).stdout
    assert text.startswith("Row 2 (site2): ")
    assert "(expert " in text
    assert "says yes" in text
    assert any(name in text for name in ("owl", "lark", "trout", "pike", "oak", "fern"))
    same = run("explain", folder / "sites.dynpart", folder / "sites.csv", "--label", "site2").stdout
    assert same == text
    result = run("explain", folder / "sites.dynpart", folder / "sites.csv", "--row", 99, status=2)
    assert "--row" in result.stderr


def test_a_folder_of_pictures_from_fit_to_page(folder, tmp_path):
    model = tmp_path / "m.dynpart"
    result = run("fit", folder / "pictures", "-k", 3, "-o", model, "--iterations", 5)
    assert "black and white" in result.stderr
    assert "Note: " in result.stderr
    assert "Warning" not in result.stderr
    assert load(model).image_shape_ == (4, 4)
    run("report", model, folder / "pictures", "-o", tmp_path / "r.html", "--title", "Shapes")
    page = (tmp_path / "r.html").read_text()
    assert "<title>Shapes</title>" in page
    assert '"image":[4,4]' in page
    text = run("explain", model, folder / "pictures", "--label", "p1.png").stdout
    assert "pixels" in text
    told = [run("info", model).stdout, run("score", model, folder / "pictures").stderr]
    for words in told:
        assert "pixel by pixel" in words
        assert "column" not in words
    # Pictures of another size are fitted to the model's.
    (tmp_path / "big").mkdir()
    Image.new("L", (8, 8), 255).save(tmp_path / "big" / "b.png")
    assert run("encode", model, tmp_path / "big").stdout.startswith("row,expert0")


def test_gaussian_tables(tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 4)) + [[5, 0, 0, 0]]
    (tmp_path / "t.csv").write_text("a,b,c,d\n" + "\n".join(",".join(map(str, r)) for r in X))
    model = tmp_path / "m.dynpart"
    result = run("fit", tmp_path / "t.csv", "-k", 3, "-o", model, "--iterations", 4, "-v")
    assert "gaussian" in result.stderr
    assert "RMSE" in result.stderr
    assert "(usually " in run("explain", model, tmp_path / "t.csv", "--row", 0).stdout
    run("report", model, tmp_path / "t.csv", "-o", tmp_path / "r.html")
    result = run("fit", tmp_path / "t.csv", "-o", tmp_path / "n", "--family", "bernoulli", status=2)
    assert "binary" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "missing.csv", "-o", "m"], "missing.csv: No such file"),
        (["fit", "{sites}", "-o", "{folder}/no/such/m"], "no such folder"),
        (["fit", "{sites}", "-o", "{folder}"], "is a folder"),
        (["fit", "{sites}", "-o", "m", "-k", "3", "--max-active", "4"], "max_active"),
        (["fit", "{sites}", "-o", "m", "--size", "huge"], "--size"),
        (["fit", "{sites}", "-o", "m", "--drop", "none"], "'none'"),
        (["encode", "{sites}", "{sites}"], "not a dynpart file"),
        (["encode", "{model}", "{sites}", "-o", "codes.xlsx"], "must end in"),
        (["info", "missing"], "missing: No such file"),
        (["report", "{model}", "{sites}", "-o", "r.html", "--image", "5x5"], "image_shape"),
        (["explain", "{model}", "{sites}", "--label", "x"], "--label"),
        (["explain", "{model}", "{sites}"], "--row"),
        (["explain", "{model}", "{sites}", "--row", "1", "--label", "site1"], "--row"),
    ],
)  # fmt: skip
def test_errors_say_what_is_wrong(folder, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    known = {"sites": folder / "sites.csv", "model": folder / "sites.dynpart", "folder": tmp_path}
    result = run(*[argument.format(**known) for argument in arguments], status=2)
    assert message in result.stderr
    assert len(result.stderr.splitlines()) <= 2
    assert not list(tmp_path.iterdir())


def test_errors_about_standard_input_call_it_so(folder):
    result = run("encode", folder / "sites.dynpart", "-", stdin="a,b\n1,2\n3\n", status=2)
    assert "standard input: row 1 (line 3) has 1 field" in result.stderr
    result = run("encode", folder / "sites.dynpart", "-", stdin="a,b\n1,x\n", status=2)
    assert "standard input has no column 'owl'" in result.stderr


def test_a_checkpoint_left_over_is_not_lost_by_accident(folder, tmp_path):
    left = tmp_path / "m.dynpart.checkpoint"
    left.write_text("state")
    arguments = ["fit", folder / "sites.csv", "-o", tmp_path / "m.dynpart", "--iterations", 2]
    result = run(*arguments, status=2)
    assert "--resume" in result.stderr
    assert left.read_text() == "state"
    run(*arguments, "--force")
    assert not left.exists()


def test_an_interrupted_fit_is_resumed_to_the_same_model(folder, tmp_path, monkeypatch):
    from dynpart.cli import fit
    from dynpart.persistence import Journal

    monkeypatch.setattr(fit, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    arguments = ["fit", folder / "sites.csv", "-k", 6, "-o", tmp_path / "m", "--iterations", 10]
    note = Journal.note

    def interrupted(self, state):
        note(self, state)
        if len(state.history) == 4:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "note", interrupted)
        result = run(*arguments, status=130)
    assert "--resume" in result.stderr
    assert not (tmp_path / "m").exists()
    assert "--resume" in run(*arguments, status=2).stderr
    result = run(*arguments, "--resume")
    assert "continuing from this checkpoint" in result.stderr
    straight = load(folder / "sites.dynpart")
    np.testing.assert_array_equal(load(tmp_path / "m").means_, straight.means_)
    np.testing.assert_array_equal(load(tmp_path / "m").expertise_, straight.expertise_)
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_force_loses_no_checkpoint_before_the_new_fit_has_begun(folder, tmp_path):
    from dynpart import DynamicPartitionModel

    left, out = tmp_path / "m.checkpoint", tmp_path / "m"
    rows = np.tile(make_pairs(2), (5, 1))
    DynamicPartitionModel(3, max_iter=2, random_state=0).fit(rows, checkpoint=left)
    before = left.read_bytes()
    np.save(tmp_path / "gray.npy", make_pairs(3) + 0.5)
    run("fit", tmp_path / "missing.csv", "-o", out, "--force", status=2)
    run("fit", tmp_path / "gray.npy", "-o", out, "--force", "--family", "bernoulli", status=2)
    run("fit", folder / "sites.npy", "-o", out, "--force", "-k", 2, "--active", 3, status=2)
    assert left.read_bytes() == before
    run("fit", folder / "sites.npy", "-o", out, "--force", "--iterations", 2)
    assert not left.exists()
    assert load(out).n_features_in_ == 6


@pytest.mark.parametrize("force", [True, False])
def test_pipes_are_refused_before_anything_is_learnt(folder, tmp_path, force):
    os.mkfifo(tmp_path / "pipe")
    option = ["--force"] if force else []
    result = run("fit", folder / "sites.npy", "-o", tmp_path / "pipe", *option, status=2)
    assert "never replaced" in result.stderr
    assert "nats" not in result.stderr
    assert (tmp_path / "pipe").is_fifo()


def test_a_checkpoint_of_another_fit_is_not_resumed(folder, tmp_path):
    from dynpart import DynamicPartitionModel

    left = tmp_path / "m.checkpoint"
    rows = np.tile(make_pairs(2), (5, 1))
    DynamicPartitionModel(3, max_iter=2, random_state=0).fit(rows, checkpoint=left)
    arguments = ["fit", folder / "sites.csv", "-o", tmp_path / "m", "--resume"]
    assert "another run" in run(*arguments, status=2).stderr
    assert left.exists()


def test_pixels_learn_with_their_neighbours(folder, tmp_path):
    model = tmp_path / "m.dynpart"
    run("fit", folder / "pictures", "-k", 3, "-o", model, "--iterations", 5, "--neighbours")
    assert load(model).connectivity.shape == (16, 16)
    assert "connectivity=" in run("info", model).stdout
    run("explain", model, folder / "pictures", "--row", 0)
    arguments = ["fit", folder / "sites.csv", "-o", tmp_path / "n", "--neighbours"]
    assert "needs images" in run(*arguments, status=2).stderr
