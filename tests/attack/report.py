"""What was attacked: a JSON file per attack in docs/results/attack, and a table in docs/reliability.md."""

import json
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
PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- attacks -->", "<!-- end of attacks -->"


def write(attack: Attack, count: Count, seed: int) -> None:
    """What an attack came to, as a file."""
    versions = {"ictrl": __version__, "torch": torch.__version__, "python": platform.python_version()}
    found = {"name": attack.name, "about": attack.about, **asdict(count), "seed": seed, "versions": versions}
    RESULTS.mkdir(parents=True, exist_ok=True)
    found["seconds"] = round(count.seconds, 1)
    (RESULTS / f"{attack.name}.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")


def section() -> str:
    """The table of all files, as docs/reliability.md has it."""
    found: list[dict[str, Any]] = [json.loads(path.read_text("utf-8")) for path in sorted(RESULTS.glob("*.json"))]
    rows = [
        f"| {entry['about']} | {entry['cases']:,} | {entry['held']:,} | {entry['refused']:,} | {entry['failed']:,} |"
        for entry in found
    ]
    seconds = sum(entry["seconds"] for entry in found)
    lines = [
        "Written by `make attack`; files: `docs/results/attack`. *Held*: afterwards everything was as promised. "
        "*Refused*: one line and an exit code, nothing changed.",
        "",
        "| attack | cases | held | refused | failed |",
        "|---|--:|--:|--:|--:|",
        *rows,
        "",
        f"{sum(entry['cases'] for entry in found):,} cases in {seconds / 60:,.0f} minutes of one core.",
    ]
    return "\n".join(lines if rows else ["Nothing has been attacked yet: `make attack`."])


def write_section() -> None:
    """Put the table between the markers of the page."""
    text = PAGE.read_text("utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(f"{before}{BEGIN}\n{section()}\n{END}{after}", "utf-8")
