"""Publishes results: runs the digits recipes over seeds, and writes every table of the docs from files.

    make results                     or: python benchmarks/results.py [--seeds 0 1 2]
    python benchmarks/results.py --tables

The first runs the digits and writes docs/results/digits.json and the picture docs/digits.png. Both then write the
tables between the README's markers, the pages docs/results.md and docs/experiments.md, and what `ictrl recipes` says
that each recipe reaches. The results of studies are put into docs/results by
`ictrl study NAME --publish docs/results`. Nobody types numbers by hand: a test compares the pages with the files.
"""

import argparse
import json
import statistics
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from ictrl import load_recipe
from ictrl.config import Recipe
from ictrl.experiment.run import run
from ictrl.recipes.reader import differences, recipe_from_table
from ictrl.report import overview
from ictrl.experiment.study import HEADER, Study, load_study, read_published, study_names, table

ROOT = Path(__file__).parent.parent
RECIPES = ("digits", "digits-paper")
RESULTS = ROOT / "docs" / "results"
PICTURE = ROOT / "docs" / "digits.png"
README = ROOT / "README.md"
PAGE = ROOT / "docs" / "results.md"
REACHED = ROOT / "src" / "ictrl" / "recipes" / "reached.json"
EXPERIMENTS = ROOT / "docs" / "experiments.md"
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
    kept, replaced = (sorted({r[key] / 1000 for r in runs}) for key in ("memory_bytes", "image_bytes"))
    sizes = from_to(sorted({r["parameters"] / 1e6 for r in runs}), ".2f")
    seeds = ", ".join(str(seed) for seed in sorted({r["seed"] for r in runs}))
    return (
        f"{first['device']}; torch {first['versions']['torch']}, Python {first['versions']['python']}; seeds {seeds}; "
        f"{sizes} M parameters; memory {from_to(kept)} kB for {from_to(replaced)} kB of images"
    )


def from_to(values: list[float], spec: str = ",.0f") -> str:
    return " to ".join(dict.fromkeys(format(value, spec) for value in (values[0], values[-1])))


def digits_table() -> str:
    published = json.loads((RESULTS / "digits.json").read_text())
    rows = [row(name, runs) for name, runs in published["runs"].items()]
    note = (
        f"Accuracy after the last task ± deviation / average over tasks. {conditions(published['runs']['digits'])}. "
        "Every figure is in [docs/results/digits.json](docs/results/digits.json), written by `make results`."
    )
    return "\n".join([*HEAD, *rows, "", note])


def readme_table(name: str) -> str:
    """A study's table for the README: both protocols between the paper's figures and the floors."""
    study, found = load_study(name), read_published(RESULTS / name)
    columns = [column for column in HEADER if column not in ("replay", "learning", "seeds")]
    note = (
        "Accuracy after the last task ± deviation / average over tasks. "
        f"{conditions([r for runs in found.values() for r in runs])}. "
        "All results are in [docs/results.md](docs/results.md), and every figure in a file a run in "
        "[docs/results](docs/results)."
    )
    return "\n".join([table(study, found, columns), "", note])


def page() -> str:
    """docs/results.md: the table of every study that has results."""
    parts = [
        "# Results",
        "",
        "Written by `python benchmarks/results.py --tables` from the files in [docs/results](results), which "
        "`ictrl study NAME --root DATA --publish docs/results` wrote; do not edit.",
        "",
        "Accuracy after the last task ± deviation over seeds / average over tasks, on the test images. **memory**: "
        "nothing but what the learner stored. **reencoded**, the paper's protocol: subspaces refitted from the "
        "training images of all classes, old ones included. Two floors, reencoded: the networks *untrained*, and "
        "*frozen* as they were after the first task. *Replay*: the share of features drawn from memory in the end that "
        "are still recognised after decoding and encoding. *Learning* is the time that it took, of most runs while "
        "others shared the GPU; how fast it is alone is in [speed.md](speed.md). A line that was not run itself shows "
        "the runs that another study made of the same recipe and seeds.",
        *repeats(),
    ]
    return "\n".join([*parts, *sections(chosen_by=False), *reviews(RESULTS / "review")]) + "\n"


