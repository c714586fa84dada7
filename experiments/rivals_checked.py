"""The part of docs/rivals.md that compares our runs with figures that other people published."""

import statistics
import tomllib
from collections.abc import Mapping
from pathlib import Path

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


def checked_part(folder: Path) -> list[str]:
    """The section: runs under the settings of others, then what other methods are checked against."""
    study, found = load_study("references"), read_published(folder)
    words = tomllib.loads(WORDS.read_text(encoding="utf-8"))
    by_label = {entry["label"]: entry for entry in words["runs"]}
    parts = [
        "",
        "## Checked against other people's figures",
        "",
        f"{study.description}: last / average accuracy, ours from memory, the difference in points. Command: `ictrl "
        "study references --root DATA --publish docs/results`.",
        "",
    ]
    if done := [line for line in study.lines if line.label in found]:
        parts += [*HEAD, *(row(line, found[line.label], by_label[line.label]) for line in done), ""]
    if missing := [line.label for line in study.lines if line.label not in found]:
        parts += [f"Not run yet: {'; '.join(missing)}.", ""]
    parts += ["The other methods have no such run:", "", "| method | checked against |", "|---|---|"]
    return [*parts, *(f"| `{entry['method']}` | {entry['against']} |" for entry in words["checked"])]
