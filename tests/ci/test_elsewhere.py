"""The recipes of docs/ci.md for further systems are files of theirs, and do what the page says.

Of each recipe the steps are taken out of the page: lines of a shell, and what is done with the
folder that main's job keeps. They run in checkouts as the system makes them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml
from pygments.lexers import GroovyLexer
from pygments.token import Comment, Error, String

from tests.ci.origin import WORSE, Origin
from tests.ci.other_hosts import Built, MakeJob, azure, bitbucket, buildkite, circleci, jenkins
from tests.ci.runner import CacheEntries, Shell
from tests.ci.situation import HARMLESS
from tests.ci.test_recipes import AGAIN, CALLS, NOTES_CALLS
from tests.ci.tools import run_tool

PAGE = Path(__file__).parents[2] / "docs" / "ci.md"
MAIN = 'BRANCH == "main"'


def shown(path: str, *, before: str = "") -> str:
    """Return the file that the page shows under a path, or what stands there before its name."""
    head = rf"```(?:yaml|groovy)\n(?:#|//) {before}{re.escape(path)}\n"
    (text,) = re.findall(rf"{head}(.*?)```", PAGE.read_text(), re.DOTALL)[-1:]
    return str(text)


# --- as files ---------------------------------------------------------------------------------

SCHEMAS = {
    ".buildkite/pipeline.yml": "buildkite",
    ".circleci/config.yml": "circle-ci",
    "azure-pipelines.yml": "azure-pipelines",
    "bitbucket-pipelines.yml": "bitbucket-pipelines",
}


def as_strings(value: object) -> object:
    """Write truth as Azure's schema has it: each value there is a string."""
    if isinstance(value, dict):
        return {name: as_strings(one) for name, one in value.items()}
    if isinstance(value, list):
        return [as_strings(one) for one in value]
    return str(value).lower() if isinstance(value, bool) else value


@pytest.mark.parametrize("path", SCHEMAS)
def test_a_recipe_fits_the_schema_of_its_system(path: str, tmp_path: Path) -> None:
    content = yaml.safe_load(shown(path))
    if SCHEMAS[path] == "azure-pipelines":
        content = as_strings(content)
    (tmp_path / "recipe.json").write_text(json.dumps(content))

    how = ("--builtin-schema", f"vendor.{SCHEMAS[path]}", "--regex-variant", "nonunicode")
    done = run_tool("check-jsonschema", *how, "recipe.json", folder=tmp_path)

    assert done.returncode == 0, done.stdout


def test_the_file_of_jenkins_is_groovy_as_far_as_a_lexer_tells() -> None:
    tokens = list(GroovyLexer().get_tokens(shown("Jenkinsfile")))
    assert not [text for kind, text in tokens if kind in Error]
    code = "".join(text for kind, text in tokens if kind not in String and kind not in Comment)
    open_ones: list[str] = []
    for one in re.findall(r"[(){}\[\]]", code):
        if one in "({[":
            open_ones.append(one)
        else:
            assert open_ones.pop() + one in ("()", "{}", "[]")
    assert not open_ones
    sections = re.findall(r"^ {2}(\w+)", shown("Jenkinsfile"), re.MULTILINE)
    assert sections == ["agent", "options", "environment", "stages", "post"]


