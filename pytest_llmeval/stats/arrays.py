"""numpy and scipy.special for the tests of the gate, loaded without threads that keep cores busy.

A module that imports this one is not for a session that compares nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

# Both bring a linear algebra library. Its threads, one a core, wait for work in a busy loop
# once they are loaded: 0.1 s of CPU each, for what nobody asked them yet.
_BUSY_LOOP = "OPENBLAS_THREAD_TIMEOUT"  # power of two of cycles, 26 if it is not set


@contextmanager
def _without_busy_loops() -> Iterator[None]:
    is_unset = _BUSY_LOOP not in os.environ
    if is_unset:
        os.environ[_BUSY_LOOP] = "4"
    try:
        yield
    finally:
        if is_unset:
            del os.environ[_BUSY_LOOP]


with _without_busy_loops():
    import numpy as np
    from numpy.typing import NDArray
    from scipy import special

FloatArray = NDArray[np.float64]

__all__ = ["FloatArray", "np", "special"]
