"""Runs the digits recipes over seeds and publishes what came out.

    make results                     or: python benchmarks/digits.py [--seeds 0 1 2]

Writes every run's results and their means to docs/results/digits.json, the picture docs/digits.png, and the table in
the README between its markers. Nobody types these numbers by hand; a test compares the README with the JSON file.
"""

import argparse
import json
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from ictrl import load_recipe
from ictrl.experiment import run
from ictrl.report import overview

ROOT = Path(__file__).parent.parent
RECIPES = ("digits", "digits-paper")
RESULTS = ROOT / "docs" / "results" / "digits.json"
PICTURE = ROOT / "docs" / "digits.png"
README = ROOT / "README.md"
BEGIN, END = "<!-- results: digits -->", "<!-- end of results -->"


def table(published: dict[str, Any]) -> str:
    """The README's table: last / average accuracy, mean over the seeds, and the spread of `last`."""
    seeds, first = published["seeds"], published["runs"][RECIPES[0]][0]
    lines = [
        "| recipe | memory | reencoded | untrained floor, reencoded | forgetting, memory | learning |",
        "|---|---|---|---|---|---|",
    ]
    for name, runs in published["runs"].items():
        cells = [f"`{name}`"]
        for protocol in ("memory", "reencoded", "floor"):
            last, average = ([r[protocol][key] for r in runs] for key in ("last", "average"))
            cells.append(f"{statistics.mean(last):.3f} ± {statistics.stdev(last):.3f} / {statistics.mean(average):.3f}")
        cells.append(f"{statistics.mean(r['memory']['forgetting'] for r in runs):.3f}")
        cells.append(f"{statistics.mean(r['seconds']['learn'] for r in runs):.0f} s")
        lines.append(f"| {' | '.join(cells)} |")
    kept, replaced = first["memory_bytes"] / 1000, first["image_bytes"] / 1000
    versions = first["versions"]
    lines += [
        "",
        f"Accuracy after the last task ± deviation / average over tasks; seeds {', '.join(map(str, seeds))}; "
        f"{first['device']}; torch {versions['torch']}, Python {versions['python']}. Memory {kept:.0f} kB for "
        f"{replaced:.0f} kB of images. Every figure is in [docs/results/digits.json](docs/results/digits.json), "
        f"written by `{published['command']}`.",
    ]
    return "\n".join(lines)


def with_table(readme: str, published: dict[str, Any]) -> str:
    """The README with the table of these results between its markers."""
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{table(published)}\n{END}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    seeds = parser.parse_args().seeds
    published: dict[str, Any] = {"command": "make results", "seeds": seeds, "runs": {name: [] for name in RECIPES}}
    replayed = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in RECIPES:
            for seed in seeds:
                results, learner = run(replace(load_recipe(name), seed=seed), Path(folder) / f"{name}-{seed}")
                published["runs"][name].append(results)
                print(f"{name} seed {seed}: memory {results['memory']['last']:.3f}", flush=True)
                if (name, seed) == (RECIPES[0], seeds[0]):
                    replayed = {int(label): learner.sample(int(label), 10) for label in learner.classes_}
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(published, indent=1) + "\n")
    ours, paper = (published["runs"][name][0] for name in RECIPES)
    PICTURE.write_bytes(overview(ours, replayed, {"the paper's method": paper}))
    README.write_text(with_table(README.read_text(), published))


if __name__ == "__main__":
    main()
