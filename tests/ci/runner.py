"""Jobs of workflow files, run step by step as their hosts run them.

The lines of ``run:`` and ``script:`` go to bash. Of actions those are known that the recipes use;
the checkout is made before, by ``tests/ci/hosts.py``. ``pip`` is a script that notes what it is
asked to install.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.ci.hosts import Job
from tests.ci.origin import git_environ

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
        folder: for the home of the jobs, and for what stands in for ``pip``.
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
        own = {name: text for name, text in git_environ().items() if name in PASSED_ON}
        path = f"{tools}:{sysconfig.get_path('scripts')}:/usr/local/bin:/usr/bin:/bin"
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

    def save(self, scope: str, key: str, folder: Path) -> None:
        kept = self.folder / f"entry-{len(self.entries)}"
        shutil.copytree(folder, kept)
        self.entries[scope, key] = kept

    def restore(self, folder: Path, scopes: Iterable[str], key: str, prefix: str = "") -> None:
        """Bring the entry of a key, else the newest one with a prefix, from the first scope."""
        for scope in scopes:
            keys = self.keys(scope)
            alike = [other for other in keys if prefix and other.startswith(prefix)]
            if found := [other for other in keys if other == key] or alike[-1:]:
                shutil.copytree(self.entries[scope, found[0]], folder, dirs_exist_ok=True)
                return


@dataclass(slots=True, kw_only=True)
class GithubJob:
    """A job of a workflow, in a checkout and at an event.

    Attributes:
        steps: as the file has them.
        job: the checkout.
        shell: runs the lines.
        caches: of the repository.
        run_id: of the workflow's run.
        attempt: 2 where the job is started again.
        secrets: of the repository; a secret that is not set is empty.
    """

    steps: list[dict[str, Any]]
    job: Job
    shell: Shell
    caches: CacheEntries
    run_id: int
    attempt: int = 1
    secrets: Mapping[str, str] = field(default_factory=dict)

    def run(self) -> Ended:
        """Run all steps; after one that failed only those that always run."""
        code, outputs = 0, []
        for step in self.steps:
            condition = step.get("if", "success()")
            assert condition in ("success()", "always()"), condition
            if code and condition == "success()":
                continue
            if "uses" in step:
                self._act(step["uses"].partition("@")[0], step.get("with", {}))
                continue
            environ = {name: self._filled(text) for name, text in step.get("env", {}).items()}
            assert "${{" not in step["run"]
            ended = self.shell.run(
                step["run"], "-e", folder=self.job.path, environ={**self.job.environ, **environ}
            )
            code = code or ended.exit
            outputs.append(ended.output)
        return Ended(code, "".join(outputs))

    def _act(self, action: str, given: Mapping[str, str]) -> None:
        ref = self.job.environ["GITHUB_REF"]
        if action == "actions/cache/restore":
            scopes = (ref, "refs/heads/main")
            key = self._filled(given["key"])
            self.caches.restore(self._folder(given), scopes, key, given["restore-keys"])
        elif action == "actions/cache/save":
            self.caches.save(ref, self._filled(given["key"]), self._folder(given))
        else:
            assert action in ("actions/checkout", "actions/setup-python"), action

    def _folder(self, given: Mapping[str, str]) -> Path:
        return self.job.path / given["path"]

    def _filled(self, text: str) -> str:
        """Put values in the place of expressions."""
        values = {"github.run_id": str(self.run_id), "github.run_attempt": str(self.attempt)}

        def value(match: re.Match[str]) -> str:
            name = match[1]
            if name.startswith("secrets."):
                return self.secrets.get(name.removeprefix("secrets."), "")
            return values[name]

        return re.sub(r"\$\{\{ (\S+) \}\}", value, text)


def run_gitlab_job(
    definition: Mapping[str, Any], job: Job, *, shell: Shell, caches: CacheEntries
) -> Ended:
    """Run a job of ``.gitlab-ci.yml``; all its lines are one script.

    Args:
        definition: the job as the file has it.
        job: the checkout.
        shell: runs the script.
        caches: of the project; one scope, an entry is written anew.
    """
    cache = definition["cache"]
    values = {**job.environ, "CI_COMMIT_REF_SLUG": job.environ["CI_COMMIT_REF_NAME"]}
    keys = [
        re.sub(r"\$(\w+)", lambda match: values[match[1]], key)
        for key in (cache["key"], *cache["fallback_keys"])
    ]
    (path,) = cache["paths"]
    known = [key for key in keys if key in caches.keys("project")]
    caches.restore(job.path / path, ["project"], known[0] if known else "")
    lines = "\n".join(definition["script"])
    ended = shell.run(lines, "-eo", "pipefail", folder=job.path, environ=job.environ)
    if ended.exit == 0 or cache["when"] == "always":
        caches.save("project", keys[0], job.path / path)
    return ended
