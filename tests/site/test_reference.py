"""The reference lists everything public: no name is forgotten when one is added."""

import inspect
import itertools
import re
from importlib import import_module
from pathlib import Path

import pytest

from dynpart import DynamicPartitionModel
from dynpart.datasets import make_pairs

PAGES = Path(__file__).parents[2] / "docs" / "api"
CONSTANTS = {"KINDS", "SURE", "__version__"}
MODULES = ["", "baselines", "datasets", "explorer", "families", "plotting", "streaming"]


@pytest.mark.skipif(not PAGES.exists(), reason="the pages are not part of this distribution")
@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_is_in_the_reference(name):
    listed = set()
    for page in PAGES.glob("*.md"):
        listed.update(line.strip() for line in page.read_text().splitlines())
    module = import_module(f"dynpart.{name}".rstrip("."))
    missing = set(module.__all__) - listed - CONSTANTS
    assert not missing, f"docs/api leaves out {sorted(missing)} of {module.__name__}"


# ------------------------------------------------------------------ parameters

ENTRY = re.compile(r"^([\w*]+(?:, [\w*]+)*) : (.+)$")
SECTIONS = ("Parameters", "Attributes", "Returns")


def entries(item):
    """Entries of the docstring of a class or function: section, first line, and the line below."""
    section, lines = "", [*(inspect.getdoc(item) or "").splitlines(), ""]
    for line, below in itertools.pairwise(lines):
        section = line if below.startswith("---") else section
        if section in SECTIONS and line != section and re.match(r"[^\s-]", line):
            yield section, line, below


def documented(item):
    """Parameters, or attributes, in the docstring of a class or function, with their types."""
    found = {}
    for section, line, _ in entries(item):
        entry = ENTRY.match(line)
        if entry and section != "Returns":
            found |= dict.fromkeys(entry[1].replace("*", "").split(", "), entry[2])
    return found


def methods(kind):
    """Methods of a class that are ours, also those of the class itself, and no properties."""
    for name, method in inspect.getmembers(kind, inspect.isroutine):
        if not name.startswith("_") and (method.__module__ or "").startswith("dynpart."):
            yield f"{kind.__name__}.{name}", method


def properties(kind):
    """Functions behind the properties of a class that are ours and are shown."""
    for base in kind.__mro__:
        for name, item in vars(base).items():
            function = getattr(item, "fget", None) or getattr(item, "func", None)
            ours = (getattr(function, "__module__", None) or "").startswith("dynpart.")
            if ours and not name.startswith("_") and inspect.getdoc(function):
                yield f"{kind.__name__}.{name}", function


def in_the_reference():
    """Functions and classes of the reference, and methods of estimators."""
    module = None
    for page in sorted(PAGES.glob("*.md")):
        for line in page.read_text(encoding="utf-8").splitlines():
            if line.startswith(".. currentmodule::"):
                module = import_module(line.split()[-1])
            elif re.fullmatch(r"   \w+", line):
                item = getattr(module, line.strip())
                if inspect.isclass(item) and issubclass(item, Exception):
                    continue
                yield line.strip(), item
                if hasattr(item, "fit"):
                    yield from methods(item)


ITEMS = [pytest.param(item, id=name) for name, item in in_the_reference()]


@pytest.mark.parametrize("item", ITEMS)
def test_every_parameter_is_documented_with_its_default(item):
    known = documented(item)
    for name, parameter in inspect.signature(item).parameters.items():
        if name == "self" or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        assert name in known, f"{name} is not documented"
        if parameter.default is parameter.empty or known[name] == "Ignored":
            assert "default" not in known[name]
        elif "Attributes" not in inspect.getdoc(item) or "Parameters" in inspect.getdoc(item):
            stated = known[name].partition("default=")[2]
            assert stated, f"the default of {name} is not stated"
            assert eval(stated, {}) == parameter.default, f"{name} has another default"


def with_properties():
    for name, item in in_the_reference():
        yield pytest.param(item, id=name)
        if inspect.isclass(item):
            for its, function in properties(item):
                yield pytest.param(function, id=its)


@pytest.mark.parametrize("item", list(with_properties()))
def test_every_entry_has_a_meaning(item):
    bare = [line for _, line, below in entries(item) if not below.startswith("    ")]
    assert not bare, f"no meaning is given for {bare}"


def test_every_attribute_of_a_fitted_model_is_documented():
    X = make_pairs(2, 40, random_state=0)
    model = DynamicPartitionModel(4, max_iter=4, random_state=0).fit(X)
    model.stability(X, 1)
    found = {name for name in dir(model) if name.endswith("_") and not name.startswith("_")}
    assert found <= documented(DynamicPartitionModel).keys()


def methods_of_classes():
    """Methods of the classes of the reference that are no estimators, with their classes."""
    for _, item in in_the_reference():
        if inspect.isclass(item) and not hasattr(item, "fit"):
            for name, method in methods(item):
                if inspect.getdoc(method):  # others are not shown
                    yield pytest.param(item, method, id=name)


@pytest.mark.parametrize(("kind", "method"), list(methods_of_classes()))
def test_every_argument_of_a_method_is_explained(kind, method):
    """In its own entry, or by name in the text of the method, or of the class for all methods."""
    texts = [inspect.getdoc(method), *(inspect.getdoc(base) or "" for base in kind.__mro__)]
    texts += [inspect.getdoc(getattr(base, method.__name__, None)) or "" for base in kind.__mro__]
    known = documented(method).keys() | set(re.findall(r"`(\w+)`", " ".join(texts)))
    for base in kind.__mro__:
        known |= documented(getattr(base, method.__name__, object)).keys()
    if inspect.ismethod(method):  # of the class: its arguments may be attributes
        known |= documented(kind).keys()
    missing = set(inspect.signature(method).parameters) - {"self"} - known
    assert not missing
    test_every_entry_has_a_meaning(method)
