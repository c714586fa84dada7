"""What a search found: `search.json` with every trial, a table of the best, and the best settings as a recipe."""

import json
import platform
from pathlib import Path
from typing import Any

from ictrl.experiment.evaluation import versions
from ictrl.experiment.results import to_lines
from ictrl.experiment.search import Search, nested
from ictrl.experiment.search_trials import Trials, optuna_module, value_of
from ictrl.files import write_atomically
from ictrl.recipes.tables import merged

RECORD, TABLE, BEST = "search.json", "table.md", "best.toml"
SHOWN = 10  # trials of the table


def settings_of(search: Search, trial: Any) -> dict[str, Any]:
    """What a trial tried, by the names of settings."""
    return {name: value_of(search.ranges[name], trial.params[name]) for name in search.ranges if name in trial.params}


def write_record(search: Search, trials: Trials, out: Path) -> None:
    """All files that tell of the search, as it stands."""
    best = trials.best(1)
    record = {
        "name": search.name,
        "description": search.description,
        **search.written(),
        "measured_on": "validation images",
        "sampler": {"name": "TPESampler", "seed": trials.seed},
        "versions": {**versions(), "optuna": optuna_module().__version__, "python": platform.python_version()},
        "best": best[0].number if best else None,
        "trials": [_entry(search, trial) for trial in trials.refresh()],
    }
    write_atomically(out / RECORD, (to_lines(record) + "\n").encode())
    write_atomically(out / TABLE, (table(search, trials) + "\n").encode())
    if best:
        write_atomically(out / BEST, best_recipe(search, best[0]).encode())


def _entry(search: Search, trial: Any) -> dict[str, Any]:
    """A trial as JSON has it."""
    seconds = None if trial.duration is None else round(trial.duration.total_seconds(), 1)
    more = {key: trial.user_attrs[key] for key in ("by_seed", "same_as", "error") if key in trial.user_attrs}
    reached = {str(step): value for step, value in sorted(trial.intermediate_values.items())}
    return {
        "number": trial.number,
        "state": trial.state.name.lower(),
        "value": trial.value,
        "settings": settings_of(search, trial),
        "seconds": seconds,
        **({"after_tasks": reached} if reached else {}),
        **more,
    }


def table(search: Search, trials: Trials, many: int = SHOWN) -> str:
    """The best trials as Markdown."""
    names = list(search.ranges)
    rows = [["trial", f"memory, {search.maximise}", *names], ["---"] * (2 + len(names))]
    for trial in trials.best(many):
        found = settings_of(search, trial)
        rows.append([str(trial.number), f"{trial.value:.3f}", *(_shown(found[name]) for name in names)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else json.dumps(value) if isinstance(value, list) else str(value)


def best_recipe(search: Search, trial: Any) -> str:
    """A recipe with the settings of a trial and what all trials have changed, but with test images again."""
    import tomli_w

    settings = merged(search.settings, nested(settings_of(search, trial)))
    stream = {key: value for key, value in settings.get("stream", {}).items() if key != "validation"}
    tables = {**settings, "stream": stream}
    if not stream:
        tables.pop("stream")
    return tomli_w.dumps({"base": search.base, **tables})
