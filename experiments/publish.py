"""Publishes results: runs the digits recipes over seeds, and writes every table of the docs from files.

    make results                     or: python experiments/publish.py [--seeds 0 1 2]
    python experiments/publish.py --tables

The first runs the digits and writes docs/results/digits.json and the picture docs/digits.png. Both then write the
tables between the README's markers, the pages docs/results.md and docs/experiments.md, and what `ictrl recipes` says
that each recipe reaches. The results of studies are put into docs/results by
`ictrl study NAME --publish docs/results`, those of the studies beside this file, which chose settings, into
experiments/results. Nobody types numbers by hand: a test compares the pages with the files.
"""

import argparse
import json
import re
import statistics
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from ictrl import Recipe, Results, load_recipe, run
from ictrl.experiment.study import Study, load_study, study_names
from ictrl.experiment.study_table import COLUMNS, mean_scores, read_published, table
from ictrl.methods.base import LEARNERS
from ictrl.methods.capabilities import Draws
from ictrl.recipes.legacy import whole_recipe
from ictrl.recipes.reader import by_number
from ictrl.recipes.tables import differences, recipe_from_table, recipe_with
from ictrl.report import overview

ROOT = Path(__file__).parent.parent
RECIPES = ("wide-ictrl-digits", "letters", "digits", "ictrl-digits", "paper-digits")
RESULTS = ROOT / "docs" / "results"
CHOSEN_BY = ROOT / "experiments"
PICTURE = ROOT / "docs" / "digits.png"
README = ROOT / "README.md"
PAGE = ROOT / "docs" / "results.md"
REACHED = ROOT / "src" / "ictrl" / "recipes" / "reached.json"
EXPERIMENTS = ROOT / "docs" / "experiments.md"
RIVALS = ("rivals", "references")  # studies with a page of their own, docs/rivals.md
GENERATIVE = ("generative", "generative-digits")  # and docs/generative.md
BEGIN, END = "<!-- results -->", "<!-- end of results -->"
HEAD = [
    "| recipe | memory | reencoded | untrained floor | frozen floor | forgetting, memory | kept | learning |",
    "|---|---|---|---|---|---|---|---|",
]


def row(name: str, runs: list[Results]) -> str:
    """One recipe: last ± deviation / average accuracy under each protocol, mean over its runs."""
    cells = [f"`{name}`"]
    for protocol in ("memory", "reencoded", "untrained", "frozen"):
        cells.append(mean_scores([found.scores[protocol] for found in runs if protocol in found.scores]))
    cells.append(f"{statistics.mean(found.memory.forgetting for found in runs):.3f}")
    cells.append(f"{statistics.mean(found.kept_bytes for found in runs) / 1000:,.0f} kB")
    cells.append(f"{statistics.mean(found.seconds['learn'] for found in runs):.0f} s")
    return f"| {' | '.join(cells)} |"


def conditions(runs: list[Results]) -> str:
    """Machine, versions, seeds and sizes behind a table."""
    first = runs[0]
    kept = sorted({found.kept_bytes / 1000 for found in runs})
    replaced = sorted({found.image_bytes / 1000 for found in runs})
    sizes = from_to(sorted({found.parameters / 1e6 for found in runs}), ".2f")
    seeds = ", ".join(str(seed) for seed in sorted({found.seed for found in runs}))
    return (
        f"{first.device}; torch {first.versions['torch']}, Python {first.versions['python']}; seeds {seeds}; "
        f"{sizes} M parameters; memory {from_to(kept)} kB for {from_to(replaced)} kB of images"
    )


def from_to(values: list[float], spec: str = ",.0f") -> str:
    return " to ".join(dict.fromkeys(format(value, spec) for value in (values[0], values[-1])))


def digits_runs() -> dict[str, list[Results]]:
    """The published runs of the digits, by recipe."""
    published = json.loads((RESULTS / "digits.json").read_text())
    return {name: [Results.from_table(found) for found in runs] for name, runs in published["runs"].items()}


