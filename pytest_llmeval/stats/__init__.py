"""Statistics of the gate: pure functions over arrays that import nothing of ours."""

import os

# numpy and scipy bring a linear algebra library each. Its threads, one a core, wait for work
# in a busy loop once they are loaded: 0.1 s of CPU each, for what nobody asked them yet.
_BUSY_LOOP = "OPENBLAS_THREAD_TIMEOUT"  # power of two of cycles, 26 if it is not set


def _load_without_busy_loops() -> None:
    is_unset = _BUSY_LOOP not in os.environ
    if is_unset:
        os.environ[_BUSY_LOOP] = "4"
    try:
        import scipy.special  # noqa: F401
    finally:
        if is_unset:
            del os.environ[_BUSY_LOOP]


_load_without_busy_loops()
