"""Tell whether a tag of a repository may be released: may_release.py v0.1.0 OWNER/NAME."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]


def obstacles(tag: str, repository: str, root: Path = ROOT) -> Iterator[str]:
    """List what is wrong, each with what to do."""
    package = (root / "pytest_llmeval" / "version.py").read_text(encoding="utf-8")
    (version,) = re.findall(r'^__version__ = "(.+)"$', package, re.MULTILINE)
    if tag != f"v{version}":
        yield f"the tag is {tag}, and the package says {version}: mend __version__ or the tag"
    changes = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", changes, re.MULTILINE):
        yield f"CHANGELOG.md has no heading with a date: ## {version} (2027-01-31)"
    if re.search(r"^## Unreleased\n(?!\s*(## |\Z))", changes, re.MULTILINE):
        yield f"CHANGELOG.md has lines under Unreleased: move them to {version}"
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    source = project["urls"]["Source"]
    if source != f"https://github.com/{repository}":
        yield (
            f"this is {repository}, and [project.urls] of pyproject.toml says {source}: "
            "put the owner's name there (tests/ci/test_repository.py says how)"
        )


if __name__ == "__main__":
    found = list(obstacles(*sys.argv[1:]))
    sys.exit("\n".join(found) or None)
