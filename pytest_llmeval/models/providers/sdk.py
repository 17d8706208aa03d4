"""What is said where a vendor's SDK is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pytest_llmeval.errors import ProviderNotInstalled


@contextmanager
def sdk_needed(name: str, requirement: str) -> Iterator[None]:
    """Import an SDK in here.

    Args:
        name: of its module.
        requirement: what pip is to install.

    Raises:
        ProviderNotInstalled: it cannot be imported.
    """
    try:
        yield
    except ImportError as exc:
        raise ProviderNotInstalled(
            f'the {name} SDK cannot be imported ({exc}). Type:  pip install "{requirement}"'
        ) from exc
