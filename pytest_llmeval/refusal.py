"""A session that ends with exit code 4: what pytest, CI and the report files are told."""

from __future__ import annotations

import os

import pytest

from pytest_llmeval.models.http.masking import masked_keys
from pytest_llmeval.pytest_options import is_toml, readable_settings, started
from pytest_llmeval.reports import report_files
from pytest_llmeval.reports.make_report import make_report
from pytest_llmeval.reports.notation import in_form
from pytest_llmeval.safe_text import printable_message
from pytest_llmeval.settings import BRIEF, STEP_SUMMARY, lists_of

ENDED_BY_PYTEST = "pytest ended with a usage error before any eval ran"


def usage_error(
    config: pytest.Config, error: Exception, *, has_begun: bool = False
) -> pytest.UsageError:
    """Turn our error into pytest's; the report files are written all the same.

    CI gets the error here, unless the session has begun, when other plugins write their reports.
    """
    # a model that cannot be imported may quote a key
    known = lists_of(readable_settings(config))
    told = in_form(masked_keys(str(error)), toml=is_toml(config), known=known)
    message = printable_message(told)
    problems = report_refusal(config, message)
    problems += [] if has_begun else _tell_ci(config, message)
    return pytest.UsageError("\n".join([message, *problems]))


def report_refusal(config: pytest.Config, message: str) -> list[str]:
    """Write the report files of a session that ends with 4; return sentences on failures."""
    settings, environ = readable_settings(config), started(config).environ
    # a mistake in words for pytest alone need not be one in words for us
    has_summary = STEP_SUMMARY in environ and message != ENDED_BY_PYTEST
    if _is_part(config) or not (settings.reports or has_summary):
        return []
    judgement = report_files.refused(settings, message)
    report = make_report(judgement)
    return report_files.write_reports(report, settings.reports, judgement) + (
        report_files.append_summary(report, environ) if has_summary else []
    )


def _tell_ci(config: pytest.Config, message: str) -> list[str]:
    """Tell GitHub and readers of JUnit's file why a session ends before pytest writes that file."""
    is_github = started(config).environ.get("GITHUB_ACTIONS") == "true"
    junit = getattr(config.option, "xmlpath", None)
    if _is_part(config) or not (is_github or junit):
        return []
    judgement = report_files.refused(readable_settings(config), message)
    found = report_files.failures(make_report(judgement), judgement)
    if is_github:
        print(*report_files.github_annotations(found), sep="\n", flush=True)
    path = os.path.expandvars(os.path.expanduser(junit or ""))  # noqa: PTH111 - as pytest does it
    return report_files.write_junit(config.invocation_params.dir / path, found) if junit else []


def _is_part(config: pytest.Config) -> bool:
    """Whether another session writes the reports: a worker's controller, or a base's caller."""
    return hasattr(config, "workerinput") or config.pluginmanager.has_plugin(BRIEF)