def experiments() -> str:
    """docs/experiments.md: what settings were chosen by."""
    parts = [
        "# What was tried",
        "",
        "Written by `python benchmarks/results.py --tables` from files that `ictrl study NAME --root DATA --publish "
        "docs/results` wrote; do not edit. Every line is a setting that was compared, winners and losers, by its "
        "accuracy on **validation images** held out of the training images, with class orders and seeds that no "
        "published figure has; the test images had no part in it. Columns as in [results.md](results.md).",
        "",
        "Words: *λ* weighs the distances ΔR(Zⱼ, Ẑⱼ) of new classes (`objective.lambda_new`, in the first task "
        "`objective.lambda_first`); *transport* moves what is stored along with the encoder (`memory.transport`); "
        "*directions* and *samples* are what memory keeps of a class and draws from each (`memory.directions`, "
        "`memory.samples`); *anchors A and B* weigh how far features of new and of replayed images may move from "
        "where they were (`anchors.new`, `anchors.replayed`); *the loop* how far features come back from decoding "
        "and encoding (`anchors.loop`); *redrawn* how much replayed images may change (`anchors.redrawn`); *turns "
        "in the first task* are images turned by quarters, as classes of their own (`game.first_turns`); *averages* "
        "are means of both networks' weights over some epochs (`game.averaged`); *a warmup* lets the learning rate "
        "rise at the beginning of each later task (`game.warmup`), where *moments begun afresh* are those of Adam "
        "(`game.optimiser`); *the Gaussian classifier* is `classifier.kind`. "
        "A line that begins with … goes on from the last one that does not; every file has all its settings.",
        "",
        "Figures of the best lines are somewhat too good: they were picked by these images, and so were the Gaussian "
        "classifier's pooled share and shrinkage, among many.",
        "",
        "Tried and taken out again, because it lost from memory: turned images as "
        "classes of their own in every task instead of the first alone, which drove memory and encoder apart; a "
        "decoder that minimises the distances alone and not ΔR(Ẑ).",
        "",
        "On MNIST, all lines but those with a shrinkage of 0.02 or a warmup were run when a pixel that bfloat16 "
        "rounds to black or white could not change any more. With *anchors 40 and 160, less shrinkage, ten tasks* the "
        "decoder drew nothing that was recognised from the second task to the ninth. The line that differs in "
        "shrinkage alone was run after this was mended, and it did not happen again: one run each, so this "
        "may have been the reason, or not.",
    ]
    return "\n".join([*parts, *sections(chosen_by=True)]) + "\n"


def sections(chosen_by: bool) -> list[str]:
    """The tables of the studies that settings were chosen by, or of the others."""
    parts = []
    for name in study_names():
        found = read_published(RESULTS / name) if (RESULTS / name).exists() else {}
        if not found or name.startswith("choosing-") != chosen_by:
            continue
        study = load_study(name)
        if not chosen_by:
            found = with_shared(study, found)
        runs = [r for line in found.values() for r in line]
        machines = sorted({f"{r['device']}, torch {r['versions']['torch']}" for r in runs})
        parts += ["", f"## {name}", "", f"{study.description}.", "", table(study, found), "", f"{'; '.join(machines)}."]
        if missing := [line.label for line in study.lines if line.label not in found]:
            parts += ["", f"Not run yet: {'; '.join(missing)}."]
    return parts


def measured_recipe(results: dict[str, Any]) -> Recipe:
    """The recipe of a published run, without seed, device and place; of settings there were not yet, what was done."""
    written = results["recipe"]
    later: dict[str, dict[str, Any]] = {"classifier": {"kind": "subspace"}, "game": {"averaged": 0.0}}
    if written["memory"]["transport"]:
        later["memory"] = {"transport_replayed": 1.0}
    recipe = recipe_from_table({**written, **{part: {**gone, **written[part]} for part, gone in later.items()}})
    return replace(recipe, seed=0, device="auto", data=replace(recipe.data, root=None))


def published_runs() -> list[dict[str, Any]]:
    """Every run of every study but those that settings were chosen by."""
    others = [name for name in study_names() if not name.startswith("choosing-") and (RESULTS / name).exists()]
    return [run for name in others for runs in read_published(RESULTS / name).values() for run in runs]


def repeats() -> list[str]:
    """What moves where nothing was changed: recipes that several studies have run with one seed."""
    alike: list[tuple[Recipe, int, list[dict[str, Any]]]] = []
    for found in published_runs():
        recipe, seed = measured_recipe(found), found["seed"]
        runs = next((group for other, own, group in alike if (other, own) == (recipe, seed)), None)
        if runs is None:
            alike.append((recipe, seed, [found]))
        else:
            runs.append(found)
    told = [
        f"`{recipe.name}`, seed {seed}, {len(runs)} times: "
        + ", ".join(
            f"{protocol} {from_to(sorted(r[protocol]['last'] for r in runs), '.3f')}"
            for protocol in ("reencoded", "memory")
        )
        for recipe, seed, runs in alike
        if len(runs) > 1
    ]
    if not told:
        return []
    return [
        "",
        "On a GPU a seed does not fix a run. The same recipe with the same seed in several studies, after the last "
        f"task: {'; '.join(told)}. Differences of that size between two lines of one seed say nothing.",
    ]


