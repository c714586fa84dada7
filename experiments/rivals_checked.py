"""The part of docs/rivals.md that compares our runs with figures that other people published."""

import statistics
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ictrl import Results
from ictrl.experiment.study import Line, load_study
from ictrl.experiment.study_table import COLUMNS, mean_scores, read_published

WORDS = Path(__file__).parent / "references.toml"
CLOSE = 2.0  # points
HEAD = ["| line | setting | ours | published | difference | |", "|---|---|---|---|---|---|"]


def differences(line: Line, runs: list[Results]) -> list[float]:
    """Ours less the published figures, in points."""
    return [
        100 * (statistics.mean(getattr(results.memory, key) for results in runs) - line.paper[key])
        for key in ("last", "average")
        if key in line.paper
    ]


def row(line: Line, runs: list[Results], words: Mapping[str, str]) -> str:
    """One line of the study against its published figure."""
    points = differences(line, runs)
    far = words["reason"] or "not explained yet"
    verdict = "within two points" if max(map(abs, points)) <= CLOSE else far
    cells = [
        line.label,
        words["setting"],
        mean_scores([results.memory for results in runs]),
        f"{COLUMNS['paper, reencoded'](line, runs)}, {words['source']}",
        " / ".join(f"{difference:+.1f}" for difference in points),
        "; ".join(filter(None, (verdict, words.get("note")))),
    ]
    return f"| {' | '.join(cells)} |"


def bench_lines(words: Mapping[str, Any]) -> list[Line]:
    """Lines of the bench that others published a figure for, with that figure instead of the i-CTRL paper's."""
    theirs = {entry["label"]: entry["published"] for entry in words["bench"]}
    return [replace(line, paper=theirs[line.label]) for line in load_study("rivals").lines if line.label in theirs]


def compared(
    lines: Sequence[Line], found: Mapping[str, list[Results]], words: Sequence[Mapping[str, str]]
) -> list[str]:
    """The table of these lines, as far as there are results, and the names of the others."""
    by_label = {entry["label"]: entry for entry in words}
    done = [row(line, found[line.label], by_label[line.label]) for line in lines if line.label in found]
    missing = [line.label for line in lines if line.label not in found]
    return [
        *([*HEAD, *done, ""] if done else []),
        *([f"No results yet: {'; '.join(missing)}.", ""] if missing else []),
    ]


def checked_part(results: Path) -> list[str]:
    """The section: runs under the settings of others, the bench, then what other methods are checked against."""
    study, words = load_study("references"), tomllib.loads(WORDS.read_text(encoding="utf-8"))
    return [
        "",
        "## Checked against other people's figures",
        "",
        f"{study.description}: last / average accuracy, ours from memory, the difference in points. Command: `ictrl "
        "study references --root DATA --publish docs/results`.",
        "",
        *compared(study.lines, read_published(results / "references"), words["runs"]),
        "Lines of the tables above, whose encoder is a tenth as large as a ResNet-18 and trained by other settings, "
        "against what others report of a larger one. Where a method ends at chance the network matters little; "
        "elsewhere it does.",
        "",
        *compared(bench_lines(words), read_published(results / "rivals"), words["bench"]),
        "And tests of the key steps:",
        "",
        "| method | checked against |",
        "|---|---|",
        *(f"| `{entry['method']}` | {entry['against']} |" for entry in words["checked"]),
    ]
