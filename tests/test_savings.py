"""Saved bits: one code per row, the sum over all codes, and commands that mention it."""

import numpy as np
import pandas as pd
import pytest

from dynpart import DynamicPartitionModel
from dynpart.savings import summed_saving
from dynpart.wording import MANY_BITS, saving_in_words, times_in_words
from tests.cli.test_choices import run


@pytest.fixture(scope="module")
def loose():
    """Columns that depend on each other by less than it costs to name a row's experts."""
    rng = np.random.default_rng(0)
    z = rng.random(200) < 0.5
    columns = {name: np.where(rng.random(200) < 0.75, z, ~z).astype(int) for name in "abc"}
    X = pd.DataFrame(columns)
    return DynamicPartitionModel(3, random_state=0).fit(X), X


def test_codes_of_many_rows_are_summed_on_some_of_them(loose):
    model, X = loose
    rows = pd.concat([X] * 10)
    weights = np.arange(len(rows)) % 3.0
    scores, columns = model.score_samples(rows), model.independent_scores(rows)
    summed = np.average(model.log_density(rows) - columns, weights=weights) / np.log(2)
    saved = np.average(scores - columns, weights=weights) / np.log(2)
    found = summed_saving(model, rows, scores, saved, weights)
    assert saved < summed == pytest.approx(found, abs=0.02)
    assert summed_saving(model, rows, scores, MANY_BITS) is None
    told = model.describe(rows)
    assert told.summed_bits == pytest.approx(-model.log_density(rows).mean() / np.log(2), abs=0.02)


def test_experts_that_cost_more_to_name_than_they_save_may_still_hold(loose):
    """The sum over all codes decides whether anything was found; one code per row does not."""
    model, X = loose
    told = model.describe(X)
    gain = (model.log_density(X) - model.independent_scores(X)).mean() / np.log(2)
    assert told.saved_bits < 0 < gain
    assert told.summed_bits == pytest.approx(-model.log_density(X).mean() / np.log(2))
    sentence = saving_in_words(told.saved_bits, summed=gain)
    assert sentence == told.saving == told.lines()[1]
    assert f"it is {times_in_words(gain)} as likely as column by column" in sentence
    assert model.describe().saving == saving_in_words(told.saved_bits, "training row")


def test_commands_do_not_call_experts_useless_that_hold(loose, tmp_path):
    model, X = loose
    data, out = tmp_path / "t.csv", tmp_path / "m.dynpart"
    X.to_csv(data, index=False)
    saving = model.describe(X).saving
    fit = run("fit", data, "-k", 3, "-o", out, "--valid", data).stderr.splitlines()
    assert fit[-1] == f"{data}: {saving}"
    assert saving.replace("a row", "a training row") in fit
    assert run("score", out, data).stderr.strip().endswith(saving)
    assert saving in run("describe", out, data).stdout
    assert "nothing that holds" not in run("info", out).stdout


def test_every_command_mentions_the_sum_over_codes(tmp_path):
    """Overlapping baskets: many codes explain a row about as well."""
    rng = np.random.default_rng(1)
    baskets = rng.random((5, 12)) < 0.3
    X = ((rng.random((400, 5)) < 0.3) @ baskets) & (rng.random((400, 12)) < 0.7)
    data, out = tmp_path / "t.csv", tmp_path / "m.dynpart"
    pd.DataFrame(X.astype(int), columns=list("abcdefghijkl")).to_csv(data, index=False)
    more = "Over all choices of experts, "
    fit = run("fit", data, "-k", 8, "-o", out).stderr.splitlines()
    (worth,) = (line for line in fit if more in line)
    saving = worth.replace("training row", "row")
    assert run("score", out, data).stderr.strip().endswith(saving)
    assert saving in run("describe", out, data).stdout
    run("report", out, data, "-o", tmp_path / "page.html")
    assert saving in (tmp_path / "page.html").read_text()
    for one in (run("info", out), run("describe", out)):
        assert "one choice of experts" in one.stdout or "better than the experts" in one.stdout
