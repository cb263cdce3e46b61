"""The zoo comes with the package, with names, and as it was published."""

from collections import Counter

import numpy as np

from dynpart.datasets import load_zoo


def test_animals_traits_and_classes_are_the_published_ones():
    zoo = load_zoo()
    assert zoo.data.shape == (101, 16)
    assert zoo.data.dtype == np.uint8
    assert len(zoo.feature_names) == len(set(zoo.feature_names)) == 16
    assert len(zoo.row_names) == len(zoo.classes) == 101
    assert Counter(zoo.classes) == {
        "mammal": 41, "bird": 20, "fish": 13, "invertebrate": 10, "insect": 8, "reptile": 5,
        "amphibian": 4,
    }  # fmt: skip
    legs = zoo.feature_names.index("legs")
    assert set(zoo.data[:, legs]) == {0, 2, 4, 5, 6, 8}
    assert set(np.delete(zoo.data, legs, axis=1).ravel()) == {0, 1}
    feathers = zoo.data[:, zoo.feature_names.index("feathers")] == 1
    assert [kind == "bird" for kind in zoo.classes] == feathers.tolist()


def test_the_frame_has_names_and_kinds():
    zoo = load_zoo()
    frame = zoo.frame
    assert frame.loc["platypus", "milk"]
    assert frame.loc["platypus", "eggs"]
    assert frame.loc["spider" if "spider" in frame.index else "scorpion", "legs"] == 8
    assert [name for name in frame if frame[name].dtype != bool] == ["legs"]
    assert set(zoo.kinds) <= set(frame.columns)
