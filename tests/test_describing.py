"""Every claim of a description is true of the arrays."""

import json
import re
import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from typer.testing import CliRunner

from dynpart import DynamicPartitionModel, load
from dynpart.cli import app
from dynpart.portrait import portrait
from tests.strategies import composed_means


@pytest.fixture(scope="module")
def animals():
    """Three kinds of animals with names, and a rare trait."""
    rng = np.random.default_rng(0)
    kinds = np.repeat([0, 1, 2], 40)
    templates = {"milk": (1, 0, 0), "eggs": (0, 1, 1), "fins": (0, 0, 1), "feathers": (0, 1, 0),
                 "hair": (1, 0, 0), "breathes": (1, 1, 0)}  # fmt: skip
    X = np.array([np.take(t, kinds) for t in templates.values()]).T
    X = (X ^ (rng.random(X.shape) < 0.03)).astype(np.uint8)
    return pd.DataFrame(X, columns=list(templates), index=[f"animal {n}" for n in range(len(X))])


@pytest.fixture(scope="module")
def model(animals):
    return DynamicPartitionModel(4, random_state=0).fit(animals)


def test_claims_about_rows_are_true(model, animals):
    told = model.describe(animals)
    codes = model.transform(animals)
    values = animals.to_numpy()
    usual = values.mean(axis=0)
    owner = model.partition(codes)
    assert told.n_rows == len(animals)
    assert told.mean_active == pytest.approx(codes.sum(axis=1).mean())
    independent = np.where(values, np.log2(usual), np.log2(1 - usual)).sum(axis=1).mean()
    assert told.baseline_bits == pytest.approx(-independent, rel=1e-6)
    assert told.bits == pytest.approx(-model.score(animals) / np.log(2))
    assert told.saved_bits == pytest.approx(told.baseline_bits - told.bits)
    shares = [one.active for one in told.experts]
    assert shares == sorted(shares, reverse=True)
    for one in told.experts:
        k, mine = one.expert, codes[:, one.expert] == 1
        assert one.active == pytest.approx(mine.mean())
        for opinion in one.opinions:
            d = list(animals.columns).index(opinion.variable)
            yes = model.means_[k, d]
            assert opinion.says == ("yes" if yes > 0.5 else "no")
            assert opinion.chance == pytest.approx(max(yes, 1 - yes))
            assert opinion.usual == pytest.approx(usual[d] if yes > 0.5 else 1 - usual[d])
            assert opinion.chance > opinion.usual
            if mine.any():
                assert opinion.decides == pytest.approx((owner[mine, d] == k).mean())
        places = [animals.index.get_loc(label) for label in one.typical]
        assert all(mine[places])
        for other in one.together + one.apart:
            expected = np.corrcoef(codes[:, k], codes[:, other.expert])[0, 1]
            assert other.correlation == pytest.approx(expected)
            assert other.name == model.expert_names_[other.expert]
    # Three kinds of animals: an expert too many may have no row, and then claims none.
    used = [one for one in told.experts if codes[:, one.expert].any()]
    assert len(used) >= 3
    assert all(one.active == 0 and not one.typical for one in told.experts if one not in used)


def test_independent_scores_are_those_of_frequencies(model, animals):
    values = animals.to_numpy()
    usual = values.mean(axis=0)
    expected = np.where(values, np.log(usual), np.log(1 - usual)).sum(axis=1)
    np.testing.assert_allclose(model.independent_scores(animals), expected, rtol=1e-6)


