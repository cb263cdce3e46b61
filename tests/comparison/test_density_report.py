"""The report on densities: tables, findings and the document agree with the results."""

import re
from dataclasses import replace

import pytest

from dynpart.comparison.density_models import DENSITY_MODELS, OURS_CHOSEN, OURS_GIVEN
from dynpart.comparison.density_report import (
    OURS,
    SHORT,
    density_findings,
    density_tables,
    write_density_document,
)
from dynpart.comparison.density_runs import DensityResult
from dynpart.comparison.density_sets import DENSITY_SETS

MORE = {
    "mixture-chosen": {"components": 30.0, "smoothing": 0.5},
    OURS_CHOSEN: {"code_nats": -7.31, "experts": 12.0, "active": 3.25},
    OURS_GIVEN: {"code_nats": -7.23, "experts": 30.0, "active": 4.75},
}


def results_of(data, **nats):
    """Results of one set, underscores standing for hyphens."""
    return [
        DensityResult(data, model, 0, 16, 16181, 2157, 3236, 1.25, {"nats": value} | more)
        for name, value in nats.items()
        for model in [name.replace("_", "-")]
        for more in [MORE.get(model, {})]
    ]


@pytest.fixture
def results():
    """Ours ahead of all but circuits on NLTCS, and behind the tree on Accidents."""
    return [
        *results_of(
            "accidents",
            independent_columns=-45.0,
            chow_liu=-33.19,
            mixture_chosen=-36.5,
            dynamic_auto=-35.2,
            dynamic_30=-35.204,
        ),
        *results_of(
            "nltcs",
            independent_columns=-9.23,
            chow_liu=-6.76,
            mixture_chosen=-6.04,
            dynamic_auto=-6.03,
            dynamic_30=-6.05,
        ),
    ]


def test_every_model_has_a_heading_and_every_one_of_ours_a_name():
    assert list(SHORT) == list(DENSITY_MODELS)
    assert list(OURS) == [name for name in DENSITY_MODELS if name.startswith("dynamic")]


def test_tables_have_a_line_per_set_in_the_order_of_sets(results):
    nats, ours, sizes, seconds = density_tables(results)
    for _, headings, lines in (nats, ours, sizes, seconds):
        assert [line[0] for line in lines] == ["NLTCS", "Accidents"]
        assert all(len(line) == len(headings) for line in lines)
    assert nats[2][0] == ["NLTCS", "-9.23", "-6.76", "-6.04", "-6.03", "-6.05", "-6.00"]
    assert ours[2][0] == ["NLTCS", "12", "3.2", "-7.31", "4.8", "-7.23"]
    assert sizes[2][0] == ["NLTCS", "16", "16,181", "2,157", "3,236", "30", "0.5"]
    assert seconds[2][0] == ["NLTCS"] + ["1.2"] * 5


def test_several_seeds_are_a_mean_and_a_spread(results):
    again = [
        replace(r, seed=1, scores=r.scores | {"nats": r.scores["nats"] - 0.2})
        for r in results
        if r.model == OURS_CHOSEN
    ]
    _, headings, [line, _] = density_tables([*results, *again])[0]
    assert line[headings.index("dynpart, chosen")] == "-6.13 ± 0.14"
    assert line[headings.index("tree")] == "-6.76"


def test_models_that_did_not_take_part_have_no_column_and_no_sentence():
    found = results_of("nltcs", chow_liu=-6.76)
    tables = density_tables(found)
    assert tables[0][1:] == (["set", "tree", "HCLT, published"], [["NLTCS", "-6.76", "-6.00"]])
    assert "Ours in detail" not in [title for title, _, _ in tables]
    assert density_findings(found) == []


def test_findings_count_sets_and_say_where_ours_is_behind_and_how_far(results):
    said = " ".join(density_findings(results))
    mine = "Dynpart with the number of experts chosen is ahead of"
    assert f"{mine} independent columns on 2 of 2 sets; **behind** on none." in said
    assert (
        f"{mine} the Chow-Liu tree on 1 of 2 sets; **behind** on 1: Accidents by 2.01 (-35.20 "
        "against -33.19)." in said
    )
    assert f"{mine} the mixture of the best size on 2 of 2 sets" in said
    assert (
        f"{mine} the published circuits on 0 of 2 sets; **behind** on 2: Accidents by 8.46 (-35.20 "
        "against -26.74), NLTCS by 0.03 (-6.03 against -6.00)." in said
    )
    # What looks equal in the table is level.
    assert f"{mine} dynpart with 30 experts on 1 of 2 sets and level on 1; **behind**" in said
    assert "Dynpart with 30 experts is ahead of the mixture of the best size on 1 of 2 sets" in said


def test_findings_tell_what_nearby_codes_add():
    found = results_of("nltcs", dynamic_auto=-6.31) + results_of("kdd", dynamic_auto=-5.31)
    assert density_findings(found)[-1] == (
        "For dynpart with the number of experts chosen, nearby codes add from 1.00 nats (NLTCS) to "
        "2.00 (KDD) to the chosen code alone."
    )


def test_findings_say_where_a_larger_mixture_was_not_tried(results):
    assert "largest" not in " ".join(density_findings(results))
    more = [
        replace(r, scores=r.scores | {"components": 100.0})
        if (r.data, r.model) == ("nltcs", "mixture-chosen")
        else r
        for r in results
    ]
    said = density_findings(more)[-1]
    assert said.startswith("Mixtures of 100 components, the largest tried")
    assert "were chosen on NLTCS; larger" in said


def test_the_document_holds_tables_and_findings_and_nothing_else_in_numbers(results, tmp_path):
    page = tmp_path / "docs" / "density.md"
    write_density_document(page, results, note="Measured with 12 cores.")
    text = page.read_text()
    assert text.startswith("# Densities of binary tables\n")
    assert "**Note on these results.** Measured with 12 cores." in text
    assert max(map(len, text.splitlines())) <= 100
    for _, headings, lines in density_tables(results):
        for line in [headings, *lines]:
            assert "| " + " | ".join(line) + " |" in text
    unwrapped = re.sub(r"\n  ", " ", text)
    for sentence in density_findings(results):
        assert f"- {sentence}\n" in unwrapped
    told = " ".join([*density_findings(results), str(density_tables(results))])
    decimals = re.findall(r"\b\d+\.\d\d\b", text)
    assert decimals
    assert set(decimals) <= set(re.findall(r"\b\d+\.\d\d\b", told))


def test_the_document_says_how_to_repeat_it(results, tmp_path):
    page = tmp_path / "density.md"
    write_density_document(page, results)
    assert "--data density-nltcs --seeds 1\n" in page.read_text()
    every = [r for name in DENSITY_SETS for r in results_of(name, chow_liu=-1.0)]
    write_density_document(page, every)
    assert "```\ndynpart compare --data density --seeds 1\n```" in page.read_text()
    assert page.read_text().count("--data") == 1
