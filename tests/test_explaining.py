"""Every claim of an explanation is true of the arrays."""

import json
from copy import copy
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from dynpart import DynamicPartitionModel
from dynpart.cli import app
from dynpart.datasets import load_digits
from dynpart.explaining import Explanation, Part
from dynpart.naming import place_in_words
from tests.strategies import composed_means


@pytest.fixture(scope="module")
def table():
    """Two independent groups of five columns, each in one of two states, and a little noise."""
    rng = np.random.default_rng(0)
    states = rng.integers(0, 2, size=(150, 2))
    X = np.repeat(states, 5, axis=1)
    X[:, [1, 3, 6, 8]] ^= 1
    X = X ^ (rng.random(X.shape) < 0.04)
    names = [f"{word}{n}" for word in ("oak", "elm") for n in range(5)]
    labels = [f"plot {n}" for n in range(150)]
    return pd.DataFrame(X.astype(np.uint8), columns=names, index=labels)


@pytest.fixture(scope="module")
def model(table):
    return DynamicPartitionModel(4, random_state=0).fit(table)


@pytest.mark.parametrize("row", [0, 7, 41])
def test_parts_partition_the_row_and_bits_add_up(model, table, row):
    told = model.explain(table, row, top=20)
    x, code = table.iloc[[row]], model.transform(table.iloc[[row]])
    owner, composed = model.partition(code)[0], composed_means(model, code)[0]
    usual = table.mean().to_numpy()
    value = x.to_numpy()[0]
    own = np.where(value, composed, 1 - composed)
    gain = np.log2(own) - np.log2(np.where(value, usual, 1 - usual))
    assert {part.expert for part in told.parts} == set(np.flatnonzero(code[0]))
    assert sum(part.n_owned for part in told.parts) == 10
    for part in told.parts:
        mine = owner == part.expert
        assert part.n_owned == mine.sum()
        assert part.bits == pytest.approx(gain[mine].sum(), rel=1e-5)
        assert part.name == model.expert_names_[part.expert]
        assert {cell.variable for cell in part.cells} == set(table.columns[mine])
        for cell in part.cells:
            d = table.columns.get_loc(cell.variable)
            assert cell.value == ("yes" if value[d] else "no")
            assert cell.expected == ((composed[d] > 0.5) == value[d])
            assert cell.chance == pytest.approx(own[d])
            assert cell.bits == pytest.approx(gain[d], abs=1e-5)
    joint = model.score_samples(x)[0] / np.log(2)
    assert told.saved_bits == pytest.approx(gain.sum() - told.code_bits, rel=1e-5)
    assert told.code_bits == pytest.approx(np.log2(own).sum() - joint, rel=1e-5)


def test_what_is_not_explained_is_exactly_what_is_wrong(model, table):
    codes = model.transform(table)
    wrong = (composed_means(model, codes) > 0.5) != table.to_numpy()
    for row in (*np.flatnonzero(wrong.any(axis=1))[:3], *np.flatnonzero(~wrong.any(axis=1))[:2]):
        told = model.explain(table, row)
        assert told.n_unexplained == wrong[row].sum()
        shown = {cell.variable for cell in told.unexplained}
        assert shown <= set(table.columns[wrong[row]])
        assert len(shown) == min(5, wrong[row].sum())
        assert all(not cell.expected for cell in told.unexplained)
        assert ("Nothing in it is unexpected" in str(told)) == (not wrong[row].any())


@pytest.mark.parametrize("row", [0, 5, 99])
def test_the_next_best_set_of_experts_is_the_best_of_all_others(model, table, row):
    """With four experts all codes can be tried; on this table the best other is one change away."""
    told = model.explain(table, row)
    x = table.iloc[[row]]
    own = model.transform(x)[0]
    codes = np.array([c for c in product((0, 1), repeat=4) if any(c)], dtype=np.uint8)
    rule = model._rule()
    prior = np.zeros(len(codes))
    if rule.prior is not None:
        prior = rule.prior.log_joint(codes).max(axis=1)
    scores = {
        tuple(code): float(model.log_likelihood(x, code[None])[0] - code @ rule.cost + belief)
        for code, belief in zip(codes, prior, strict=True)
    }
    best = scores.pop(tuple(own))
    assert told.other_bits == pytest.approx((best - max(scores.values())) / np.log(2), abs=1e-4)
    assert told.other


def test_codes_found_in_another_way_are_explained_without_their_cost(model, table):
    other = copy(model).set_params(max_active=1)
    told = other.explain(table, 0)
    assert told.code_bits is None
    assert told.saved_bits == pytest.approx(sum(part.bits for part in told.parts))
    assert "naming" not in str(told)
    assert other.describe(table).bits is None


def test_gaps_are_told_with_what_is_expected(model, table):
    gappy = table.astype(float)
    gappy.iloc[0, [1, 7]] = np.nan
    told = model.explain(gappy, 0)
    code = model.transform(gappy.iloc[[0]])
    owner, composed = model.partition(code)[0], composed_means(model, code)[0]
    assert told.n_observed == 8
    assert [entry[0] for entry in told.expected] == [table.columns[1], table.columns[7]]
    for (_, name, says), d in zip(told.expected, (1, 7), strict=True):
        assert name == model.expert_names_[owner[d]]
        assert says.startswith("yes" if composed[d] > 0.5 else "no")
    assert "2 of them not observed" in str(told)


