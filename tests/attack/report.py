"""What was attacked: a JSON file per attack in docs/results/attack, and a table in docs/reliability.md."""

import json
import os
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from attack.registry import Attack
from attack.runner import Count
from ictrl import __version__

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results" / "attack"
GPU = RESULTS / "gpu.json"  # of tests, not of an attack
NOTES = ROOT / "build" / "attack"
PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- attacks -->", "<!-- end of attacks -->"


def write(attack: Attack, count: Count, seed: int, cases: int) -> None:
    """What an attack came to, as a file; a part of it takes no whole one's place unless it found something."""
    path = RESULTS / f"{attack.name}.json"
    if count.cases < cases and not count.failed and path.exists():
        known = json.loads(path.read_text("utf-8"))
        if known["cases"] == known.get("of", known["cases"]):
            return
    found = {"name": attack.name, "about": attack.about, **asdict(count), "of": cases, "seed": seed}
    found |= {"seconds": round(count.seconds, 1), "machine": machine(), "versions": versions()}
    RESULTS.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")


def versions() -> dict[str, str]:
    return {"ictrl": __version__, "torch": torch.__version__, "python": platform.python_version()}


def machine() -> str:
    """Its processor and how many of it there are."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{platform.system()}, {os.cpu_count()} cores of {names[0] if names else platform.machine()}"


def section() -> str:
    """The table of all files, as docs/reliability.md has it."""
    paths = sorted(path for path in RESULTS.glob("*.json") if path != GPU)
    found: list[dict[str, Any]] = [json.loads(path.read_text("utf-8")) for path in paths]
    rows = [
        f"| {entry['about']} | {_played(entry)} | {entry['held']:,} | {entry['refused']:,} | {entry['failed']:,} |"
        for entry in found
    ]
    minutes, cases = sum(entry["seconds"] for entry in found) / 60, sum(entry["cases"] for entry in found)
    lines = [
        "Written by `make attack`; files: `docs/results/attack`. *Held*: afterwards everything was as promised. "
        "*Refused*: one line and an exit code, and nothing is lost.",
        "",
        "| attack | cases | held | refused | failed |",
        "|---|--:|--:|--:|--:|",
        *rows,
        "",
        f"{cases:,} cases in {minutes:,.0f} minutes of one core ({_where(found)}).",
    ]
    if GPU.exists():
        lines += ["", _on_a_gpu(json.loads(GPU.read_text("utf-8")))]
    return "\n".join(lines if rows else ["Nothing has been attacked yet: `make attack`."])


def _on_a_gpu(found: dict[str, Any]) -> str:
    """What `python -m attack.gpu` wrote."""
    left = f", {found['not_played']} not played" if found["not_played"] else ""
    said = ", ".join(f"{name} {value}" for name, value in found["versions"].items())
    return (
        f"On a GPU (`python -m attack.gpu`; {found['device']}, {said}): of {found['tests']} tests of recorded steps "
        f"and of tasks that fail or lack memory, {found['passed']} passed and {len(found['failed'])} failed{left}."
    )


def _played(entry: dict[str, Any]) -> str:
    """How many cases, and of how many where it was stopped."""
    whole = entry.get("of", entry["cases"])
    return f"{entry['cases']:,}" + (f" of {whole:,} (stopped)" if entry["cases"] < whole else "")


def _where(found: list[dict[str, Any]]) -> str:
    """Machines, versions and seeds, each said once."""
    machines = sorted({entry["machine"] for entry in found if "machine" in entry})
    said = sorted({", ".join(f"{name} {value}" for name, value in entry["versions"].items()) for entry in found})
    seeds = sorted({entry["seed"] for entry in found})
    return f"{'; '.join([*machines, *said])}; seed {', '.join(map(str, seeds))}"


def write_section() -> None:
    """Put the table between the markers of the page."""
    text = PAGE.read_text("utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(f"{before}{BEGIN}\n{section()}\n{END}{after}", "utf-8")
