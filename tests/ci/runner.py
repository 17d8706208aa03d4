"""Jobs of workflow files, run step by step as their hosts run them.

The lines of ``run:`` and ``script:`` go to bash. Of actions those are known that the recipes use;
the checkout is made before, by ``tests/ci/hosts.py``. ``pip`` is a script that notes what it is
asked to install.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.ci.hosts import Job
from tests.ci.origin import git_environ
from tests.warm_python import warm_python

PASSED_ON = ("LANG", "TMPDIR", *(name for name in git_environ() if name.startswith("GIT_")))


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that has ended.

    Attributes:
        exit: of the first step that failed; 0 if none did.
        output: what its lines printed.
    """

    exit: int
    output: str


@dataclass(slots=True)
class Shell:
    """Where the lines of jobs run.

    Attributes:
        folder: for the home of the jobs, and for what stands in for ``pip`` and ``gh``.
        environ: variables that every line gets.
    """

    folder: Path
    environ: Mapping[str, str]

    @property
    def installed(self) -> list[str]:
        """What pip was asked for, a line for each time."""
        return (self.folder / "pip.log").read_text().splitlines()

    def run(self, script: str, *options: str, folder: Path, environ: Mapping[str, str]) -> Ended:
        """Run a script by bash, with no variable of this process that a host would not set."""
        tools = self.folder / "tools"
        tools.mkdir(parents=True, exist_ok=True)
        pip = tools / "pip"
        pip.write_text(f'#!/bin/sh\necho "$*" >> "{self.folder / "pip.log"}"\n')
        pip.chmod(0o755)
        gh = tools / "gh"
        gh.write_text(
            f'#!/bin/sh\nprintf "%s\\n" "$GH_TOKEN $*" >> "{self.folder / "gh.log"}"\n'
            f"while [ $# -gt 1 ]; do\n"
            f'  [ "$1" != --body-file ] || cat "$2" >> "{self.folder / "gh.log"}" || exit 1\n'
            f"  shift\ndone\n"
        )
        gh.chmod(0o755)
        own = {name: text for name, text in git_environ().items() if name in PASSED_ON}
        # In a kept workspace another file of one size may come within a second of the first.
        own["PYTHONDONTWRITEBYTECODE"] = "1"
        commands = f"{Path(warm_python()).parent}:{sysconfig.get_path('scripts')}"
        path = f"{tools}:{commands}:/usr/local/bin:/usr/bin:/bin"
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", *options, "-c", script],
            cwd=folder,
            env={**own, "PATH": path, "HOME": str(self.folder), **self.environ, **environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return Ended(done.returncode, done.stdout)


@dataclass(slots=True)
class CacheEntries:
    """Folders that jobs left for later ones.

    Attributes:
        folder: where they are kept.
        entries: by scope and key, oldest first.
    """

    folder: Path
    entries: dict[tuple[str, str], Path] = field(default_factory=dict)

    def keys(self, scope: str) -> list[str]:
        return [key for there, key in self.entries if there == scope]

    def save(self, scope: str, key: str, top: Path, *, paths: Iterable[str]) -> None:
        """Keep those of the paths that are there; an entry is of its list of paths."""
        kept = Path(tempfile.mkdtemp(dir=self.folder))
        for path in paths:
            _copy(top / path, kept / path)
        self.entries[scope, key] = kept

    def restore(self, top: Path, scopes: Iterable[str], key: str, prefix: str = "") -> None:
        """Bring the entry of a key, else the newest one with a prefix, from the first scope."""
        for scope in scopes:
            keys = self.keys(scope)
            alike = [other for other in keys if prefix and other.startswith(prefix)]
            if found := [other for other in keys if other == key] or alike[-1:]:
                shutil.copytree(self.entries[scope, found[0]], top, dirs_exist_ok=True)
                return


def _event(job: Job) -> str:
    return job.environ["GITHUB_EVENT_NAME"]


def _of_event(job: Job, name: str) -> str:
    """Read a value of the event file, such as ``pull_request.head.sha``."""
    value = json.loads(Path(job.environ["GITHUB_EVENT_PATH"]).read_text())
    for key in name.split("."):
        value = value[key]
    return str(value)


def _is_own(job: Job, request: str) -> bool:
    """Tell whether a request, or a run for one, comes from the repository itself."""
    return _of_event(job, f"{request}.full_name") == job.environ["GITHUB_REPOSITORY"]


# Conditions of jobs and steps, by whether anything failed before, and the job.
CONDITIONS: Mapping[str, Callable[[bool, Job], bool]] = {
    "success()": lambda failed, job: not failed,
    "always()": lambda failed, job: True,
    "always() && github.event_name != 'merge_group'": (
        lambda failed, job: _event(job) != "merge_group"
    ),
    "github.event_name == 'pull_request'": (
        lambda failed, job: not failed and _event(job) == "pull_request"
    ),
    "always() && github.event_name == 'pull_request'": (
        lambda failed, job: _event(job) == "pull_request"
    ),
    "always() && github.event_name == 'pull_request' "
    "&& github.event.pull_request.head.repo.full_name == github.repository": (
        lambda failed, job: _event(job) == "pull_request" and _is_own(job, "pull_request.head.repo")
    ),
    "github.event.workflow_run.event == 'pull_request' "
    "&& github.event.workflow_run.head_repository.full_name != github.repository": (
        lambda failed, job: (
            not failed
            and _of_event(job, "workflow_run.event") == "pull_request"
            and not _is_own(job, "workflow_run.head_repository")
        )
    ),
    "!cancelled() && (github.event_name == 'push' || github.event_name == 'merge_group')": (
        lambda failed, job: _event(job) in ("push", "merge_group")
    ),
}


@dataclass(slots=True, kw_only=True)
class GithubRun:
    """A run of a workflow at an event.

    Attributes:
        workflow: the file.
        check_out: makes the checkout of a job.
        shell: runs the lines.
        caches: of the repository.
        artifacts: folder for those of this run.
        run_id: of this run.
        attempt: 2 where it is started again.
        secrets: of the repository.
        token: that the jobs get.
    """

    workflow: Mapping[Any, Any]
    check_out: Callable[[], Job]
    shell: Shell
    caches: CacheEntries
    artifacts: Path
    run_id: int
    attempt: int = 1
    secrets: Mapping[str, str] = field(default_factory=dict)
    token: str = ""

    def run(self) -> dict[str, Ended]:
        """Run all jobs whose condition holds.

        Those that need no other one come first, the last of the file before all: a host promises
        no order among them.
        """
        ended: dict[str, Ended] = {}
        jobs = reversed(self.workflow["jobs"].items())
        for name, definition in sorted(jobs, key=lambda one: "needs" in one[1]):
            job = self.check_out()
            needed = [ended[definition["needs"]]] if "needs" in definition else []
            if _holds(definition, failed=any(one.exit for one in needed), job=job):
                ended[name] = self._run_steps(definition["steps"], job)
        return ended

    def _run_steps(self, steps: Iterable[Mapping[str, Any]], job: Job) -> Ended:
        code, outputs = 0, []
        temp = tempfile.mkdtemp(dir=self.shell.folder.parent)
        for step in steps:
            if not _holds(step, failed=bool(code), job=job):
                continue
            if "uses" in step:
                self._act(step["uses"].partition("@")[0], step.get("with", {}), job)
                continue
            environ = {
                name: self._filled(text, job)
                for scope in (self.workflow, step)
                for name, text in scope.get("env", {}).items()
            }
            assert "${{" not in step["run"]
            environ["RUNNER_TEMP"] = temp
            folder = _top(job) / step.get("working-directory", ".")
            ended = self.shell.run(
                step["run"], "-e", folder=folder, environ={**job.environ, **environ}
            )
            code = code or ended.exit
            outputs.append(ended.output)
        return Ended(code, "".join(outputs))

    def _act(self, action: str, given: Mapping[str, Any], job: Job) -> None:
        ref = job.environ["GITHUB_REF"]
        if action == "actions/cache/restore":
            scopes, key = (ref, "refs/heads/main"), self._filled(given["key"], job)
            self.caches.restore(_top(job), scopes, key, given["restore-keys"])
        elif action == "actions/cache/save":
            key, paths = self._filled(given["key"], job), given["path"].split()
            self.caches.save(ref, key, _top(job), paths=paths)
        elif action == "actions/upload-artifact":
            for path in self._filled(given["path"], job).splitlines():
                if given.get("include-hidden-files") or not path.startswith("."):
                    _copy(job.path / path, self.artifacts / given["name"] / path)
        elif action == "actions/download-artifact":
            _copy(self.artifacts / given["name"], job.path / given["path"])
        else:
            assert action in ("actions/checkout", "actions/setup-python"), action

    def _filled(self, text: str, job: Job) -> str:
        """Put values in the place of expressions."""
        values = {
            "github.run_id": str(self.run_id),
            "github.run_attempt": str(self.attempt),
            "github.sha": job.environ["GITHUB_SHA"],
            "github.event_name": _event(job),
            "github.repository": job.environ["GITHUB_REPOSITORY"],
            "github.token": self.token,
            **{f"secrets.{name}": text for name, text in self.secrets.items()},
            **{f"env.{name}": text for name, text in self.workflow.get("env", {}).items()},
        }

        def value(match: re.Match[str]) -> str:
            name, otherwise = match.groups()
            if name.startswith("github.event."):
                return _of_event(job, name.removeprefix("github.event."))
            return values[name] if otherwise is None else values.get(name) or otherwise

        filled = re.sub(r"\$\{\{ (\S+)(?: \|\| '([^']*)')? \}\}", value, text)
        assert "${{" not in filled or filled != text, text
        return self._filled(filled, job) if "${{" in filled else filled


def _top(job: Job) -> Path:
    """Return the top of a checkout, of which a job of this repository may have a folder."""
    return next(path for path in (job.path, *job.path.parents) if (path / ".git").exists())


def _holds(definition: Mapping[str, Any], *, failed: bool, job: Job) -> bool:
    """Tell whether a job or step runs."""
    condition = definition.get("if", "success()").removeprefix("${{ ").removesuffix(" }}")
    return CONDITIONS[condition](failed, job)


def _copy(there: Path, here: Path) -> None:
    """Copy a file or folder; nothing if there is none."""
    here.parent.mkdir(parents=True, exist_ok=True)
    if there.is_dir():
        shutil.copytree(there, here, dirs_exist_ok=True)
    elif there.exists():
        shutil.copy(there, here)


@dataclass(slots=True, kw_only=True)
class GitlabPipeline:
    """A pipeline at an event.

    Attributes:
        jobs: by name, as the file has them.
        check_out: makes the checkout of a job.
        shell: runs the scripts.
        caches: of the project, in which an entry is written anew.
    """

    jobs: Mapping[str, Mapping[str, Any]]
    check_out: Callable[[], Job]
    shell: Shell
    caches: CacheEntries

    def run(self) -> dict[str, Ended]:
        """Run the jobs of which a rule holds, each with the artifacts of those that it needs."""
        ended: dict[str, Ended] = {}
        left: dict[str, list[tuple[str, Path]]] = {}
        for name, definition in self.jobs.items():
            job = self.check_out()
            needed = definition.get("needs", ())
            rule = self._rule(definition["rules"], job)
            when = rule.get("when", "on_success")
            if not rule or (when == "on_success" and any(ended[other].exit for other in needed)):
                continue
            for path, artifact in (one for other in needed for one in left[other]):
                _copy(artifact, job.path / path)
            ended[name] = self._run_job(definition, job)
            paths = definition.get("artifacts", {}).get("paths", ())
            left[name] = [(path, job.path / path) for path in self._filled(paths, job)]
        return ended

    def _rule(self, rules: Iterable[Mapping[str, Any]], job: Job) -> Mapping[str, Any]:
        """Find the first rule that holds; empty if none does."""
        for rule in rules:
            sides = [
                [job.environ.get(side.removeprefix("$"), side.strip('"')) for side in equal]
                for equal in (one.split(" == ") for one in rule["if"].split(" && "))
            ]
            # A variable alone is whether it is set, and then it is no name any more.
            if all(len(set(one)) == 1 and not one[0].startswith("$") for one in sides):
                return rule
        return {}

    def _run_job(self, definition: Mapping[str, Any], job: Job) -> Ended:
        """Run a job; all its lines are one script."""
        caches = definition.get("cache", ())
        for cache in caches:
            self.caches.restore(job.path, [self._scope(cache, job)], self._key(cache, job))
        environ = {**job.environ, **self._rule(definition["rules"], job).get("variables", {})}
        lines = "\n".join(definition["script"])
        ended = self.shell.run(lines, "-eo", "pipefail", folder=job.path, environ=environ)
        after = "\n".join(definition.get("after_script", ()))
        self.shell.run(after, "-eo", "pipefail", folder=job.path, environ=environ)
        for cache in caches:
            assert cache["when"] == "always"
            if environ.get(cache.get("policy", "").removeprefix("$")) != "pull":
                where = self._scope(cache, job), self._key(cache, job)
                self.caches.save(*where, job.path, paths=cache["paths"])
        return ended

    def _scope(self, cache: Mapping[str, Any], job: Job) -> str:
        """Protected branches have a cache of their own."""
        is_main = job.environ.get("CI_COMMIT_BRANCH") == job.environ["CI_DEFAULT_BRANCH"]
        is_apart = is_main and not cache.get("unprotect")
        return "protected" if is_apart else "non_protected"

    def _key(self, cache: Mapping[str, Any], job: Job) -> str:
        (key,) = self._filled([cache["key"]], job)
        return key

    def _filled(self, texts: Iterable[str], job: Job) -> list[str]:
        """Put values in the place of variables."""
        values = {**job.environ, "CI_COMMIT_REF_SLUG": job.environ["CI_COMMIT_REF_NAME"]}
        return [re.sub(r"\$(\w+)", lambda match: values[match[1]], text) for text in texts]
