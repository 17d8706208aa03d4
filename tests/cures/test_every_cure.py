"""Each message that tells what to type has a test that types it, or a reason why none does.

A new message without a row fails here, and a row whose message is gone.
"""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from pytest_llmeval.cli import main
from pytest_llmeval.settings import every_option
from tests.cures.found import TYPED, advice

TESTS = Path(__file__).parents[1]
GONE = "cures/test_gate.py::test_what_was_there_and_is_gone"
NO_RUN = "cures/test_lookup.py::test_a_branch_whose_main_has_no_run"
NOTHING = "cures/test_commands.py::test_nothing_is_recorded"
NO_REPLIES = "cures/test_commands.py::test_a_folder_without_replies_is_named_otherwise"
SHORT_OF_ITS_BASE = "ci/test_rerun.py::test_a_shallow_clone_elsewhere_fetches_its_base_if_it_may"
SHALLOW = "cures/test_lookup.py::test_a_clone_that_is_shallow"
TABLES = "cures/test_commands.py::test_tables_that_lack_scores"
UNKNOWN_MODULE = "cures/test_sessions.py::test_a_module_that_git_does_not_know"
SEVERAL = "cures/test_commands.py::test_a_table_of_several_metrics_or_columns"
HIDDEN = "cures/test_sessions.py::test_a_file_at_which_git_does_not_look"
DOCTOR = "cures/test_commands.py::test_what_the_doctor_says_can_be_typed"
NAMED = "cures/test_commands.py::test_a_case_that_the_doctor_names_is_shown"
FRESH = "plugin/stories/test_tries.py::test_the_command_asks_for_fresh_trials_of_both_sides"
EARLY = (
    "correctness/test_early_looks.py::"
    "test_workers_that_share_a_function_take_no_look_and_say_what_to_type"
)
# By a part of the message: the test that takes it out of what was printed, and types it.
TYPES = {
    "record it again:  pytest --llm-cache=refresh": (
        "plugin/stories/test_confirm.py::test_main_is_recorded_again_as_the_line_says"
    ),
    "{pytest} --llm-repeats={repeats}": DOCTOR,
    "llmeval plan {run} --function=": DOCTOR,
    "{pytest} --llm-repeats=5": DOCTOR,
    "{pytest} --llm-repeats=1": NAMED,
    "llmeval show {run}": NAMED,
    "is a symbolic link": "cures/test_models.py::test_a_folder_of_the_store_that_is_a_link",
    "Pay for it once": "cures/test_models.py::test_replies_that_are_not_stored",
    "is reached. Raise it": "cures/test_models.py::test_replies_that_are_not_stored",
    "replayed nothing": "cures/test_models.py::test_an_eval_that_asks_no_model_in_a_replay",
    "is not set. Set it": "cures/test_models.py::test_a_key_that_is_not_set",
    "gave no reply within": "cures/test_models.py::test_a_model_that_needs_longer",
    "xdist deals the cases": EARLY,
    "one trial of a case": "plugin/stories/test_mistakes.py::test_one_trial_of_a_case",
    "no model is named": "cures/test_models.py::test_no_model_is_named",
    "llm_prices = ": "cures/test_models.py::test_a_price_that_is_not_known",
    "the price of": "cures/test_models.py::test_a_price_that_is_not_known",
    "Name it with --dir": NO_REPLIES,
    "Name another one with --dir": NO_REPLIES,
    "--llm-on-missing=rerun-always {option}": FRESH,
    "\nnext:": "cures/test_commands.py::test_what_init_prints_next_can_be_typed",
    "git init": "cures/test_commands.py::test_outside_git_init_wants_a_repository",
    "Record with more: {}": "cures/test_commands.py::test_a_run_has_too_little_to_plan_from",
    "Record some: {}": "cures/test_commands.py::test_a_run_has_too_little_to_plan_from",
    "llmeval plan --rates": NOTHING,
    "no run is recorded in": NOTHING,
    "last: no run": NOTHING,
    "no complete run{of}": NOTHING,
    "compare needs two runs": "cures/test_commands.py::test_compare_with_one_run_alone",
    "the beginning of": (
        "cures/test_commands.py::test_a_name_that_is_the_beginning_of_several_run_ids"
    ),
    "Ask for a smaller one": "cures/test_commands.py::test_a_drop_that_cannot_be",
    "every case scored the same": (
        "cures/test_commands.py::test_one_case_of_a_run_that_is_like_its_baseline_is_named"
    ),
    "was compared with no run": (
        "cures/test_commands.py::test_a_run_without_its_baseline_is_compared_with_a_named_one"
    ),
    "A job of CI sends them": (
        "cures/test_commands.py::test_a_laptop_vouches_for_its_run_and_another_fetches_it"
    ),
    "If you may vouch": (
        "cures/test_commands.py::test_a_laptop_vouches_for_its_run_and_another_fetches_it"
    ),
    "say --max-repeats": "cures/test_commands.py::test_until",
    "to join such shards": "cures/test_commands.py::test_shards_of_other_paths_are_joined_by_union",
    "List them: llmeval list": "cures/test_commands.py::test_a_name_that_no_run_has",
    "type --max-gone=": TABLES,
    "type --max-errored=": TABLES,
    "read both replies": "cures/test_gate.py::test_what_fell_is_read_by_the_command_below_it",
    "pasted llm_accept": "cures/test_gate.py::test_a_drop_that_is_meant_is_accepted",
    "llm_renamed = ": GONE,
    "is gated in the baseline": GONE,
    "--llm-max-gone=": GONE,
    "take the mark off, and say": "cures/test_gate.py::test_an_eval_that_is_to_ask_no_model",
    "cases are judged here": "cures/test_gate.py::test_parts_that_are_judged_by_themselves",
    "was set by addopts": (
        "cures/test_sessions.py::test_the_gate_of_a_job_is_not_ended_by_addopts"
    ),
    "an anchor is a second baseline": ("cures/test_sessions.py::test_an_anchor_without_a_baseline"),
    "git tracks": "cures/test_sessions.py::test_a_store_that_git_tracks",
    "llm_base_files = ": "cures/test_sessions.py::test_a_base_that_git_ignores_something_of",
    "If this branch repairs": (
        "cures/test_sessions.py::test_a_base_that_cannot_run_is_repaired_by_the_branch"
    ),
    "If they were moved": "cures/test_sessions.py::test_a_base_whose_evals_lie_elsewhere",
    "has moved on:": "cures/test_sessions.py::test_a_branch_at_origin_that_was_not_fetched",
    "-rm shows them": "cures/test_sessions.py::test_a_case_that_misses_is_shown",
    "git add": UNKNOWN_MODULE,
    "git update-index": HIDDEN,
    "Run its evals now": NO_RUN,
    "run without a comparison:  add": NO_RUN,
    "git switch {": NO_RUN,
    "Record one: git switch": NOTHING,
    "Record one:  git switch": "cures/test_lookup.py::test_a_substitute_is_refused",
    "which --llm-strict refuses": "cures/test_lookup.py::test_a_substitute_is_refused",
    "Record one:  {self.refs.pytest}": NO_RUN,
    "git stash": ("cures/test_lookup.py::test_a_branch_with_changes_that_are_not_committed"),
    "git fetch --unshallow": SHALLOW,
    "{_DEEPEN}": SHALLOW,
    "git branch --all": "cures/test_lookup.py::test_a_name_that_is_unknown",
    "or take the default branch": "cures/test_lookup.py::test_a_name_that_is_unknown",
    "the default branch is not known": (
        "cures/test_lookup.py::test_a_default_branch_that_nothing_names"
    ),
    "name it:  pytest --llm-baseline=BRANCH": (
        "cures/test_lookup.py::test_a_request_into_another_branch"
    ),
    "--llm-baseline=auto compares": "cures/test_lookup.py::test_a_request_into_another_branch",
    "llmeval compare {other} {shown}": (
        "cures/test_commands.py::test_a_run_that_was_gated_is_compared_as_show_says"
    ),
    "to have as many now, type": (
        "plugin/stories/test_main_rules.py::test_fewer_repeats_of_a_branch_hide_no_fall"
    ),
    "add --llm-fetch": SHORT_OF_ITS_BASE,
    "write the same in both, or type": SEVERAL,
    "name each metric": SEVERAL,
    "compare another metric by": SEVERAL,
    "right, type  --max-gone": (
        "cli/test_compare.py::test_runs_are_told_of_the_options_of_the_command"
    ),
    "Name the one with the scores": SEVERAL,
    "or name another column": SEVERAL,
    "as in --rates=": "cures/test_commands.py::test_rates_are_shares",
    "Without a terminal to ask at": "cures/test_commands.py::test_nobody_is_there_to_be_asked",
    "this is no file of": "cures/test_commands.py::test_what_export_wrote_is_imported",
    "replies marked ?": "cures/test_commands.py::test_replies_that_another_machine_has",
    "Name the directory with --dir": (
        "cures/test_commands.py::test_a_look_whose_runs_lie_elsewhere"
    ),
    "all that is gated is what calls took": "cures/test_commands.py::test_a_width_is_one_of_scores",
    "concurrency must be": "cures/test_sessions.py::test_how_many_trials_overlap_is_typed",
    "Record the run again": "cures/test_sessions.py::test_a_run_file_that_is_damaged",
    "was not started": "cures/test_models.py::test_a_program_in_a_replay",
}
# Those that nobody can type here, or that tell nobody to type anything.
REASONS = {
    "as --llm-target)": "is a text of --help",
    "Record one: {": "is what everybody types",
    "(--llm-missed)": "names the option that chose the cases",
    "pasted llm_origin_alias": "takes another address; tests/plugin/stories/test_keyless.py",
    "git-lfs keeps": "takes git-lfs",
    "Record one that fits": "is what everybody types",
    "llm_intercept_hosts = ": "takes a host elsewhere: plugin/stories/test_unseen.py has some",
    "a connection to": "takes a host elsewhere: plugin/stories/test_unseen.py has some",
    "belongs to {": "takes a file of another user",
    "no file can be locked": "takes a disk without locks",
    "waits for a reply that did not": "names the option that set the limit",
    "make room there": "takes a full disk",
    "gh pr comment NUMBER": "takes GitHub; tests/ci/test_comments.py plays the step",
    "pytest-llm-baseline": "takes the index",
    "[pytest]\npythonpath": "is a file",
    "pip install": "takes the index",
    "Name files relative to the project": "several: tests/plugin/stories/test_rerun_installs.py",
    "llm_base_setup = {": "quotes the line that failed",
    "its trial waited for its turn": "names the option that made it wait",
    "name another directory with --llm-dir": "takes a folder that cannot be written",
    "or leave out --llm-baseline": "names the option that was typed",
    "cannot be held over its workers": "takes a folder that cannot be written",
    "see what limits the account": "takes minutes of a provider's refusals",
    "nothing came within": "is of a client of HTTP; tests/plugin/stories/test_own_deadline.py",
    "no reply within": "names the option that set the limit",
    "is never kept": "says what the modes of the cache do",
    "{again} --llm-cache=refresh": "takes a provider that moved; the mode is typed by others",
    "--llm-cache=refresh makes": "says what the mode does",
    "--llm-cache=off replays": "says what the mode does",
    "that of compare by --target": "names the option that is turned",
    "compared with nothing yet": "is what everybody types",
    "compare with it by": "is what everybody types",
    "--llm-model={": "quotes what was typed for a run",
    "neither a log of Inspect": "is about options of another tool",
    "Record it again with this version": "tells of a file of another version",
    "llmeval merge DIR...": "is the head of other messages",
}


