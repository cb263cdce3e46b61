"""Arrays in few bytes of text, as the page unpacks them."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

_TYPES = {"u1": "u8", "u2": "u16", "u4": "u32", "f4": "f32", "i2": "i16"}


def packed_array(values: NDArray[Any]) -> dict[str, Any]:
    """An array of a type that browsers support, as text."""
    little = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("<")))
    data = base64.b64encode(little.tobytes()).decode()
    return {"type": _TYPES[values.dtype.str[1:]], "data": data}


def scaled_array(values: NDArray[np.float64], dtype: type) -> dict[str, Any]:
    """Numbers as integers that span their range."""
    low, high = float(values.min()), float(values.max())
    steps = np.iinfo(dtype).max
    share = (values - low) / (high - low) if high > low else np.zeros_like(values)
    return {**packed_array((share * steps).round().astype(dtype)), "low": low, "high": high}
