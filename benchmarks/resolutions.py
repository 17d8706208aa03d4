"""Which versions people get of the libraries they use, alone and beside this plugin.

uv resolves each anew, from the index; nothing is installed. Where the plugin takes anything back,
the last column names it and the exit code is 1. The table stands in docs/decisions/installing.md.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from packaging.version import Version

LIBRARIES = (
    "litellm", "crewai", "llama-index", "strands-agents[openai]", "dspy", "instructor",
    "langchain-openai", "pydantic-ai", "openai-agents",
)  # fmt: skip
SHOWN = ("openai", "anthropic", "httpx2")
OURS = Path(__file__).parents[1] / "pyproject.toml"
UV = (sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate")


def resolved(*sources: str, library: str) -> dict[str, Version]:
    """Resolve a library, with the requirements of files."""
    done = subprocess.run(
        [*UV, *sources, "-"], input=library, text=True, capture_output=True, check=False
    )
    if done.returncode:
        sys.exit(f"{library} cannot be resolved:\n{done.stderr}")
    lines = (line.partition(";")[0].strip() for line in done.stdout.splitlines())
    pins = (line.split("==") for line in lines if "==" in line)
    return {name.partition("[")[0]: Version(version) for name, version in pins}


def main() -> int:
    """Print the table."""
    print(f"| alone → beside us | itself | {' | '.join(SHOWN)} | taken back |")
    print("|---|---|" + "---|" * (len(SHOWN) + 1))
    is_any_back = False
    for library in LIBRARIES:
        alone, beside = resolved(library=library), resolved(str(OURS), library=library)
        back = [
            f"{name} {version} → {beside.get(name, 'gone')}"
            for name, version in alone.items()
            if name not in beside or beside[name] < version
        ]
        shown = (library.partition("[")[0], *SHOWN)
        versions = [f"{alone.get(name, '-')} → {beside.get(name, '-')}" for name in shown]
        row = [library, *versions, ", ".join(back) or "nothing"]
        print(f"| {' | '.join(row)} |", flush=True)
        is_any_back = is_any_back or bool(back)
    return int(is_any_back)


if __name__ == "__main__":
    sys.exit(main())
