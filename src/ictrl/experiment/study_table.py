"""What a study found: its results by line, published files, and the table in Markdown."""

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ictrl.experiment.results import Results
from ictrl.experiment.study import Line, Planned, Study
from ictrl.files import make_folder, write_atomically
from ictrl.methods.base import LEARNERS
from ictrl.theory.metrics import Scores


def results_of(planned: list[Planned]) -> dict[str, list[Results]]:
    """Those of the runs that are done, by the label of their line."""
    found: dict[str, list[Results]] = {}
    for item in planned:
        if (results := item.results) is not None:
            found.setdefault(item.line.label, []).append(results)
    return found


def publish(study: Study, planned: list[Planned], folder: Path) -> None:
    """The results of every finished run as one JSON file each, without the place where the data lay."""
    make_folder(folder)
    for item in planned:
        if (results := item.results) is not None:
            table = replace(results.anywhere(), line=item.line.label).to_table()
            write_atomically(folder / f"{item.folder.name}.json", (json.dumps(table) + "\n").encode())


def read_published(folder: Path) -> dict[str, list[Results]]:
    """The inverse of `publish`: results by the label of their line, seeds ascending."""
    found: dict[str, list[Results]] = {}
    for path in sorted(folder.glob("*.json")):
        results = Results.read(path)
        found.setdefault(str(results.line), []).append(results)
    return {label: sorted(runs, key=lambda results: results.seed) for label, runs in found.items()}


def _paper(line: Line, runs: list[Results]) -> str:
    figures = [f"{line.paper[key]:.3f}" if key in line.paper else "–" for key in ("last", "average")]
    return " / ".join(figures) if line.paper else ""


def _cell(name: str) -> Callable[[Line, list[Results]], str]:
    return lambda line, runs: mean_scores([results.scores[name] for results in runs if name in results.scores])


def _replay(line: Line, runs: list[Results]) -> str:
    shares = [results.replay[-1] for results in runs if results.replay]
    return f"{statistics.mean(shares):.0%}" if shares else ""


def _forgetting(line: Line, runs: list[Results]) -> str:
    lost = statistics.mean(results.memory.forgetting for results in runs)
    return f"{round(lost, 3) + 0.0:.3f}"  # never -0.000


def _added(line: Line, runs: list[Results]) -> str:
    both = [(results.memory.last, results.frozen.last) for results in runs if results.frozen is not None]
    return f"{100 * statistics.mean(memory - frozen for memory, frozen in both):+.1f}" if both else ""


COLUMNS: dict[str, Callable[[Line, list[Results]], str]] = {
    "": lambda line, runs: line.label,
    "paper, reencoded": _paper,
    "reencoded": _cell("reencoded"),
    "memory": _cell("memory"),
    "untrained": _cell("untrained"),
    "frozen after task 1": _cell("frozen"),
    "later tasks add": _added,
    "replay": _replay,
    "kept": lambda line, runs: f"{statistics.mean(results.kept_bytes for results in runs) / 1000:,.0f} kB",
    "learning": lambda line, runs: f"{statistics.mean(results.seconds['learn'] for results in runs):.0f} s",
    "seeds": lambda line, runs: ", ".join(str(results.seed) for results in runs),
}
"""What the table of a study says of a line and its runs."""
FURTHER: dict[str, Callable[[Line, list[Results]], str]] = {
    "forgetting": _forgetting,
    "keeps": lambda line, runs: LEARNERS[line.recipe.method.name].keeps,
}
"""What it can say besides, where the study asks for it."""


def table(study: Study, results: dict[str, list[Results]], columns: Sequence[str] = ()) -> str:
    """Last ± deviation / average accuracy, of the lines that have results, as Markdown."""
    columns, cells = columns or study.columns or tuple(COLUMNS), COLUMNS | FURTHER
    rows = [list(columns), ["---"] * len(columns)]
    for line in study.lines:
        if runs := results.get(line.label, []):
            rows.append([cells[column](line, runs) for column in columns])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def mean_scores(scores: list[Scores]) -> str:
    """Last ± deviation over seeds / average, as text; nothing of nothing."""
    if not scores:
        return ""
    last, average = [score.last for score in scores], [score.average for score in scores]
    spread = f" ± {statistics.stdev(last):.3f}" if len(last) > 1 else ""
    return f"{statistics.mean(last):.3f}{spread} / {statistics.mean(average):.3f}"