@pytest.mark.slow
def test_pictures_say_where(model):
    digits = load_digits()
    model = DynamicPartitionModel(12, max_active=5, max_iter=8, random_state=0).fit(digits.train)
    model.image_shape_ = digits.image_shape
    usual = np.clip(digits.train.mean(axis=0), 1e-4, 1 - 1e-4)  # as rates of Bernoulli families
    codes = model.transform(digits.test)
    owners, means = model.partition(codes), composed_means(model, codes)
    usually = model._opinions().weight.sum(axis=0)
    wrong = (means > 0.5) != digits.test
    parted, missed = int(codes.sum(axis=1).argmax()), int(wrong.sum(axis=1).argmax())
    assert codes[parted].sum() > 1
    assert wrong[missed].sum() > 1
    for row in (parted, missed):
        told, x = model.explain(digits.test, row), digits.test[row]
        gain = np.log(np.where(x, means[row] / usual, (1 - means[row]) / (1 - usual)))
        for part in told.parts:
            assert not part.cells
            own = owners[row] == part.expert
            assert part.where == said(np.where(own, np.maximum(gain, 0), 0), usually)
            helps = " and helps most " if part.where else "."
            assert f"{own.sum()} of 64 pixels{helps}{part.where}" in str(told)
        assert told.n_unexplained == wrong[row].sum()
        scattered = wrong[row].sum() < 2
        assert told.unexplained_where == (
            "" if scattered else said(wrong[row].astype(float), usually)
        )
        assert "pixel by pixel" in str(told)
    assert any(part.where for part in model.explain(digits.test, parted).parts)


def said(weight, usually):
    """Where a weight of the pixels of a digit is, with the preposition."""
    place = place_in_words(weight, (8, 8), usually)
    at = "at the" if place in ("top", "bottom", "left", "right") else "in the"
    return "" if place in ("everywhere", "nowhere") else f"{at} {place}"


def test_pictures_say_where_even_if_only_one_pixel_is_wrong():
    told = Explanation("Row 0", 2, 9, 9, "pixels", (), (), 1, (), None, 1.0, "", 0.0)
    assert "Not explained: 1 pixel (11%) is not as expected." in told.lines()
    more = replace(told, n_unexplained=3, unexplained_where="at the top")
    expected = "Not explained: 3 pixels (33%) are not as expected, most of them at the top."
    assert expected in more.lines()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_numbers_are_expected_within_two_standard_deviations():
    rng = np.random.default_rng(0)
    X = np.where(np.arange(80)[:, None] % 2, 5.0, -5.0) + rng.normal(size=(80, 3))
    model = DynamicPartitionModel(2, variance_floor=0.02, random_state=0).fit(X)
    assert (
        model.explain(X, 0).n_unexplained
        == (
            np.abs(X[0] - composed_means(model, model.transform(X[:1]))[0])
            > 2 * np.sqrt(model.variances_[model.partition(model.transform(X[:1]))[0], range(3)])
        ).sum()
    )
    X[0, 1] = -20.0
    told = model.explain(X, 0)
    assert [cell.variable for cell in told.unexplained] == ["x1"]
    assert told.unexplained[0].value == "-20"
    assert told.unexplained[0].chance is None


def test_no_word_of_the_workshop_reaches_a_reader(model, table):
    text = " ".join(str(model.explain(table, row)) for row in range(20))
    for word in ("nats", "pursuit", "nan", "None", "np."):
        assert word not in text


def test_the_command_says_what_python_says(model, table, tmp_path):
    table.to_csv(tmp_path / "t.csv", index_label="plot")
    model.save(tmp_path / "m.dynpart")
    where = [str(tmp_path / "m.dynpart"), str(tmp_path / "t.csv"), "--label", "plot 7"]
    run = CliRunner().invoke(app, ["explain", *where])
    assert run.exit_code == 0, run.output
    assert run.stdout == str(model.explain(table, 7)) + "\n"
    run = CliRunner().invoke(app, ["explain", *where, "--json"])
    assert json.loads(run.stdout) == json.loads(json.dumps(model.explain(table, 7).to_dict()))


def percents(share):
    """Percent as texts of the package round them; written again on purpose."""
    if share < 0.001:
        return "under 0.1%"
    if share > 0.999:
        return "over 99.9%"
    return f"{share:.0%}" if 0.0995 <= share < 0.995 else f"{share:.1%}"