# --- as they run ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A line of a shell, or what is done with the kept folder.

    Attributes:
        run: the lines.
        restore: keys, or beginnings of keys, of which the newest entry is brought back.
        save: the key under which the paths are kept.
        paths: that are kept.
        always: also where an earlier step failed.
        over: an entry of that key is written anew, else it stays.
    """

    run: str = ""
    restore: str = ""
    save: str = ""
    paths: tuple[str, ...] = (".llmeval",)
    always: bool = False
    over: bool = False


def of_buildkite(text: str, built: Built) -> Iterator[Step]:
    """Read the step whose condition holds; its cache is saved if the command succeeded."""
    holds = {
        'build.branch == "main" && build.pull_request.id == null': not built.head,
        'build.branch != "main" || build.pull_request.id != null': bool(built.head),
    }
    (step,) = (one for one in yaml.safe_load(text)["steps"] if holds[one["if"]])
    ((plugin,),) = (one.values() for one in step["plugins"])
    yield Step(restore=plugin["restore"])
    yield Step(run="\n".join(step["command"]))
    if "save" in plugin:
        yield Step(save=plugin["save"], over=plugin["force"], paths=(plugin["path"],))


def of_jenkins(text: str, built: Built) -> Iterator[Step]:
    """Read the steps of the one stage, in which artifacts are copied, and what follows."""
    steps, _, post = text.partition("  post {")
    for line in re.findall(r"^ {8}(.+)$", steps, re.MULTILINE):
        if shell := re.fullmatch(r"sh '([^']+)'", line):
            yield Step(run=shell[1])
        else:
            wanted = "copyArtifacts projectName: 'main', selector: lastCompleted(), optional: true"
            assert line == wanted
            yield Step(restore="main")
    assert re.search(r"^ {4}always {", post, re.MULTILINE)
    (branch, paths) = re.findall(
        r"script { if \(env.BRANCH_NAME == '(\w+)'\) archiveArtifacts '(.+)' }", post
    )[0]
    if built.branch == branch:
        kept = tuple(path.removesuffix("/**") for path in paths.split(", "))
        yield Step(save="main", paths=kept, always=True, over=True)


_TIMES = count(1)


def of_circleci(text: str, built: Built) -> Iterator[Step]:
    """Read the steps of the one job; entries of all branches are one list."""
    assert "equal: [main, << pipeline.git.branch >>]" in text
    for step in yaml.safe_load(text)["jobs"]["evals"]["steps"]:
        match step:
            case {"restore_cache": given}:
                yield Step(restore=given["key"])
            case {"run": str(line)}:
                yield Step(run=line)
            case {"when": {"steps": [{"save_cache": given}]}} if built.branch == "main":
                key = given["key"].replace("{{ .Revision }}", built.commit)
                key = key.replace("{{ epoch }}", str(next(_TIMES)))
                always = given["when"] == "always"
                yield Step(save=key, paths=tuple(given["paths"]), always=always)


def of_azure(text: str, built: Built) -> Iterator[Step]:
    """Read the steps; a cache is saved behind all, if the job succeeded."""
    values = {
        "Build.SourceBranch": "refs/pull/7/merge" if built.head else "refs/heads/main",
        "Build.BuildId": str(next(_TIMES)),
    }
    saved = []
    for step in yaml.safe_load(text)["steps"]:
        match step:
            case {"script": str(line)}:
                yield Step(run=line)
            case {"task": "Cache@2", "inputs": given}:
                key = re.sub(r"\$\(([\w.]+)\)", lambda name: values[name[1]], given["key"])
                yield Step(restore=given["restoreKeys"])
                saved.append(Step(save=key, paths=(given["path"],)))
    yield from saved


def of_bitbucket(text: str, built: Built) -> Iterator[Step]:
    """Read the step of the pipeline; an entry that is there is not written anew."""
    content = yaml.safe_load(text)
    pipelines = content["pipelines"]
    of_branch = pipelines["pull-requests"]["**"] if built.head else pipelines["branches"]["main"]
    step = of_branch[0]["step"]
    (name,) = step["caches"]
    yield Step(restore=name)
    yield Step(run="\n".join(step["script"]))
    yield Step(save=name, paths=(content["definitions"]["caches"][name],))


@dataclass(frozen=True, slots=True)
class System:
    """A system: its file, how that is read, how it checks out.

    Attributes:
        path: of the file.
        steps: of a job.
        check_out: makes the job.
        keeps_red: what a red push to main left is kept.
        keeps_workspace: a job finds the folder of an older one.
    """

    path: str
    steps: Callable[[str, Built], Iterable[Step]]
    check_out: MakeJob
    keeps_red: bool
    keeps_workspace: bool = False


SYSTEMS = (
    System(".buildkite/pipeline.yml", of_buildkite, buildkite, keeps_red=False),
    System("Jenkinsfile", of_jenkins, jenkins, keeps_red=True, keeps_workspace=True),
    System(".circleci/config.yml", of_circleci, circleci, keeps_red=True),
    System("azure-pipelines.yml", of_azure, azure, keeps_red=False),
    System("bitbucket-pipelines.yml", of_bitbucket, bitbucket, keeps_red=False),
)
each_system = pytest.mark.parametrize("system", SYSTEMS, ids=lambda one: one.check_out.__name__)


@dataclass(slots=True)
class Ci:
    """A system with a repository, and jobs of it.

    Attributes:
        system: which.
        folder: for all.
    """

    system: System
    folder: Path
    origin: Origin = field(init=False)
    caches: CacheEntries = field(init=False)

    def __post_init__(self) -> None:
        self.origin = Origin(self.folder / "host", commits=2, changed=NOTES_CALLS)
        self.caches = CacheEntries(self.folder)

    def job(self, head: str = "", target: str = "main") -> tuple[int, str, int, str, str]:
        """Run the job of a push to main, or of a pull request.

        Returns:
            exit code, verdict, calls made, the baseline's commit, and what was printed.
        """
        built = Built(self.origin, head, target)
        name = built.branch if self.system.keeps_workspace else f"job-{next(_TIMES)}"
        job = self.system.check_out(built, self.folder / "jobs" / name)
        log, report = self.folder / "calls.log", self.folder / "report.json"
        options = f"-p no:cacheprovider --llm-repeats=2 --llm-report={report}"
        environ = {"CALLS": str(log), "PYTEST_ADDOPTS": options}
        shell, code, output = Shell(self.folder / "shell", environ), 0, ""
        for step in self.system.steps(shown(self.system.path), built):
            if step.run and not code:
                ended = shell.run(step.run, "-e", folder=job.path, environ=job.environ)
                code, output = ended.exit, output + ended.output
            elif step.restore:
                self.caches.restore(job.path, ["all"], step.restore, step.restore)
            elif step.save and (step.always or not code):
                self._save(step, job.path)
        calls = len(log.read_text().splitlines()) if log.exists() else 0
        log.unlink(missing_ok=True)
        told: Mapping[str, Any] = json.loads(report.read_text())
        report.unlink()
        return code, told["verdict"], calls, (told["baseline"] or {}).get("commit", ""), output

    def _save(self, step: Step, top: Path) -> None:
        if step.over or step.save not in self.caches.keys("all"):
            self.caches.save("all", step.save, top, paths=step.paths)


@pytest.fixture
def ci(system: System, tmp_path: Path) -> Ci:
    (tmp_path / "jobs").mkdir()
    return Ci(system, tmp_path)


@each_system
def test_a_worse_prompt_is_stopped_and_its_repair_passes(ci: Ci) -> None:
    base = ci.origin.tip
    *main, output = ci.job()
    assert main == [0, "unchanged", CALLS, ci.origin.main[0]], output

    *harmless, output = ci.job(ci.origin.commit(HARMLESS, on=base))
    assert harmless == [0, "unchanged", 0, base], output
    assert output.count("test session starts") == 1

    worse = ci.origin.commit(WORSE, on=base)
    *broken, output = ci.job(worse)
    assert broken == [1, "regressed", CALLS + AGAIN, base], output

    *repaired, output = ci.job(ci.origin.revert(worse, on=worse))
    assert repaired == [0, "unchanged", 0, base], output

    # A request into another branch is compared with that.
    below = ci.origin.commit(WORSE, on=base)
    ci.origin.set("below", below)
    code, verdict, _, baseline, output = ci.job(ci.origin.commit(HARMLESS, on=below), "below")
    if ci.system.check_out is circleci:
        assert (code, baseline) == (1, base)
        assert "circleci does not say what this is to be merged into" in " ".join(output.split())
    else:
        assert (code, verdict, baseline) == (0, "unchanged", below), output


@each_system
def test_a_harmless_request_is_not_blamed_for_what_main_became(ci: Ci) -> None:
    before = ci.origin.tip
    ci.job()
    red = ci.origin.advance(WORSE)
    *main, output = ci.job()
    assert main == [1, "regressed", CALLS + AGAIN, before], output

    # One that began before, and one from the new main.
    paid = 0 if ci.system.keeps_red else CALLS
    own = before if ci.system.check_out in (buildkite, circleci) else red
    *old, output = ci.job(ci.origin.commit(HARMLESS, on=before))
    assert old == [0, "unchanged", 0 if own == before else paid, own], output
    *new, output = ci.job(ci.origin.commit(HARMLESS, on=red))
    assert new[:2] == [0, "unchanged"], output
    assert new[3] == red