def with_shared(study: Study, found: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """And the runs of lines that were not run, if another study has run the very same recipe with the same seeds."""
    known = published_runs()
    shared = {}
    for line in study.lines:
        wanted = replace(line.recipe, seed=0, device="auto")
        alike = {run["seed"]: run for run in known if run["seed"] in line.seeds and measured_recipe(run) == wanted}
        if line.label not in found and len(alike) == len(line.seeds):
            shared[line.label] = [alike[seed] for seed in line.seeds]
    return {**found, **shared}


def reviews(folder: Path) -> list[str]:
    """The table of reviews, `review.json` of one run a seed: accuracy cycle by cycle, against the joint model's."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    if not found:
        return []
    first = found[0]
    manner = {key: first[key] for key in ("with_labels", "merge", "doubtful", "epochs", "anchors")}
    assert all({key: review[key] for key in manner} == manner for review in found)
    told = "; ".join(
        f"anchors times {value:g}" if key == "anchors" else f"{key.replace('_', ' ')}: {value}"
        for key, value in manner.items()
    )
    seeds = ", ".join(str(review["seed"]) for review in found)
    rows = ["| cycles | memory | reencoded | classes recognised |", "| --- | --- | --- | --- |"]
    for cycle in range(min(len(review["cycles"]) for review in found)):
        entries = [review["cycles"][cycle] for review in found]
        cells = [mean_and_deviation([entry[protocol] for entry in entries]) for protocol in ("memory", "reencoded")]
        known = [entry["recognised"] for entry in entries if entry["recognised"] is not None]
        rows.append(f"| {cycle} | {' | '.join(cells)} | {f'{statistics.mean(known):.0%}' if known else ''} |")
    if all(review["joint"] for review in found):
        joint = [{r["joint"][protocol] for r in found} for protocol in ("memory", "reencoded")]  # seeds may share a run
        cells = [mean_and_deviation(sorted(values)) for values in joint]
        rows.append(f"| all classes at once | {' | '.join(cells)} | |")
    recipe = first["recipe"]
    changed = differences(load_recipe(recipe["name"]), recipe_from_table({**recipe, "seed": 0}))
    missed = [
        f"class {label} of seed {review['seed']} was taken for {taken} in {count} of {len(review['cycles']) - 1} cycles"
        for review in found
        for (label, taken), count in misses(review).items()
    ]
    return [
        "",
        "## review",
        "",
        f"Every class once more in each cycle, one at a time, after a run of `{recipe['name']}` with "
        f"{', '.join(changed)} ({told}). Each file in [docs/results/review](results/review) is a run's `review.json`, "
        "and says what every class was taken for.",
        "",
        *rows,
        "",
        *([f"Not recognised: {'; '.join(missed)}.", ""] if missed else []),
        f"{first['device']}, torch {first['versions']['torch']}; seeds {seeds}.",
    ]


def misses(review: dict[str, Any]) -> Counter[tuple[int, int]]:
    """How often each class was taken for each other one."""
    seen = [entry for cycle in review["cycles"] for entry in cycle["classes"]]
    return Counter((entry["label"], entry["taken_for"]) for entry in seen if entry["taken_for"] != entry["label"])


def mean_and_deviation(values: list[float]) -> str:
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.3f}{spread}"


def reached() -> dict[str, Any]:
    """What `ictrl recipes` says of every recipe that was measured on test images as it is."""
    runs = dict(json.loads((RESULTS / "digits.json").read_text())["runs"])
    for name in ("table1", "cifar100"):
        for found in read_published(RESULTS / name).values() if (RESULTS / name).exists() else ():
            runs[found[0]["recipe"]["name"]] = found
    return {
        name: {
            "seeds": sorted(r["seed"] for r in found),
            "device": found[0]["device"],
            **{
                protocol: {
                    key: round(statistics.mean(r[protocol][key] for r in found), 6) for key in ("last", "average")
                }
                for protocol in ("memory", "reencoded")
            },
        }
        for name, found in sorted(runs.items())
    }


def with_tables(readme: str) -> str:
    """The README with every table between its markers."""
    tables = {"digits": digits_table(), **{name: readme_table(name) for name in ("table1", "cifar100")}}
    for name, found in tables.items():
        begin = f"<!-- results: {name} -->"
        before, rest = readme.split(begin)
        _, after = rest.split(END, 1)
        readme = f"{before}{begin}\n{found}\n{END}{after}"
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--tables", action="store_true", help="run nothing, write the tables from the files there are")
    arguments = parser.parse_args()
    if not arguments.tables:
        run_digits(arguments.seeds)
    README.write_text(with_tables(README.read_text(encoding="utf-8")), encoding="utf-8")
    for path, text in (
        (PAGE, page()),
        (EXPERIMENTS, experiments()),
        (REACHED, json.dumps(reached(), indent=1) + "\n"),
    ):
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