@pytest.mark.parametrize("row", [0, 7, 33, 99])
def test_every_line_is_what_the_arrays_say(model, table, row):
    """The whole text of a row, written again from codes, owners, means and frequencies."""
    x = table.iloc[[row]]
    code, value = model.transform(x), x.to_numpy()[0]
    owner, composed = model.partition(code)[0], composed_means(model, code)[0]
    usual, names = table.mean().to_numpy(), model.expert_names_
    own = np.where(value, composed, 1 - composed)
    gain = np.log2(own / np.where(value, usual, 1 - usual))
    lines = model.explain(table, row, top=10).lines()
    active = np.unique(owner).tolist()
    who = f"{len(active)} of 4 experts explain" if len(active) > 1 else "one expert explains"
    assert lines[0] == f"Row {row} (plot {row}): {who} its 10 variables."

    def says(d):
        yes = composed[d] > 0.5
        chance, often = (composed[d], usual[d]) if yes else (1 - composed[d], 1 - usual[d])
        return f"{'yes' if yes else 'no'} ({percents(chance)}; usually {percents(often)})"

    for place, k in enumerate(sorted(active, key=lambda k: -gain[owner == k].sum()), start=1):
        share = percents(model.transform(table)[:, k].mean())
        at = lines.index(f"{place}. {names[k]}   (expert {k}, in {share} of rows)")
        mine = np.flatnonzero(owner == k)
        assert lines[at + 1] == f"   It explains {len(mine)} of 10 variables."
        but = ["" if (composed[d] > 0.5) == value[d] else "; but it is " for d in mine]
        words = ["yes" if v else "no" for v in value[mine]]
        expected = {
            f"   - {table.columns[d]}  says {says(d)}{b}{w if b else ''}"
            for d, b, w in zip(mine, but, words, strict=True)
        }
        assert set(lines[at + 2 : at + 2 + len(mine)]) == expected
    for d in np.flatnonzero((composed > 0.5) != value):
        told = "yes" if value[d] else "no"
        line = f"   - {table.columns[d]}  is {told} (chance {percents(own[d])}); expected {says(d)}"
        assert line in lines
    joint = float(model.score_samples(x)[0] / np.log(2))
    bits = joint - np.log2(np.where(value, usual, 1 - usual)).sum()
    cost = f"naming the experts costs {np.log2(own).sum() - joint:.1f}"
    word = "saved" if bits > 0 else "lost"
    assert lines[-2].endswith(f"({abs(bits):.1f} bits {word}; {cost}).")


def test_active_experts_that_own_nothing_are_not_counted(model, table):
    told = model.explain(table, 7)
    useful = [part for part in told.parts if part.n_owned]
    idle = [Part(k, name, 0.5, 0, "", 0.0, ()) for k, name in ((8, "warm"), (9, "no roof"))]
    lines = replace(told, parts=(idle[0], *useful, idle[1])).lines()
    assert lines[0] == replace(told, parts=tuple(useful)).lines()[0]
    numbered = [line.split(" ")[0] for line in lines if line[:1].isdigit()]
    assert numbered == [f"{place}." for place in range(1, len(useful) + 1)]
    assert lines.count("Active as well, but others know better everywhere: “warm” and “no roof”.")


@pytest.mark.parametrize("row", [0, 5, 99])
def test_the_change_to_the_next_best_code_is_told_by_names(model, table, row):
    x = table.iloc[[row]]
    own = tuple(model.transform(x)[0])
    codes = [c for c in product((0, 1), repeat=4) if any(c) and c != own]
    codes = np.array(codes, dtype=np.uint8)
    rule = model._rule()
    score = model.log_likelihood(x.iloc[[0] * len(codes)], codes)
    score = score - codes @ rule.cost
    if rule.prior is not None:
        score = score + rule.prior.log_joint(codes).max(axis=1)
    best = codes[int(np.argmax(score))]
    names = model.expert_names_
    new = [f"“{names[k]}”" for k in range(4) if best[k] > own[k]]
    gone = [f"“{names[k]}”" for k in range(4) if best[k] < own[k]]
    told = model.explain(table, row).other
    if new and gone:
        assert told == f"{' and '.join(new)} instead of {' and '.join(gone)}"
    else:
        assert told == (f"with {new[0]} as well" if new else f"without {gone[0]}")


@pytest.mark.parametrize(
    ("n_numbers", "words"),
    [
        (0, "the experts are right about everything observed."),
        (4, "all levels are as the experts say, and numbers within 2 standard deviations."),
        (9, "all numbers within 2 standard deviations of what the experts say."),
    ],
)
def test_numbers_are_near_what_experts_say_and_not_right(n_numbers, words):
    told = Explanation(
        "Row 0", 2, 9, 9, "variables", (), (), 0, (), 3.0, -1.0, "", 0.0, n_numbers=n_numbers
    )
    assert f"Nothing in it is unexpected: {words}" in told.lines()
    assert told.lines()[-1] == (
        "In all its experts describe the row no better than column by column (1.0 bits lost; "
        "naming the experts costs 3.0)."
    )


def test_numbers_of_a_row_are_counted():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"kind": rng.choice(["a", "b"], 60), "size": rng.normal(size=60)})
    X.loc[1, "size"] = np.nan
    model = DynamicPartitionModel(2, random_state=0, max_iter=3).fit(X)
    assert [model.explain(X, row).n_numbers for row in (0, 1)] == [1, 0]