def test_lines_of_a_description_are_what_the_arrays_say(model, animals):
    """Shares, opinions and company, written again from codes and frequencies."""
    codes = model.transform(animals)
    lines, names = model.describe(animals, top=3).lines(), model.expert_names_
    head = r"4 experts for 6 variables; (.*) active in a row, on average over 120 rows\."
    active = float(re.fullmatch(head, lines[0])[1])
    assert active == pytest.approx(codes.sum(axis=1).mean(), abs=0.051)
    usual = animals.to_numpy().mean(axis=0)
    with np.errstate(invalid="ignore"):  # an expert without rows goes with none
        related = np.nan_to_num(np.corrcoef(codes.T))
    for k, name in enumerate(names):
        share = codes[:, k].mean()
        heads = [line for line in lines if line.startswith(f"{name}   (expert {k}, in ")]
        if not share:
            assert not heads
            assert f"Active in no row: expert {k}." in lines
            continue
        assert len(heads) == 1
        told = float(re.search(r"in ([0-9.]+)% of rows", heads[0])[1])
        assert told == pytest.approx(100 * share, abs=0.51)
        at = lines.index(heads[0]) + 1
        block = lines[at : lines.index("", at)] if "" in lines[at:] else lines[at:]
        for line in block:
            found = re.fullmatch(
                r"   (\w+) +(yes|no) \((?:over )?([0-9.]+)%; usually ([0-9.]+)%\)(, in .*)?", line
            )
            if found is None:
                continue
            d = list(animals.columns).index(found[1])
            chance, rate = (
                p if found[2] == "yes" else 1 - p for p in (model.means_[k, d], usual[d])
            )
            assert float(found[3]) == pytest.approx(100 * chance, abs=0.51)
            assert float(found[4]) == pytest.approx(100 * rate, abs=0.51)
        others = [j for j in range(4) if j != k]
        for title, sign in (("often with", 1), ("rarely with", -1)):
            far = {names[j]: sign * related[k, j] for j in others if sign * related[k, j] >= 0.15}
            said = [line for line in block if line.startswith(f"   {title}: ")]
            listed = said[0].removeprefix(f"   {title}: ").split("; ") if said else []
            assert set(listed) == set(far)
            shown = [far[other] for other in listed]
            assert all(a >= b - 1e-9 for a, b in pairwise(shown))  # the clearest first


def test_typical_rows_gain_most_from_what_the_expert_owns(model, animals):
    codes = model.transform(animals)
    owner, values = model.partition(codes), animals.to_numpy()
    usual = np.where(values, values.mean(axis=0), 1 - values.mean(axis=0))
    composed = composed_means(model, codes)
    own = np.where(values, composed, 1 - composed)
    for one in model.describe(animals).experts:
        gain = np.where(owner == one.expert, np.log(own / usual), 0).sum(axis=1)
        gain[codes[:, one.expert] == 0] = -np.inf
        best = np.sort(gain)[::-1][: len(one.typical)]
        shown = [gain[animals.index.get_loc(label)] for label in one.typical]
        np.testing.assert_allclose(shown, best)


def test_odd_rows_gain_least(model, animals):
    told = model.describe(animals)
    values = animals.to_numpy()
    usual = np.where(values, values.mean(axis=0), 1 - values.mean(axis=0))
    better = model.score_samples(animals) - np.log(usual).sum(axis=1)
    shown = [better[animals.index.get_loc(label)] for label in told.odd]
    np.testing.assert_allclose(shown, np.sort(better)[: len(told.odd)], rtol=1e-6)
    assert f"Rows that gain least over column by column: {', '.join(told.odd)}." in told.lines()


def test_without_rows_it_tells_what_training_left(model, animals):
    told, with_rows = model.describe(), model.describe(animals)
    assert told.n_rows is None
    assert told.saved_bits == pytest.approx(model.baseline_.saved_bits)
    assert "bits less than column by column" in told.lines()[1]
    by_number = {one.expert: one for one in told.experts}
    for one in with_rows.experts:
        assert by_number[one.expert].opinions == one.opinions
        assert by_number[one.expert].typical == ()
        assert [c.expert for c in by_number[one.expert].together] == [
            c.expert for c in one.together
        ]


def test_types_of_rows_are_those_of_the_prior(model):
    told = model.describe()
    assert sum(kind.share for kind in told.types) == pytest.approx(1)
    assert len({kind.experts for kind in told.types}) == len(told.types)
    for kind in told.types:
        active = [t.activation_probabilities for t in model.types_]
        same = [tuple(np.flatnonzero(p >= 0.5)) == kind.experts for p in active]
        weight = np.array([t.weight for t in model.types_]) * same
        assert kind.share == pytest.approx(weight.sum())
        assert kind.names == tuple(model.expert_names_[k] for k in kind.experts)
        mean = weight @ active / weight.sum()
        np.testing.assert_allclose(kind.active, mean[list(kind.experts)])
    shares = [kind.share for kind in told.types]
    assert shares == sorted(shares, reverse=True)
    assert ("Types of rows" in str(told)) == (len(told.types) > 1)


