"""What goes into the page is escaped, complete and no larger than it has to be."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynpart import DynamicPartitionModel
from dynpart.datasets import make_pairs
from dynpart.explorer import report_html, write_report
from dynpart.explorer._pack import _chosen
from dynpart.explorer._page import embedded


@pytest.fixture(scope="module")
def pairs():
    X = make_pairs(3)
    return DynamicPartitionModel(6, max_iter=5, random_state=0).fit(X), X


@given(st.recursive(st.text() | st.integers() | st.none(), st.lists, max_leaves=5))
def test_embedded_json_cannot_leave_its_element(value):
    text = embedded({"value": value})
    assert not set(text) & set("<>&\u2028\u2029")
    assert json.loads(text) == {"value": value}


def test_the_page_holds_only_its_own_scripts(pairs):
    model, X = pairs
    name = "</script><script>alert(1)</script>"
    page = report_html(model, X, names=[f"{name}{i}" for i in range(6)], title=name)
    assert page.count("<script") == 2
    assert name not in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")


def test_the_same_input_gives_the_same_page(pairs):
    model, X = pairs
    assert report_html(model, X) == report_html(model, X)


def test_the_page_knows_the_tails_of_numbers():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(50, 3, 60), "b": rng.integers(0, 2, 60)})
    model = DynamicPartitionModel(2, max_iter=3, random_state=0).fit(frame)
    data = json.loads(report_html(model, frame).split('id="data">')[1].split("</script>")[0])
    assert data["tails"][1] is None
    mean = frame.to_numpy().mean(axis=0)[None]
    assert data["tails"][0] == pytest.approx(model.family_.least_log_density(mean)[0, 0])


def test_few_samples_are_drawn_from_all_rows(pairs):
    model, X = pairs
    page = report_html(model, X, n_samples=3)
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    assert data["rows"] == len(X)
    assert {0, 7} <= set(data["sampleRows"])
    assert len(data["sampleRows"]) <= 3
    assert sum(data["usage"]) == model.transform(X).sum()


@given(st.integers(1, 300), st.integers(1, 300), st.lists(st.integers(0, 299), unique=True))
def test_rows_to_show_are_in_order_even_and_among_them_those_that_are_named(n, most, named):
    named = [row for row in named if row < n]
    rows = _chosen(n, most, 1.0, named)
    assert len(rows) <= min(n, most)
    assert (np.diff(rows) > 0).all()
    if most >= n:
        assert list(rows) == list(range(n))
    else:
        assert set(named[: most // 2]) <= set(rows)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"names": ["a"]}, "names must have one entry per variable"),
        ({"labels": ["a"]}, "labels must have one entry per row"),
        ({"image_shape": (5, 5)}, "image_shape"),
        ({"n_samples": 0}, "n_samples"),
    ],
)
def test_what_does_not_fit_is_named(pairs, options, message):
    model, X = pairs
    with pytest.raises(ValueError, match=message):
        report_html(model, X, **options)


def test_one_expert_one_row_and_one_variable_are_enough():
    X = np.array([[0], [1]], dtype=np.uint8)
    model = DynamicPartitionModel(1, max_iter=2, random_state=0).fit(X)
    assert report_html(model, X[:1]).startswith("<!doctype html>")


def test_reports_are_not_overwritten_unasked(pairs, tmp_path):
    model, X = pairs
    path = tmp_path / "r.html"
    n_bytes = write_report(model, X, path)
    assert path.stat().st_size == n_bytes
    with pytest.raises(FileExistsError):
        write_report(model, X, path)
    write_report(model, X, path, overwrite=True)


def test_judgements_travel_as_the_model_keeps_them(pairs):
    from dynpart.selection import Selection, TriedSize
    from dynpart.stability import LEGEND, Stability

    model, X = pairs
    data = content(report_html(model, X))
    assert data["selection"] is data["stability"] is None
    assert data["savedBits"] == pytest.approx(model.baseline_.saved_bits, abs=1e-4)
    tried = (TriedSize(2, -8.0, 0.3, 1.0), TriedSize(6, -5.0, 0.0, 1.5))
    twin = pickle.loads(pickle.dumps(model))
    twin.selection_ = Selection(6, tried, -9.0, None, 80, 20, 12, 1)
    twin.stability_ = Stability(4, (4, 4, 3, 2, 1, 0), (0.9,) * 6, (), ())
    data = content(report_html(twin, X))
    assert data["selection"]["sizes"] == [2, 6]
    np.testing.assert_allclose(data["selection"]["bits"], np.array([8, 5]) / np.log(2), atol=1e-4)
    assert data["selection"]["mixture"] is None
    assert data["stability"]["marks"] == [twin.stability_.mark(k) for k in range(6)]
    assert data["stability"]["words"] == [twin.stability_.words(k) for k in range(6)]
    assert data["stability"]["legend"] == LEGEND


def content(page):
    return json.loads(page.split('id="data">')[1].split("</script>")[0])
