"""The model of commands: what the estimator computes, without the libraries it does not need."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils import check_array, check_random_state

import dynpart
from dynpart import DynamicPartitionModel, load
from dynpart.bare import BareModel, load_bare
from dynpart.cli import app
from dynpart.datasets import make_pairs, write_zoo
from dynpart.validation import DTYPES, checked_array, random_generator
from tests.effort import examples

HEAVY = ("sklearn", "pandas", "matplotlib", "scipy.stats", "scipy.sparse", "joblib", "torch")


COMMANDS = (
    "encode zoo.model zoo.csv",
    "encode bits.model bits.csv -o codes.csv --force",
    "score zoo.model zoo.csv --top 3",
    "explain zoo.model zoo.csv --row 3",
    "describe zoo.model",
    "describe zoo.model zoo.csv",
    "reconstruct zoo.model zoo.csv",
    "impute bits.model bits.csv",
    "sample zoo.model --rows 3",
    "rename bits.model 1=mine",
    "report bits.model bits.csv --force",
)
FITS = tuple(
    f"fit {name}.csv -o {name}.model -k 4 --iterations 3 --force" for name in ("zoo", "bits")
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table with texts, one of bits of which one is missing, models of them, and kernels."""
    folder = tmp_path_factory.mktemp("zoo")
    write_zoo(folder / "zoo.csv")
    rows = [line.split(",")[1:-2] for line in (folder / "zoo.csv").read_text().splitlines()]
    rows[1][0] = ""
    (folder / "bits.csv").write_text("\n".join(map(",".join, rows)) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for command in FITS + COMMANDS:  # compiles what is not compiled yet
            app(command.split(), standalone_mode=False)
    return folder


def imported(folder, commands):
    """What a process that runs these commands has imported of what is heavy, after each."""
    program = f"""
import json, sys
from dynpart.cli import app
told = []
for command in {commands!r}:
    app(command.split(), standalone_mode=False)
    told.append([name for name in {HEAVY!r} if name in sys.modules])
print(json.dumps(told))
"""
    environment = os.environ | {"PYTHONPATH": str(Path(dynpart.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(commands, json.loads(done.stdout.splitlines()[-1]), strict=True))


@pytest.mark.parametrize("commands", [COMMANDS, FITS], ids=["of fitted models", "that fit"])
def test_commands_need_no_heavy_library(folder, commands):
    """But for what a report needs to group experts, which is SciPy's."""
    found = imported(folder, commands)
    assert set(found.pop(COMMANDS[-1], [])) <= {"scipy.sparse"}
    assert not any(found.values()), found


# ------------------------------------------------------------------ the same model


def test_parameters_are_those_of_the_estimator():
    ours, theirs = BareModel().get_params(), DynamicPartitionModel().get_params()
    assert list(ours.items()) == list(theirs.items())
    assert BareModel(3, n_swaps=0).set_params(prune=True).get_params() == (
        DynamicPartitionModel(3, n_swaps=0, prune=True).get_params()
    )


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.filterwarnings("ignore:independent columns describe")
def test_it_learns_and_answers_as_the_estimator(real, tmp_path):
    X = make_pairs(4, 60, random_state=0)
    X = X + np.random.default_rng(0).normal(size=X.shape) if real else X
    ours = BareModel(4, max_iter=4, random_state=0).fit(X)
    theirs = DynamicPartitionModel(4, max_iter=4, random_state=0).fit(X)
    ours.save(tmp_path / "ours")
    theirs.save(tmp_path / "theirs")
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    for model in (load_bare(tmp_path / "theirs"), load(tmp_path / "ours")):
        np.testing.assert_array_equal(model.transform(X), theirs.transform(X))
        np.testing.assert_array_equal(model.score_samples(X), theirs.score_samples(X))
        np.testing.assert_array_equal(model.sample(3, 0), theirs.sample(3, 0))


@pytest.mark.parametrize("wrong", [[1.0, 2.0], np.empty((0, 3)), np.empty((3, 0))])
def test_what_is_no_table_is_refused_as_by_the_estimator(wrong):
    X = make_pairs(3)
    answers = []
    for kind in (BareModel, DynamicPartitionModel):
        model = kind(2, max_iter=1, random_state=0).fit(X)
        with pytest.raises(ValueError, match=r"Expected 2D|Found array with 0") as error:
            model.transform(wrong)
        answers.append(str(error.value).replace(" by DynamicPartitionModel", ""))
    assert answers[0] == answers[1]


def test_rows_of_another_width_are_refused():
    X = make_pairs(3)
    with pytest.raises(ValueError, match="X has 2 features, but the model expects 6"):
        BareModel(6, random_state=0).fit(X).transform(X[:, :2])


def test_data_frames_are_left_to_the_estimator():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(TypeError, match="found a DataFrame: data frames are for Dynamic"):
        BareModel(2).fit(pandas.DataFrame(make_pairs(2)))


# ------------------------------------------------------------------ what scikit-learn checks

KINDS = ("bool", "uint8", "int8", "int64", "float16", "float32", "float64", "longdouble", ">f8")


def told(check, X, **wanted):
    """What a check returns, and what it says where it refuses."""
    try:
        return check(X, **wanted), ""
    except ValueError as error:
        return None, str(error)


@given(
    st.sampled_from(KINDS),
    st.sampled_from([DTYPES, "numeric", None]),
    st.sampled_from(["C", "F", None]),
    st.booleans(),
    st.sampled_from([1.0, np.nan, np.inf]),
    st.sampled_from([(3, 2), (0, 2), (2, 0), (3,), (2, 1, 1)]),
    st.sampled_from([np.array, np.asfortranarray, list, lambda X: X[::-1]]),
)
@examples(200)
def test_arrays_are_checked_as_scikit_learn_does(kind, dtype, order, finite, value, shape, made):
    X = np.ones(shape, dtype="float64")
    X.reshape(-1)[:1] = value
    if np.dtype(kind).kind in "bui":
        X = np.nan_to_num(X, nan=0, posinf=1)
    X = made(X.astype(kind))
    wanted = {"dtype": dtype, "order": order, "ensure_all_finite": finite}
    expected, refused = told(check_array, X, **wanted)
    found, ours = told(checked_array, X, **wanted)
    assert ours == refused
    if refused:
        return
    assert type(found) is np.ndarray
    assert found.dtype == expected.dtype
    assert found.flags.c_contiguous == expected.flags.c_contiguous
    assert found.flags.f_contiguous == expected.flags.f_contiguous
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("seed", [0, np.int64(7), 2**32 - 1])
def test_seeds_give_the_generators_of_scikit_learn(seed):
    assert random_generator(seed).randint(2**31) == check_random_state(seed).randint(2**31)


def test_generators_are_taken_as_they_are_and_others_refused():
    rng = np.random.RandomState(0)
    assert random_generator(rng) is rng
    assert random_generator(None) is check_random_state(None)
    with pytest.raises(ValueError, match="cannot be used to seed"):
        random_generator("seed")