def test_frame_text_and_notebook_say_the_same(model, animals):
    told = model.describe(animals)
    frame = told.to_frame()
    assert list(frame.index) == [one.expert for one in told.experts]
    assert set(frame["name"]) == set(model.expert_names_)
    text, page = str(told), told._repr_html_()
    for one in told.experts:
        assert one.name in page
        if not one.active:
            continue
        assert one.name in text
        assert all(o.told() in text for o in one.opinions)
        assert all((" of its rows" in o.told()) == (o.decides < 0.5) for o in one.opinions)
    json.dumps(told.to_dict(), allow_nan=False)


def test_notebooks_show_the_description_of_a_fitted_model_only(model):
    fresh = DynamicPartitionModel(4)
    assert "active in" not in fresh._repr_html_()
    assert model._repr_html_().endswith(model.describe()._repr_html_())
    shown = model._repr_mimebundle_()["text/html"]
    assert all(name in shown for name in model.expert_names_)
    assert "active in" not in fresh._repr_mimebundle_()["text/html"]
    with config_context(display="text"):
        assert "text/html" not in model._repr_mimebundle_()


def test_names_of_variables_cannot_be_markup(animals):
    hostile = animals.rename(columns={"milk": "<script>alert(1)</script>"})
    model = DynamicPartitionModel(3, random_state=0).fit(hostile)
    assert "<script>" not in model.describe(hostile)._repr_html_()


def test_labels_must_fit_the_rows(model, animals):
    with pytest.raises(ValueError, match=r"labels must have one entry per row \(120\), got 2"):
        model.describe(animals, labels=["a", "b"])


@pytest.mark.parametrize("n_experts", [1, 5, 12])
def test_all_texts_have_the_same_shares_of_training_rows(n_experts, tmp_path):
    rng = np.random.default_rng(0)
    X = (rng.random((30, 6)) < 0.4).astype(float)
    X[::5, 0] = np.nan
    model = DynamicPartitionModel(n_experts, random_state=0, max_iter=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X)
    model.save(tmp_path / "m.dynpart")
    shares = model.transform(X).mean(axis=0)
    for one in (model, load(tmp_path / "m.dynpart"), portrait(tmp_path / "m.dynpart")):
        active = {expert.expert: expert.active for expert in one.describe().experts}
        np.testing.assert_allclose([active[k] for k in range(model.n_experts_)], shares, atol=1e-9)
    for part in model.explain(X, 3).parts:
        assert part.active == pytest.approx(shares[part.expert], abs=1e-9)
    facts = json.loads(call("info", tmp_path / "m.dynpart", "--json").stdout)
    assert facts["active_experts_a_row"] == round(shares.sum(), 2)


# ------------------------------------------------------------------ commands


@pytest.fixture
def files(tmp_path, animals):
    animals.to_csv(tmp_path / "animals.csv", index_label="name")
    run = CliRunner().invoke(
        app, ["fit", str(tmp_path / "animals.csv"), "-k", "4", "-o", str(tmp_path / "m.dynpart")]
    )
    assert run.exit_code == 0, run.output
    return tmp_path / "m.dynpart", tmp_path / "animals.csv"


def call(*arguments):
    run = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert run.exit_code == 0, run.output
    return run


