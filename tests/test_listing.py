"""Rows are listed by labels that cannot be confused."""

from dynpart import DynamicPartitionModel
from dynpart.datasets import make_pairs
from dynpart.listing import listed_labels


def test_rows_with_an_empty_label_are_called_by_their_number():
    X = make_pairs(2)
    model = DynamicPartitionModel(4, random_state=0).fit(X)
    labels = ["", " ", *(f"site {n}" for n in range(2, len(X)))]
    typical = {label for one in model.describe(X, labels=labels).experts for label in one.typical}
    assert {"row 0", "row 1", "site 2"} <= typical
    assert model.explain(X, 1, label=" ").lines()[0].startswith("Row 1:")


def test_labels_with_commas_stay_apart():
    assert listed_labels(("Peru", "Cuba")) == "Peru, Cuba"
    assert listed_labels(("Bahamas, The", "Cuba")) == "Bahamas, The; Cuba"
