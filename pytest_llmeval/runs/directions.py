"""Directions of metrics as somebody typed them: which one is good."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from pytest_llmeval.errors import SettingsError, did_you_mean
from pytest_llmeval.records import OWN_DIRECTIONS, Better

# by metric; under "" what was typed without a name
Directions = Mapping[str, Better]
NONE_TYPED: Directions = MappingProxyType({})
LISTED = 20


def check_directions(better: Directions, metrics: Collection[str]) -> None:
    """Refuse directions that turn no metric, or more than one without naming it.

    Args:
        better: what was typed.
        metrics: the metrics that are compared.

    Raises:
        SettingsError: such a direction was typed.
    """
    free = [name for name in metrics if name not in OWN_DIRECTIONS]
    for name, way in better.items():
        typed = f"--better={name}{'=' if name else ''}{way}"
        if name and name not in metrics:
            hint = did_you_mean(name, list(metrics), most=LISTED)
            raise SettingsError(f"{typed}: there is no such metric. {hint}")
        turned = [name] if name else free or list(metrics)
        if all(OWN_DIRECTIONS.get(each, way) != way for each in turned):
            raise SettingsError(
                f"{typed} has nothing to turn: {' and '.join(turned)} has a direction of its own; "
                "leave it out"
            )
        if len(turned) > 1:
            raise SettingsError(
                f"{typed} would hold for {' and '.join(turned)}: name each metric, as in "
                f"--better {turned[0]}={way}"
            )
