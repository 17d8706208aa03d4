"""Cases drawn from a generator: a sample of all that it could make."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from pytest_llmeval.errors import SettingsError

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

SAMPLED = re.compile(r"(?:^|-)seed-?[0-9]+-[0-9]+(?:-|$)", re.ASCII)


def sample_cases(
    make_case: Callable[[random.Random], object], n: int, seed: int
) -> list[ParameterSet]:
    """Draw cases for ``pytest.mark.parametrize`` from a generator.

    Case i is made with random numbers of its own, which depend on seed and i alone: a larger
    n adds cases and changes none. Its id, ``seed7-0``, records the seed in the run. If the
    generator makes another case under an id, the gate does not pair the two.

    Args:
        make_case: makes one case with the generator it is handed, and with no other source
            of chance. A tuple is one value for each argument of the test.
        n: how many, >= 1.
        seed: which sample; any whole number.

    Returns:
        One ``pytest.param`` a case.

    Raises:
        SettingsError: n or seed is no such number.
    """
    import pytest

    _check_whole("n", n, at_least=1)
    _check_whole("seed", seed)
    drawn = [make_case(random.Random(f"{seed}/{index}")) for index in range(n)]  # noqa: S311
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), id=f"seed{seed}-{index}")
        for index, case in enumerate(drawn)
    ]


def is_sampled(parameters_id: str) -> bool:
    """Whether (a part of) the id of a set of parameters was made by ``sample_cases``."""
    return SAMPLED.search(parameters_id) is not None


def _check_whole(name: str, value: object, *, at_least: int | None = None) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise SettingsError(f"sample_cases: {name} must be a whole number, not {value!r}")
    if at_least is not None and value < at_least:
        raise SettingsError(f"sample_cases: {name} must be {at_least} or more, not {value}")