def test_fit_ends_with_three_lines_for_newcomers(animals, model, tmp_path):
    data, out = tmp_path / "animals.csv", tmp_path / "m.dynpart"
    animals.to_csv(data, index_label="name")
    said = call("fit", data, "-k", 4, "-o", out).stderr
    found, worth, following = said.strip().splitlines()[-3:]
    told = model.describe(animals)
    n_used = sum(one.active > 0 for one in told.experts)
    unused = " 1 more is never used." if n_used == 3 else ""
    assert found == (
        f"{n_used} experts found in 120 rows of 6 variables; a row is explained by "
        f"{told.mean_active:.1f} of them.{unused}"
    )
    assert worth == told.saving.replace("A row", "A training row")
    assert following.startswith(f"Next: dynpart describe {out} {data}")
    call(*following.split("   ")[0].split()[2:])
    for word in ("trial", "minimum", "at least", "penalised", "RMSE"):
        assert word not in said
    assert "nats" not in said
    valid = call("fit", data, "-k", 4, "-o", out, "--force", "--valid", data).stderr
    assert valid.strip().splitlines()[-1] == f"{data}: {told.saving}"
    short = ("fit", data, "-k", 4, "-o", out, "--force", "--iterations", 3)
    verbose = call(*short, "--verbose").stderr
    assert "nats" not in verbose
    assert "bits a row, " in verbose
    quiet = call(*short, "--quiet").stderr
    assert "experts" not in quiet


def test_describe_prints_text_json_and_csv(files, model, animals):
    fitted, data = files
    names, used = model.expert_names_, model.transform(animals).any(axis=0)
    text = call("describe", fitted, data).stdout
    assert all((f"{names[k]}   (expert {k}," in text) == used[k] for k in range(4))
    assert re.search(r"animal \d", text)
    told = json.loads(call("describe", fitted, data, "--json").stdout)
    expected = json.loads(json.dumps(model.describe(animals).to_dict()))
    assert told["experts"] == expected["experts"]
    lines = call("describe", fitted, "--csv").stdout.splitlines()
    assert lines[0] == "expert,name,active,says,typical,together,apart"
    assert len(lines) == 5


def test_renamed_experts_appear_everywhere(files, tmp_path):
    fitted, data = files
    call("rename", fitted, "2=wet sites")
    assert "wet sites" in call("describe", fitted).stdout
    assert "wet sites" in call("info", fitted).stdout
    codes = tmp_path / "codes.csv"
    call("encode", fitted, data, "-o", codes)
    header = codes.read_text().splitlines()[0].split(",")
    assert "expert2_wet_sites" in header
    call("rename", fitted, "2=dry sites")  # columns of codes are still known by their numbers
    call("reconstruct", fitted, codes, "-o", tmp_path / "back.csv")
    assert (tmp_path / "back.csv").read_text().startswith("row,milk,eggs")
    call("rename", fitted, "2=")
    assert "sites" not in call("describe", fitted).stdout


@pytest.mark.parametrize("wrong", ["wet sites", "x=y", "7=x"])
def test_rename_refuses_what_is_no_name(files, wrong):
    before = files[0].read_bytes()
    run = CliRunner().invoke(app, ["rename", str(files[0]), wrong])
    assert run.exit_code == 2
    assert files[0].read_bytes() == before


@pytest.mark.parametrize("answers", ["yes or no", "one to six"])
def test_poles_of_planted_factors_are_named_by_their_own_items(answers):
    """Five bipolar factors with five items each, as in questionnaires about personality."""
    rng = np.random.default_rng(0)
    factors = ["open", "careful", "outgoing", "kind", "anxious"]
    X = np.repeat(rng.normal(size=(600, 5)), 5, axis=1) + 0.6 * rng.normal(size=(600, 25))
    values = X > 0 if answers == "yes or no" else np.clip(np.round(3.5 + 1.2 * X), 1, 6)
    table = pd.DataFrame(values, columns=[f"{name}{i}" for name in factors for i in range(1, 6)])
    names = DynamicPartitionModel(10, random_state=0).fit(table).expert_names_
    poles = set()
    for name in names:
        traits = set()
        for trait in name.split(", "):
            word, factor, no = re.fullmatch(r"(.*?)([a-z]+)\d(: no)?", trait).groups()
            traits.add((factor, "low" if no or "low" in word else "high"))
        assert len(traits) == 1, name  # one factor, one direction
        poles |= traits
    # A learner may give two experts to one pole; names never mix two.
    assert len(poles) >= 8