README_LINES = {
    "best": (
        "MNIST, 5 tasks, wide",
        "CIFAR-10, 5 tasks, wide",
        "CIFAR-10, 10 tasks, wide",
        "CIFAR-10, 5 tasks, wide, large",
        "CIFAR-100, 10 tasks, wide",
    ),
    "table1": ("CIFAR-10, 5 tasks, for memory",),
}


def readme_table() -> str:
    """The best recipes' rows for the README: both protocols between the paper's figures and the floors."""
    lines, found = [], {}
    for name, labels in README_LINES.items():
        study, published = load_study(name), read_published(RESULTS / name)
        lines += [line for line in study.lines if line.label in labels]
        found |= {label: published[label] for label in labels}
    columns = [column for column in COLUMNS if column not in ("replay", "learning", "seeds")]
    rows = table(Study("readme", "", tuple(lines)), found, columns)
    rows = rows.replace(", for memory", ", i-CTRL").replace(", wide", "")
    rows = re.sub(r" ± \d\.\d+", "", rows).replace(" / ", "/").replace(" kB", "\u00a0kB")  # to fit on a page
    runs = [results for group in found.values() for results in group]
    first, sizes = runs[0], from_to(sorted({results.parameters / 1e6 for results in runs}), ".2f")
    note = (
        f"Last/average accuracy, test images, mean of seeds 0 to 2 (CIFAR-100: one). {first.device}, torch "
        f"{first.versions['torch']}; {sizes} M parameters; recipes `best-…`, the last row `ictrl-cifar10-5`. Later "
        f"tasks add: points over frozen. {best_rivals()} [All results](docs/results.md)."
    )
    return "\n".join([rows, "", note])


def best_rivals() -> str:
    """The best of other papers' methods on CIFAR-10 in five tasks: without images, and with 2,000."""
    found = read_published(RESULTS / "rivals")
    last = {label: statistics.mean(results.memory.last for results in runs) for label, runs in found.items()}
    best = {}
    for images in ("", ", 2000 images"):
        labels = [f"cifar10-5, {name}{images}" for name in LEARNERS if LEARNERS[name].keeps_images == bool(images)]
        best[images] = max((last[label], label.split(", ")[1]) for label in labels if label in last)
    (without, first), (some, second) = best.values()
    return (
        f"Others on the [same bench](docs/rivals.md), CIFAR-10, 5 tasks: at best {without:.3f} without images "
        f"(`{first}`), {some:.3f} with 2,000 (`{second}`)."
    )


def digits_table() -> str:
    """Digits and letters by the recipes for two cores, for docs/results.md."""
    published = digits_runs()
    everything = [found for runs in published.values() for found in runs]
    note = f"Accuracy on test images; {conditions(everything)}. Written by `make results`."
    return "\n".join([*HEAD, *(row(name, runs) for name, runs in published.items()), "", note])


def page() -> str:
    """docs/results.md: the table of every study that has results."""
    parts = [
        "# Results",
        "",
        "Written by `python experiments/publish.py --tables` from the files in `docs/results`, which "
        "`ictrl study NAME --root DATA --publish docs/results` wrote; do not edit.",
        "",
        "Accuracy after the last task ± deviation over seeds / average over tasks, on the test images. **memory**: "
        "nothing but what the learner stored. **reencoded**, the paper's protocol: subspaces refitted from the "
        "training images of all classes, old ones included. Two floors, reencoded: the networks *untrained*, and "
        "*frozen* as they were after the first task; *later tasks add* so many points to that, from memory. The floors "
        "of `wide`, whose memory says what all old images would say, are those of its own reading. *Replay*: the "
        "share of features drawn from memory in the end that are still recognised after decoding and encoding. "
        "*Learning* is the time that it took, of most runs while others shared the GPU; how fast it is alone is in "
        "[speed.md](speed.md). A line that was not run itself shows the runs that another study made of the same "
        "recipe and seeds.",
        *repeats(),
    ]
    small = "The ten digits that scikit-learn carries, and twenty letters drawn by fonts, in five tasks."
    digits = ["", "## digits", "", small, "", digits_table()]
    others = [*sections(chosen_by=False), *rivals(), *reviews(RESULTS / "review")]
    return "\n".join([*parts, *digits, *others]) + "\n"


