"""Dynamic partition models: every variable of a data point is explained by one expert.

A dynamic partition model (Goessling and Amit, 2017) describes a data point by the
few experts that are active in it. Each expert has an opinion about every variable and a
level of expertise there; among the active experts the one with the highest expertise owns
the variable. Public names are imported on first use, so that ``import dynpart`` is quick.

Examples
--------
>>> import dynpart
>>> "DynamicPartitionModel" in dir(dynpart)
True
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dynpart.estimator import DynamicPartitionModel
    from dynpart.persistence import load

__version__ = "0.1.0"

__all__ = ["DynamicPartitionModel", "__version__", "load"]

# Public name -> module that defines it.
_LAZY = {"DynamicPartitionModel": "dynpart.estimator", "load": "dynpart.persistence"}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first requested."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Names for completion: those defined here and those imported on first use."""
    return sorted({*globals(), *_LAZY})
