"""Publishes results: runs the digits recipes over seeds, and writes every table of the README from files.

    make results                     or: python benchmarks/results.py [--seeds 0 1 2]
    python benchmarks/results.py --publish RUN…

Writes docs/results/digits.json, the picture docs/digits.png, and the tables between the README's markers. `--publish`
takes the results of runs instead, copies them to docs/results and writes the tables; the CIFAR-10 table is made from
these. Nobody types the numbers by hand; a test compares the README with the files.
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
RESULTS = ROOT / "docs" / "results"
PICTURE = ROOT / "docs" / "digits.png"
README = ROOT / "README.md"
END = "<!-- end of results -->"
HEAD = [
    "| recipe | memory | reencoded | untrained floor, reencoded | forgetting, memory | learning |",
    "|---|---|---|---|---|---|",
]


def row(name: str, runs: list[dict[str, Any]]) -> str:
    """One recipe: last ± deviation / average accuracy under each protocol, mean over its runs."""
    cells = [f"`{name}`"]
    for protocol in ("memory", "reencoded", "floor"):
        last, average = ([r[protocol][key] for r in runs] for key in ("last", "average"))
        spread = f" ± {statistics.stdev(last):.3f}" if len(last) > 1 else ""
        cells.append(f"{statistics.mean(last):.3f}{spread} / {statistics.mean(average):.3f}")
    cells.append(f"{statistics.mean(r['memory']['forgetting'] for r in runs):.3f}")
    cells.append(f"{statistics.mean(r['seconds']['learn'] for r in runs):.0f} s")
    return f"| {' | '.join(cells)} |"


def conditions(runs: list[dict[str, Any]]) -> str:
    """Machine, versions, seeds and sizes behind a table."""
    first = runs[0]
    kept, replaced = first["memory_bytes"] / 1000, first["image_bytes"] / 1000
    seeds = ", ".join(str(seed) for seed in sorted({r["seed"] for r in runs}))
    return (
        f"{first['device']}; torch {first['versions']['torch']}, Python {first['versions']['python']}; seeds {seeds}; "
        f"{first['parameters'] / 1e6:.2f} M parameters; memory {kept:,.0f} kB for {replaced:,.0f} kB of images"
    )


def digits_table() -> str:
    published = json.loads((RESULTS / "digits.json").read_text())
    rows = [row(name, runs) for name, runs in published["runs"].items()]
    note = (
        f"Accuracy after the last task ± deviation / average over tasks. {conditions(published['runs']['digits'])}. "
        "Every figure is in [docs/results/digits.json](docs/results/digits.json), written by `make results`."
    )
    return "\n".join([*HEAD, *rows, "", note])


def cifar10_table() -> str:
    runs: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(RESULTS.glob("*-cifar10-5-*.json")):
        results = json.loads(path.read_text())
        runs.setdefault(results["recipe"]["name"], []).append(results)
    note = (
        f"Accuracy after the last task ± deviation / average over tasks. {conditions(next(iter(runs.values())))} "
        "(the first row's). Every figure is in [docs/results](docs/results), a file a run: the `results.json` of "
        "`ictrl run RECIPE --seed SEED --data.root DIR`. The paper reports 0.627 / 0.723, reencoded."
    )
    return "\n".join([*HEAD, *(row(name, found) for name, found in runs.items()), "", note])


def with_tables(readme: str) -> str:
    """The README with every table between its markers."""
    for name, table in {"digits": digits_table(), "cifar10": cifar10_table()}.items():
        begin = f"<!-- results: {name} -->"
        before, rest = readme.split(begin)
        _, after = rest.split(END, 1)
        readme = f"{before}{begin}\n{table}\n{END}{after}"
    return readme


def run_digits(seeds: list[int]) -> None:
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
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "digits.json").write_text(json.dumps(published, indent=1) + "\n")
    ours, paper = (published["runs"][name][0] for name in RECIPES)
    PICTURE.write_bytes(overview(ours, replayed, {"the paper's method": paper}))


def publish(folder: Path) -> None:
    """The results of a run, but for the place where its data lay."""
    results = json.loads((folder / "results.json").read_text())
    results["recipe"]["data"]["root"] = None
    name = f"{results['recipe']['name']}-seed{results['seed']}.json"
    (RESULTS / name).write_text(json.dumps(results, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--publish", type=Path, nargs="*", metavar="RUN", help="publish these runs instead")
    arguments = parser.parse_args()
    if arguments.publish is None:
        run_digits(arguments.seeds)
    for folder in arguments.publish or []:
        publish(folder)
    README.write_text(with_tables(README.read_text()))


if __name__ == "__main__":
    main()
