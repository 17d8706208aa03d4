"""Facts of the page in words: what was compared at which cost, where it comes from."""

from __future__ import annotations

import shlex

from pytest_llmeval.reports.document import Entry, part_judged, undetected_drops
from pytest_llmeval.reports.formats import counted

_DAY = 86_400

Facts = list[tuple[str, str]]


def facts(report: Entry, side: Entry) -> Facts:
    """Tell in a few words what was compared, at which cost, and what could not be seen."""
    run, baseline = report["run"], side["baseline"]
    found: Facts = []
    if baseline is not None:
        found.append(("Baseline", _baseline(baseline)))
    if run is not None:
        found.append(("Here", _place(run)))
    if baseline is not None and (drops := undetected_drops(side)):
        missed = (f"{label}: {drop}" for label, drop in drops)
        found.append(("Could be missed, in 1 of 5 builds or more", "; ".join(missed)))
    if parts := part_judged(report):
        found.append(("Only a part was judged", parts))
    if run is not None and any(run["calls"].values()):
        calls = run["calls"]
        told = f"{calls['made']} made, {calls['replayed']} replayed"
        found.append(("Calls", told + (f", {calls['failed']} failed" if calls["failed"] else "")))
        cost = {"Cost": run["cost"]["spent"], "Saved by replays": run["cost"]["saved"]}
        found += [(name, f"${value:.3g}") for name, value in cost.items() if value]
    if report["differences"]:
        names = ", ".join(one["fact"] for one in report["differences"])
        found.append(("Differs besides", names))
    return found


def _place(run: Entry) -> str:
    if not (run["ref"] or run["commit"]):
        return str(run["id"])  # of a score table: its file
    at = f" at {run['commit'][:12]}" if run["commit"] else ""
    return f"{run['ref'] or 'no branch'}{at}{', with changes' * run['dirty']}"


def _baseline(baseline: Entry) -> str:
    text = _place(baseline) if baseline["reference"] == baseline["id"] else baseline["reference"]
    if baseline["commit"] and text == baseline["reference"]:
        text += f" at {baseline['commit'][:12]}"
    text += f", recorded {baseline['created'][:10]}"
    if baseline["distance"]:
        text += f", {counted(baseline['distance'], 'commit')} back"
    if baseline["age"] is not None and baseline["age"] >= _DAY:
        text += f", {counted(int(baseline['age'] // _DAY), 'day')} old"
    return text


def provenance(report: Entry, side: Entry) -> Facts:
    """Tell where both runs come from, and how to compare them again."""
    told: Facts = []
    baseline, run = side["baseline"], report["run"]
    for name, found in (("Baseline", baseline), ("Here", run)):
        if found is not None:
            told += [
                (f"{name}: run", f"{found['id']} of {found['created'][:16]}"),
                (f"{name}: commit", f"{found['commit'] or 'none'}{' (dirty)' * found['dirty']}"),
                (f"{name}: models", ", ".join(found["models"]) or "none"),
                (f"{name}: served", ", ".join(found["served"]) or "not told"),
                (f"{name}: versions", _named(found["versions"])),
            ]
            if found["ci"] and found["ci"]["url"]:
                told.append((f"{name}: job", found["ci"]["url"]))
    for one in report["differences"]:
        old, new = (", ".join(one[of]) for of in ("baseline", "here"))
        told.append((f"Differs: {one['fact']}", f"{old} \N{RIGHTWARDS ARROW} {new}"))
    told.append(("Settings", _named(report["settings"])))
    told += [("Holds for", line) for line in report["scope"]]
    told += [("Note", line) for line in report["notes"]]
    if baseline is not None and run is not None:
        typed = shlex.join(["llmeval", "compare", baseline["id"], run["id"]])
        told.append(("Again", typed))
    return told


def _named(values: Entry) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())
