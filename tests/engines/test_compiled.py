"""Kernels run wherever they are: without a cache, with a damaged one, on a full disk."""

import gc
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba.core.errors import TypingError

import dynpart
from dynpart.compiled import COMPILING, compiled, part, source_stamp
from dynpart.engines._cpu_pursuit import count_active
from dynpart.engines._cpu_refine import copy_code

SMALL = """
import numpy as np
from dynpart.learning._expansion import expand
print("imported", flush=True)
indptr, indices = np.array([0, 1, 2], dtype=np.int32), np.array([1, 0], dtype=np.int32)
for _ in range(2):
    found = expand(indptr, indices, np.ones(2), np.array([1.0, 1.0]), np.eye(2))
assert (found == np.ones((2, 2))).all(), found
print("hits", sum(expand.stats.cache_hits.values()))
"""

FIT = """
import numpy as np
from dynpart import DynamicPartitionModel
from dynpart.datasets import make_pairs
model = DynamicPartitionModel(4, max_iter=4, random_state=0).fit(make_pairs(2))
print(model.transform(make_pairs(2)).sum())
"""


BARE = """
import numpy as np
from dynpart.bare import BareModel
rows = np.random.default_rng(0).integers(0, 2, (120, 6)).astype(float)
print(BareModel(3, max_iter=4, random_state=0).fit(rows).transform(rows).sum())
"""