def test_what_a_message_tells_to_type_is_typed_by_a_test() -> None:
    parts = (*TYPES, *REASONS)
    assert [one for one in advice() if not any(part in one.text for part in parts)] == []


def test_each_row_is_of_a_message_that_there_is() -> None:
    texts = [one.text for one in advice()]
    assert [part for part in (*TYPES, *REASONS) if not any(part in text for text in texts)] == []


@cache
def _tests_of(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("named", sorted(set(TYPES.values())))
def test_the_test_of_a_row_is_there(named: str) -> None:
    path, _, name = named.partition("::")
    assert (TESTS / path).is_file()
    assert not name or name in _tests_of(TESTS / path)


OF_OTHERS = ("--dist", "--output", "--to", "--no-skip-worktree", "--edit-last", "--create-if-none")
OF_PLUGIN = ("llm_base_setup",)


# --- what is typed is at least known ----------------------------------------------------------


def _flags(command: click.Command) -> set[str]:
    return {flag for one in command.params for flag in (*one.opts, *one.secondary_opts)}


def _commands(group: click.Command) -> Iterator[click.Command]:
    yield group
    for one in group.commands.values() if isinstance(group, click.Group) else ():
        yield from _commands(one)


def _named(kind: str) -> set[str]:
    """List what messages name of one kind."""
    matches = (match for one in advice() for match in TYPED.finditer(one.text))
    return {match[kind] for match in matches if match[kind]}


def test_every_option_that_a_message_names_is_one() -> None:
    ours = {flag for one in every_option() for flag in one.flags}
    theirs = set[str]().union(*map(_flags, _commands(main)))
    named = {one.partition("=")[0] for one in _named("option") | _named("other")}
    assert named - ours - theirs <= set(OF_OTHERS)


def test_every_command_and_ini_line_that_a_message_names_is_one() -> None:
    assert isinstance(main, click.Group)
    assert {one.split()[1] for one in _named("llmeval")} <= set(main.commands)
    keys = {one.key for one in every_option()} | set(OF_PLUGIN)
    assert {one.split()[0] for one in _named("ini")} <= keys


def test_every_command_of_git_that_a_message_names_is_one() -> None:
    listed = subprocess.run(
        ["git", "--list-cmds=main"], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {one.split()[1] for one in _named("git")} <= {*listed, "lfs"}
