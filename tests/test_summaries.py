"""Types of rows in words: their experts, and how often these are active."""

import numpy as np

from dynpart.summaries import RowTypeSummary, types_in_words


def test_types_after_the_tenth_are_told_together():
    shares = np.arange(14, 0, -1) / 105
    types = [
        RowTypeSummary(float(share), (k,), (f"x{k}",), (1.0,)) for k, share in enumerate(shares)
    ]
    lines = types_in_words(types)
    assert len(lines) == 11
    assert lines[0] == " 13%  x0"
    assert lines[-1] == f"{sum(shares[10:]):.1%}  4 other types"
    assert types_in_words(types[:10]) == lines[:10]
    assert types_in_words(types[:11])[-1].endswith("  1 other type")


def test_a_type_says_how_many_of_its_rows_have_an_expert():
    """One that is active in most but not nearly all rows of a type must not be read as certain."""
    kind = RowTypeSummary(0.61, (4, 2), ("hair: no", "tail"), (0.69, 0.97))
    assert types_in_words([kind]) == [" 61%  hair: no (in 69% of them) + tail"]
    assert types_in_words([RowTypeSummary(1.0, (), (), ())]) == ["100%  no expert in particular"]
