"""Files in which version 0.1 called entries by other names load as if it had not."""

import dataclasses

import numpy as np
import pytest

from dynpart import DynamicPartitionModel
from dynpart.learning import Annealed
from dynpart.persistence import load, save
from dynpart.storage._container import read_container
from tests.persistence.conftest import PAIRS, reseal

EARLIER = {
    "min_active": "floor", "trials": "contenders", "shrink": "doubt", "shrinkage": "doubt",
    "candidates": "runners",
}  # fmt: skip
SIZES = {"n_experts": 4, "max_iter": 6, "random_state": 0}


def with_earlier_names(entry, inside=()):
    """The entry as version 0.1 would have written it: a step has always had its `min_active`."""
    if isinstance(entry, list):
        return [with_earlier_names(each, inside) for each in entry]
    if not isinstance(entry, dict):
        return entry
    names = {} if inside[-1:] == ("step",) else {"min_active": "floor"}
    names = {name: EARLIER[name] for name in EARLIER if name != "min_active"} | names
    return {
        names.get(name, name): with_earlier_names(value, (*inside, name))
        for name, value in entry.items()
    }


@pytest.fixture(params=["fit", "partial_fit", "plan"])
def model(request):
    learning = Annealed(min_active=2) if request.param == "plan" else "annealed"
    model = DynamicPartitionModel(**SIZES, learning=learning)
    return model.partial_fit(PAIRS) if request.param == "partial_fit" else model.fit(PAIRS)


def test_earlier_names_in_a_file_are_read(model, tmp_path):
    path = tmp_path / "m.dynpart"
    save(model, path)
    content = read_container(path)
    earlier = with_earlier_names(content.meta)
    assert earlier != content.meta
    reseal(path, earlier, content.arrays)
    again = load(path)
    assert again.history_ == model.history_
    assert again.get_params() == model.get_params()
    assert getattr(again, "adaptation_", None) == getattr(model, "adaptation_", None)
    if model._stream is not None:
        tried, expected = again._stream.candidates, model._stream.candidates
        assert [each.min_active for each in tried] == [each.min_active for each in expected]
    more, expected = again.partial_fit(PAIRS), model.partial_fit(PAIRS)
    np.testing.assert_array_equal(more.means_, expected.means_)
    assert [dataclasses.asdict(record) for record in more.history_] == [
        dataclasses.asdict(record) for record in expected.history_
    ]
