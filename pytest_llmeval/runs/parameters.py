"""A digest of a case's parameters, which tells whether an id still means the same case."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping


def parameters_digest(parameters: Mapping[str, object]) -> str | None:
    """Digest the parameters of a case.

    Args:
        parameters: value of each argument name, as pytest passes them to the test.

    Returns:
        sha256 of their canonical JSON (sorted keys, no whitespace, ASCII) in hex;
        None where a value cannot be put as JSON, such as an object or NaN.
    """
    try:
        canonical = json.dumps(
            dict(parameters),
            sort_keys=True,
            ensure_ascii=True,
            allow_nan=False,
            separators=(",", ":"),
        )
    except (TypeError, ValueError, RecursionError):
        return None
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()
