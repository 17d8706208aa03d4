"""The HTTP libraries under the vendors' SDKs: httpx, and httpx2 where a newer SDK brought it.

Both are alike in all that we touch. Importing this module imports one of them.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

try:
    import httpx2 as newest
except ImportError:
    import httpx as newest  # type: ignore[no-redef]

__all__ = ["library_of", "newest"]


def library_of(request: Any) -> Any:
    """Return the library that a request was made by."""
    kind: Any = type(request)
    return _library_under(kind)


@cache
def _library_under(kind: Any) -> Any:
    """Find the library of a class of requests, which may be derived from the library's own."""
    packages = (base.__module__.partition(".")[0] for base in kind.__mro__)
    return sys.modules[next(name for name in packages if name in ("httpx", "httpx2"))]
