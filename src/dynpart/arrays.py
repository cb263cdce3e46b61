"""Two kinds of arrays, one set of formulas: NumPy's, and torch's where rows live on a GPU.

Torch takes NumPy's names for what this library needs (``axis``, ``clip``, ``amax``), so formulas
ask for the namespace of their arrays and are written once. Torch is never imported from here.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray


def is_tensor(array: Any) -> bool:
    """Whether `array` is a torch tensor; never imports torch.

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.arrays import is_tensor
    >>> is_tensor(np.zeros(3))
    False
    """
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def namespace(array: Any) -> Any:
    """The module whose functions work on this array: ``numpy`` or ``torch``."""
    return sys.modules["torch"] if is_tensor(array) else np


def like(array: Any, reference: Any) -> Any:
    """The same numbers as the kind of array that `reference` is, and on its device."""
    if is_tensor(reference):
        return sys.modules["torch"].as_tensor(array, device=reference.device)
    return to_numpy(array)


def to_numpy(array: Any) -> NDArray:
    """The same numbers as a NumPy array."""
    return array.detach().cpu().numpy() if is_tensor(array) else np.asarray(array)


def copied(array: Any) -> Any:
    """A copy that may be written to."""
    return array.clone() if is_tensor(array) else array.copy()


def as_float64(array: Any) -> Any:
    """The same numbers in double precision, as the kind of array they are."""
    return array.double() if is_tensor(array) else np.asarray(array, dtype=np.float64)


def in_order(array: Any) -> Any:
    """The same numbers, rising along the first axis."""
    return array.sort(dim=0).values if is_tensor(array) else np.sort(array, axis=0)