def rivals() -> list[str]:
    """Where the studies are that have a page of their own, if any of them has results."""
    if not any(read_published(RESULTS / name) for name in RIVALS):
        return []
    return ["", "## rivals", "", f"{load_study('rivals').description}: [Methods side by side](rivals.md)."]


def experiments() -> str:
    """docs/experiments.md: what settings were chosen by."""
    parts = [
        "# What was tried",
        "",
        "Written by `python experiments/publish.py --tables` from files that `ictrl study experiments/NAME.toml --root "
        "DATA --publish experiments/results` wrote; do not edit. Every line is a setting that was compared, winners "
        "and losers, by its accuracy on **validation images** held out of the training images, with class orders and "
        "seeds that no published figure has; the test images had no part in it. Columns as in "
        "[results.md](results.md).",
        "",
        "Words of the lines: *λ* weighs the distances ΔR(Zⱼ, Ẑⱼ) of new classes (`weights.lambda_new` of the stages "
        "`first` and `later`); *transport* is drift compensation (`memory.drift_compensation`): what is stored moves "
        "along with the encoder; *directions* and *samples* are what memory keeps per class and draws from each "
        "(`memory.directions`, `memory.samples`); *anchors A and B* are feature distillation: how far features of new "
        "and of replayed images may move from where they were (`later.weights.distill_new`, `distill_replayed`); *the "
        "loop* is how far features come back from decoding and encoding (`later.weights.loop`); *redrawn* how much "
        "replayed images may change (`later.weights.redrawn`); *turns in the first task* are rotations by quarters, as "
        "classes of their own (`first.augmentation.rotations`); *averages* are an EMA of both networks' weights over "
        "some epochs (`ema`); *a warmup* lets the learning rate rise at the beginning of each later task "
        "(`later.warmup`), where *moments begun afresh* are those of Adam (`game.optimiser`); *the Gaussian "
        "classifier* is `classifier.kind`. A line that begins with … goes on from the last one that does not; every "
        "file has all its settings.",
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
    here = [name for name in study_names() if name not in (*RIVALS, *GENERATIVE)]
    for study, folder in choosing() if chosen_by else [(load_study(name), RESULTS / name) for name in here]:
        found = read_published(folder)
        if not found:
            continue
        if not chosen_by:
            found = with_shared(study, found)
        runs = [results for line in found.values() for results in line]
        machines = sorted({f"{results.device}, torch {results.versions['torch']}" for results in runs})
        parts += ["", f"## {study.name}", "", f"{study.description}.", "", table(study, found), ""]
        parts.append(f"{'; '.join(machines)}.")
        if missing := [line.label for line in study.lines if line.label not in found]:
            parts += ["", f"Not run yet: {'; '.join(missing)}."]
    return parts


def choosing() -> list[tuple[Study, Path]]:
    """The studies that settings were chosen by, each with the folder of its results."""
    files = sorted(CHOSEN_BY.glob("choosing-*.toml"), key=lambda file: by_number(file.stem))
    return [(load_study(file), CHOSEN_BY / "results" / file.stem) for file in files]


def measured_recipe(results: Results) -> Recipe:
    """The recipe of a published run, without seed, device and place."""
    return stripped(results.recipe)


def stripped(recipe: Recipe) -> Recipe:
    """The recipe without seed, device, place and the words it says of itself."""
    return recipe_with(recipe, {"description": "", "stream": {"root": None}, "run": {"seed": 0, "device": "auto"}})


def published_runs() -> list[Results]:
    """Every run of every study but those that settings were chosen by."""
    folders = [RESULTS / name for name in study_names() if (RESULTS / name).exists()]
    return [results for folder in folders for runs in read_published(folder).values() for results in runs]


def repeats() -> list[str]:
    """What moves where nothing was changed: recipes that several studies have run with one seed."""
    alike: list[tuple[Recipe, int, list[Results]]] = []
    for found in published_runs():
        if not found.device.startswith("cuda"):
            continue
        recipe, seed = measured_recipe(found), found.seed
        runs = next((group for other, own, group in alike if (other, own) == (recipe, seed)), None)
        if runs is None:
            alike.append((recipe, seed, [found]))
        else:
            runs.append(found)
    told = [
        f"`{recipe.name}`, seed {seed}, {len(runs)} times: "
        + ", ".join(
            f"{protocol} {from_to(sorted(found.scores[protocol].last for found in runs), '.3f')}"
            for protocol in ("reencoded", "memory")
            if all(protocol in found.scores for found in runs)
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


def with_shared(study: Study, found: dict[str, list[Results]]) -> dict[str, list[Results]]:
    """And the runs of lines that were not run, if another study has run the very same recipe with the same seeds."""
    known = published_runs()
    shared = {}
    for line in study.lines:
        wanted = stripped(line.recipe)
        alike = {run.seed: run for run in known if run.seed in line.seeds and measured_recipe(run) == wanted}
        if line.label not in found and len(alike) == len(line.seeds):
            shared[line.label] = [alike[seed] for seed in line.seeds]
    return {**found, **shared}


def reviews(folder: Path) -> list[str]:
    """The table of reviews, `review.json` of one run a seed: accuracy cycle by cycle, against the joint model's."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    if not found:
        return []
    first = found[0]
    manner = {key: first[key] for key in ("with_labels", "merge", "doubtful", "epochs", "distillation")}
    assert all({key: review[key] for key in manner} == manner for review in found)
    told = "; ".join(
        f"distillation times {value:g}" if key == "distillation" else f"{key.replace('_', ' ')}: {value}"
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
    as_it_was = recipe_with(recipe_from_table(whole_recipe(recipe)), {"run": {"seed": 0}})
    changed = differences(load_recipe(recipe["name"]), as_it_was)
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
        f"{', '.join(changed)} ({told}). Each file in `docs/results/review` is a run's `review.json`, "
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
    runs = digits_runs()
    for name in ("table1", "cifar100", "best", "authors", "rivals", "imagenet50"):
        runs |= as_they_are(load_study(name), RESULTS / name)
    return {
        name: {
            "seeds": sorted(results.seed for results in found),
            "device": found[0].device,
            **{
                protocol: {
                    key: round(statistics.mean(getattr(results.scores[protocol], key) for results in found), 6)
                    for key in ("last", "average")
                }
                for protocol in found[0].protocols
            },
        }
        for name, found in sorted(runs.items())
    }


def as_they_are(study: Study, folder: Path) -> dict[str, list[Results]]:
    """By recipe, the published runs of the lines that change nothing in theirs but where images lie."""
    found = read_published(folder)
    lines = [line for line in study.lines if line.label in found]
    same = [line for line in lines if anywhere(line.recipe) == anywhere(load_recipe(line.recipe.name))]
    return {line.recipe.name: found[line.label] for line in same}


def anywhere(recipe: Recipe) -> Recipe:
    """A recipe without the place of its images."""
    return replace(recipe, stream=replace(recipe.stream, root=None))


def with_tables(readme: str) -> str:
    """The README with its table between the markers."""
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END, 1)
    return f"{before}{BEGIN}\n{readme_table()}\n{END}{after}"


def run_digits(seeds: list[int]) -> None:
    published: dict[str, Any] = {"command": "make results", "seeds": seeds, "runs": {name: [] for name in RECIPES}}
    found: dict[str, Results] = {}
    replayed = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in RECIPES:
            for seed in seeds:
                recipe = recipe_with(load_recipe(name), {"run": {"seed": seed}})
                finished = run(recipe, Path(folder) / f"{name}-{seed}")
                published["runs"][name].append(finished.results.to_table())
                print(f"{name} seed {seed}: memory {finished.results.memory.last:.3f}", flush=True)
                if seed == seeds[0]:
                    found[name] = finished.results
                    if name == RECIPES[0] and isinstance(finished.learner, Draws):
                        learner = finished.learner
                        replayed = {label: learner.sample(label, 10) for label in finished.learner.labels}
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "digits.json").write_text(json.dumps(published, indent=1) + "\n")
    PICTURE.write_bytes(overview(found[RECIPES[0]], replayed, {"the paper's method": found["paper-digits"]}))


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
