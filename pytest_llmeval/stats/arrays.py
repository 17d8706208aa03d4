"""numpy and scipy.special for the tests of the gate, loaded at the first use of a function.

A comparison in which no request has changed uses none, and does not wait 0.2 s for the import.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

# Both bring a linear algebra library. Once loaded, its threads, one a core, wait for work in a busy
# loop: 0.1 s of CPU each, before there is any work.
_BUSY_LOOP = "OPENBLAS_THREAD_TIMEOUT"  # power of two of cycles, 26 if it is not set


class _Library:
    """A library that is loaded when the first of its functions is asked for.

    Args:
        name: of the module.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        load()
        found = getattr(sys.modules[self._name], name)
        setattr(self, name, found)  # this runs once a function
        return found


def load() -> None:
    """Load both libraries, such as while a session waits for replies."""
    is_unset = _BUSY_LOOP not in os.environ
    if is_unset:
        os.environ[_BUSY_LOOP] = "4"
    try:
        import numpy  # noqa: F401
        import scipy.special  # noqa: F401
    finally:
        if is_unset:
            os.environ.pop(_BUSY_LOOP, None)  # of two threads the first has taken it away


if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray
    from scipy import special

    FloatArray = NDArray[np.float64]
else:
    np, special = _Library("numpy"), _Library("scipy.special")
    ArrayLike = FloatArray = Any

__all__ = ["ArrayLike", "FloatArray", "load", "np", "special"]
