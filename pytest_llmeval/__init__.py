"""Run LLM tests several times, and fail the build if a change made them worse."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_llmeval.engine.baton import waiting as waiting
    from pytest_llmeval.engine.case_sources import cases_from as cases_from
    from pytest_llmeval.engine.case_sources import sample_cases as sample_cases
    from pytest_llmeval.engine.marker import llm_eval as llm_eval
    from pytest_llmeval.models.llm import AsyncModel as AsyncModel
    from pytest_llmeval.models.llm import Model as Model
    from pytest_llmeval.models.llm import Reply as Reply
    from pytest_llmeval.version import __version__ as __version__

__all__ = ["AsyncModel", "Model", "Reply", "cases_from", "llm_eval", "sample_cases", "waiting"]

_HOMES = {
    "__version__": "pytest_llmeval.version",
    "llm_eval": "pytest_llmeval.engine.marker",
    "cases_from": "pytest_llmeval.engine.case_sources",
    "sample_cases": "pytest_llmeval.engine.case_sources",
    "waiting": "pytest_llmeval.engine.baton",
    "AsyncModel": "pytest_llmeval.models.llm",
    "Model": "pytest_llmeval.models.llm",
    "Reply": "pytest_llmeval.models.llm",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is asked for: every pytest session loads this package."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
