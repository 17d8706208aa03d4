"""The command that decides what this run leaves open."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from pytest_llmeval.errors import listed_names
from pytest_llmeval.gate.results import Verdict
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.reports.notation import label
from pytest_llmeval.settings import Settings, options_of

_OF_NO_COMMIT = ("file", "last", "run id")  # ways to a baseline that cannot be made again
_LISTED = 2
_FOLDERS = ("directory", "store")  # where runs are looked for


def both_again(judgement: Judgement, option: str, *, functions: Iterable[str] = ()) -> str:
    """Write the command that runs the baseline and this again; else say so in words.

    Args:
        judgement: with a baseline.
        option: that both sides are to have.
        functions: to run in the place of what was typed, unless that named some already.
    """
    found, settings = judgement.baseline, judgement.settings
    # what is typed holds for both sides, and a typed model would be asked by both
    is_typed = found is not None and found.how not in _OF_NO_COMMIT and not settings.typed_model
    words = judgement.typed or ()
    if functions and not any("::" in word for word in words):
        words = (*(word for word in words if word.startswith("-")), *functions)
    typed = "".join(f" {shlex.quote(word)}" for word in (*words, *_ruling(settings)))
    if found is None or found.run.commit is None or not is_typed:
        return f"run the baseline and then this once more, both with{typed} {option}"
    baseline = shlex.quote(f"--llm-baseline={settings.baseline}")
    return f"pytest{typed} {baseline} --llm-on-missing=rerun-always {option}"


def _ruling(settings: Settings) -> Iterator[str]:
    """Write the rules of the gate that were typed, and the folders: a verdict hangs on both."""
    folders = options_of(Settings)
    options = options_of(type(settings.gate)) | {name: folders[name] for name in _FOLDERS}
    for name in (name for name in options if name in settings.typed):
        option, owner = options[name], settings if name in _FOLDERS else settings.gate
        value = getattr(owner, name)
        yield f"{option.flag}={value}" if option.metavar else option.flags[not value]


def to_decide(judgement: Judgement) -> str:
    """Say what to type to decide what is inconclusive; "" where repeats decide nothing."""
    comparison = judgement.comparison
    if comparison is None or not judgement.settings.session:
        return ""
    is_open = [one for one in comparison.functions if one.verdict is Verdict.INCONCLUSIVE]
    needed = {label(one): one.evidence.settle_repeats or 0 for one in is_open}
    names = [name for name, repeats in needed.items() if repeats]
    if not names:
        return ""
    what = "it" if len(needed) == 1 else listed_names(names, _LISTED)
    again = dict.fromkeys(one.function for one in is_open if needed[label(one)])
    has_others = any(one.function not in again for one in comparison.functions)
    option = f"--llm-repeats={max(needed.values())}"
    command = both_again(judgement, option, functions=again if has_others else ())
    return f"to decide {what}, type this once, as more looks are more false alarms:  {command}"