AHEAD = """
import numpy as np
from dynpart import ahead
from dynpart.compiled import kernel_for
from dynpart.learning._expansion import expand
from dynpart.prior._kernels import heaviest_forests
ahead.can_start = lambda: True
indptr, indices = np.array([0, 1, 2], dtype=np.int32), np.array([1, 0], dtype=np.int32)
arguments = indptr, indices, np.ones(2), np.array([1.0, 1.0]), np.eye(2)
with ahead.expecting(lambda: [kernel_for(expand, *arguments)]):
    heaviest_forests(np.ones((1, 3)), np.zeros((1, 2), np.int64))
    ahead._companion._feeder.join(120)
    found = expand(*arguments)
assert (found == np.ones((2, 2))).all(), found
print("hits", sum(expand.stats.cache_hits.values()))
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of the package in which no cache can be written, whoever we are."""
    target = tmp_path_factory.mktemp("site")
    source = Path(dynpart.__file__).parent
    shutil.copytree(source, target / "dynpart", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("engines", "learning", "baselines"):
        (target / "dynpart" / folder / "__pycache__").write_text("not a folder")
    return target


@pytest.fixture(scope="module")
def filled(package, tmp_path_factory):
    """A cache that holds the code of one function."""
    cache = tmp_path_factory.mktemp("cache")
    out, err = run(SMALL, package, NUMBA_CACHE_DIR=str(cache))
    assert (out, err) == ("imported\nhits 0\n", "")
    return cache


def run(program, package, **environment):
    """A process without a home, a cache or any other place to write to."""
    lost = {"NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME", "NUMBA_DISABLE_JIT"}
    kept = {name: value for name, value in os.environ.items() if name not in lost}
    nowhere = {"HOME": "/dev/null", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(package)}
    done = subprocess.run(
        [sys.executable, "-W", "always::RuntimeWarning", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={**kept, **nowhere, **environment},
        cwd=package,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.mark.parametrize("folder", [None, pytest.param("/dev/null/cache", marks=pytest.mark.slow)])
def test_without_a_cache_it_runs_and_says_once_what_that_costs(package, folder):
    out, err = run(SMALL, package, **({} if folder is None else {"NUMBA_CACHE_DIR": folder}))
    assert out == "imported\nhits 0\n"
    assert len(err.splitlines()) == 1
    assert "compiled anew in every process" in err
    assert "NUMBA_CACHE_DIR" in err


@pytest.mark.slow
def test_a_changed_module_makes_its_code_anew(package, filled, tmp_path):
    cache = shutil.copytree(filled, tmp_path / "cache")
    assert run(SMALL, package, NUMBA_CACHE_DIR=str(cache))[0] == "imported\nhits 1\n"
    module = package / "dynpart" / "learning" / "_expansion.py"
    written = module.read_text()
    module.write_text(f"{written}\n# changed\n")
    assert run(SMALL, package, NUMBA_CACHE_DIR=str(cache))[0] == "imported\nhits 0\n"
    assert run(SMALL, package, NUMBA_CACHE_DIR=str(cache))[0] == "imported\nhits 1\n"
    module.write_text(written)


@pytest.mark.parametrize(
    ("imports", "matters"),
    [
        ("from dynpart.engines._other import x", True),
        ("from dynpart.engines import _other", True),
        ("from dynpart.engines import (\n    _other,\n)", True),
        ("import dynpart.engines._other", True),
        ("from dynpart.engines._between import y", True),
        ("from dynpart.engines._third import z", False),
        ("import numpy", False),
    ],
)
def test_code_is_as_old_as_what_its_module_imports(tmp_path, imports, matters):
    (tmp_path / "_between.py").write_text("from dynpart.engines._other import x as y\n")
    (tmp_path / "_third.py").write_text("z = 1\n")
    module, other = tmp_path / "_kernel.py", tmp_path / "_other.py"
    module.write_text(f"{imports}\n")
    stamps = []
    for content in ("x = 1\n", "x = 2\n"):
        other.write_text(content)
        source_stamp.cache_clear()
        stamps.append(source_stamp(module))
    assert (stamps[0] != stamps[1]) == matters


def test_a_copy_of_the_same_source_needs_no_new_code(tmp_path):
    module = tmp_path / "_kernel.py"
    module.write_text("x = 1\n")
    before = source_stamp(module)
    os.utime(module, (1, 1))
    source_stamp.cache_clear()
    assert source_stamp(module) == before


@pytest.mark.slow
@pytest.mark.parametrize("wanted", [True, False])
def test_compiling_is_announced_to_those_who_listen(package, tmp_path, wanted):
    program = f"from dynpart import notices\nnotices.enable_messages({wanted})\n" + SMALL
    cache = str(tmp_path / "cache")
    first, second = (run(program, package, NUMBA_CACHE_DIR=cache)[1] for _ in range(2))
    assert first == (f"{COMPILING}\n" if wanted else "")
    assert second == ""


@pytest.mark.slow
def test_a_second_process_leaves_its_code_in_the_cache(package, tmp_path):
    out, err = run(AHEAD, package, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert (out, err) == ("hits 1\n", "")


@pytest.mark.slow
def test_a_small_fit_of_discrete_columns_imports_no_linear_algebra(package, tmp_path):
    heavy = ("numba.np.linalg", "numba.np.arraymath", "scipy.linalg", "scipy.special")
    program = f"{BARE}import sys; print([name for name in {heavy!r} if name in sys.modules])\n"
    cache = str(tmp_path / "cache")
    (first, _), (second, _) = (run(program, package, NUMBA_CACHE_DIR=cache) for _ in range(2))
    assert first.splitlines()[0] == second.splitlines()[0]
    assert second.splitlines()[1] == "[]"


def test_code_of_an_earlier_process_needs_no_compiler(package, filled):
    """Numba alone would import all it can compile, and SciPy's linear algebra with it."""
    heavy = ("numba.np.linalg", "numba.np.arraymath", "scipy.linalg")
    program = f"{SMALL}import sys; print([name for name in {heavy!r} if name in sys.modules])\n"
    out, err = run(program, package, NUMBA_CACHE_DIR=str(filled))
    assert (out, err) == ("imported\nhits 1\n[]\n", "")


@pytest.mark.parametrize("collects", [True, False])
def test_compiling_leaves_the_garbage_collector_as_it_was(collects):
    @compiled
    def refused(value):
        return value.no_such_attribute

    before = gc.isenabled()
    try:
        gc.enable() if collects else gc.disable()
        with pytest.raises(TypingError):
            refused(1.0)
        assert gc.isenabled() == collects
    finally:
        gc.enable() if before else gc.disable()


def test_parts_run_in_python_as_they_stand():
    """Called from Python a part is the function that was written, and NumPy's arrays change."""
    code, other = np.array([3, 1, -1]), np.empty(3, np.int64)
    assert count_active(code) == 2
    copy_code(other, code, 2)
    assert other[:2].tolist() == [3, 1]


def test_a_part_is_compiled_with_those_that_call_it():
    @compiled
    def twice(values, factor):
        return _doubled(values) * factor

    assert twice(np.array([1.0, 2.0]), 3) == 18.0
    kept = sum(twice.stats.cache_hits.values())  # by an earlier run of this test
    assert kept or _doubled.signatures, "typed for the caller"
    assert _doubled(np.array([2.0])) == 4.0


@part
def _doubled(values):
    total = 0.0
    for value in values:
        total += 2 * value
    return total


def test_nothing_is_said_by_importing(package):
    _, err = run("import dynpart.estimator, dynpart.engines.cpu, dynpart.baselines", package)
    assert err == ""


def test_a_folder_for_the_cache_is_used_and_nothing_is_said(package, filled):
    out, err = run(SMALL, package, NUMBA_CACHE_DIR=str(filled))
    assert (out, err) == ("imported\nhits 1\n", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suffix", "damage"),
    [
        (".nbi", "half"),
        (".nbc", "garbage"),
        pytest.param(".nbi", "garbage", marks=pytest.mark.slow),
        pytest.param(".nbc", "half", marks=pytest.mark.slow),
        pytest.param(".nbc", "", marks=pytest.mark.slow),
    ],
)
def test_a_damaged_cache_is_made_anew(package, filled, tmp_path, suffix, damage):
    cache = tmp_path / "cache"
    shutil.copytree(filled, cache)
    (file,) = cache.rglob(f"*{suffix}")
    content = file.read_bytes()
    damaged = {"half": content[: len(content) // 2], "garbage": b"\x80\xff" * 99, "": b""}
    file.write_bytes(damaged[damage])
    for hits in (0, 1):
        out, err = run(SMALL, package, NUMBA_CACHE_DIR=str(cache))
        assert (out, err) == (f"imported\nhits {hits}\n", "")


@pytest.mark.slow
def test_a_damaged_cache_that_cannot_be_mended_is_done_without(package, filled, tmp_path):
    cache = tmp_path / "cache"
    shutil.copytree(filled, cache)
    (file,) = cache.rglob("*.nbi")
    file.unlink()
    file.mkdir()
    out, err = run(SMALL, package, NUMBA_CACHE_DIR=str(cache))
    assert out == "imported\nhits 0\n"
    assert len(err.splitlines()) == 1
    assert "cannot write its cache" in err


@pytest.mark.slow
def test_a_full_disk_costs_the_cache_and_nothing_else(package, tmp_path):
    full = """
import resource, signal
import dynpart.learning._connectivity
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
"""
    out, err = run(full + SMALL, package, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert out == "imported\nhits 0\n"
    assert len(err.splitlines()) == 1
    assert "cannot write its cache" in err
    assert not list((tmp_path / "cache").rglob("*.tmp.*"))
    out, err = run(SMALL, package, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert (out, err) == ("imported\nhits 0\n", "")  # there is room again


def test_no_space_is_said_once_for_all_functions(monkeypatch, recwarn):
    from numba.core.caching import FunctionCache

    from dynpart import compiled

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FunctionCache, "save_overload", full)
    monkeypatch.setattr(compiled, "_said", set())
    for number in (1, 2):

        @compiled.compiled
        def add(x, number=number):
            return x + number

        assert add(1) == 1 + number
    said = [str(warning.message) for warning in recwarn]
    assert len(said) == 1
    assert "No space left on device" in said[0]


@pytest.mark.slow
def test_without_compilation_the_reference_engine_steps_in(package):
    off = {"NUMBA_DISABLE_JIT": "1"}
    out, err = run(FIT, package, **off)
    assert int(out) > 0
    assert sum("NUMBA_DISABLE_JIT" in line for line in err.splitlines()) == 1
    _, err = run(FIT.replace("4, max", "4, engine='reference', max"), package, **off)
    assert "NUMBA_DISABLE_JIT" not in err
    refused = """
from dynpart.engines import make_engine
try:
    make_engine("cpu")
except ImportError as error:
    print(error)
"""
    out, err = run(refused, package, **off)
    assert "engine='reference'" in out
    assert len(out.splitlines()) == 1
    assert err == ""


@pytest.mark.slow
def test_a_whole_fit_runs_without_a_cache(package):
    out, err = run(FIT, package)
    assert int(out) > 0
    assert sum("compiled anew" in line for line in err.splitlines()) == 1


def test_nobody_at_home_leaves_no_folder_behind(package):
    """Where neither the environment nor an account tells a home, "~" is not a name for one."""
    homeless = "import os\nos.environ.pop('HOME')\nos.path.expanduser = lambda path: path\n"
    out, err = run(homeless + SMALL, package)
    assert sorted(path.name for path in package.iterdir()) == ["dynpart"]
    assert out == "imported\nhits 0\n"
    assert len(err.splitlines()) == 1
