"""How small and how soon ready a learner is: sizes, load times and agreement of whole, inference and ONNX files.

    python benchmarks/deploy.py                                   ratios within one run
    python benchmarks/deploy.py --out docs/results/onnx/deploy.json   also rewrites the table of docs/deploy.md

Learners of ten digits in two tasks, by recipes with few epochs: sizes do not depend on them. A load is that of a fresh
process, from the import of ictrl to the first prediction, the median of three. ONNX and PyTorch are compared on 10,000
pictures: digits, moved by up to a pixel and with noise.
"""

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
import torch

import ictrl

DOCS = Path(__file__).parent.parent / "docs"
PICTURES, REPEATS = 10_000, 3
GAME = {"first": {"epochs": 3}, "later": {"epochs": 2}}
TRUNK = {"trunk": {"epochs": 6, "warmup": 1}}
SHORT = {"digits": TRUNK, "ictrl-digits": GAME, "wide-ictrl-digits": {**TRUNK, **GAME}}
START, END = "<!-- written by benchmarks/deploy.py -->", "<!-- end -->"

LOAD = """
import time, torch
begin = time.perf_counter()
import ictrl
learner = ictrl.load_learner({path!r}, device="cpu")
network = learner.recipe.method.network
learner.predict(torch.zeros(1, network.channels, network.image_size, network.image_size, dtype=torch.uint8))
print(time.perf_counter() - begin)
"""


def load_seconds(path: Path) -> float:
    """Median over fresh processes."""
    script = [sys.executable, "-c", LOAD.format(path=str(path))]
    times = [float(subprocess.run(script, capture_output=True, text=True, check=True).stdout) for _ in range(REPEATS)]
    return float(np.median(times))


def shaken(images: torch.Tensor, n: int) -> torch.Tensor:
    """n pictures: each drawn from the images, moved by up to a pixel, with noise."""
    random = np.random.default_rng(0)
    chosen = images.numpy()[random.integers(0, len(images), n)]
    moved = [np.roll(x, random.integers(-1, 2, 2), (1, 2)) for x in chosen]
    noisy = np.stack(moved) + random.normal(0, 12, chosen.shape)
    return torch.from_numpy(noisy.clip(0, 255).astype(np.uint8))


def measure(name: str, folder: Path) -> dict[str, float | int | str]:
    recipe = ictrl.recipe_with(ictrl.load_recipe(name), {"method": SHORT[name]})
    network = recipe.method.network
    data = ictrl.load_dataset("digits", image_size=network.image_size, channels=network.channels)
    learner = ictrl.create_learner(recipe, device="cpu")
    for task in ictrl.split_tasks(data, ictrl.StreamConfig(dataset="digits", tasks=2)):
        learner.learn(task.images, task.labels)
    files = {kind: folder / f"{name}-{kind}.safetensors" for kind in ("whole", "inference")}
    learner.save(files["whole"])
    learner.save(files["inference"], inference_only=True)
    graph = folder / f"{name}.onnx"
    ictrl.export_onnx(learner, graph)
    images = shaken(torch.as_tensor(data.test_images), PICTURES)
    found, labels = onnxruntime.InferenceSession(graph).run(["scores", "labels"], {"images": images.numpy()})
    scores = learner.scores(images).numpy()
    return {
        "recipe": name,
        **{f"{kind}_bytes": path.stat().st_size for kind, path in files.items()},
        "onnx_bytes": graph.stat().st_size,
        **{f"{kind}_load_seconds": load_seconds(path) for kind, path in files.items()},
        "pictures": len(images),
        "labels_equal": int((labels == learner.predict(images).numpy()).sum()),
        "largest_difference": float((np.abs(found - scores) / np.maximum(1, np.abs(scores))).max()),
    }


def table(measured: dict) -> str:  # type: ignore[type-arg]
    """As docs/deploy.md shows it."""
    lines = [
        "| learner | whole | inference only | ONNX "
        "| load, whole | load, inference only | labels equal | scores within |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in measured["learners"]:
        sizes = " | ".join(f"{row[f'{kind}_bytes'] / 1e3:,.0f} kB" for kind in ("whole", "inference", "onnx"))
        loads = " | ".join(f"{row[f'{kind}_load_seconds']:.2f} s" for kind in ("whole", "inference"))
        equal = f"{row['labels_equal']:,} of {row['pictures']:,}"
        lines.append(f"| `{row['recipe']}` | {sizes} | {loads} | {equal} | {row['largest_difference']:.0e} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(name, Path(folder)) for name in SHORT]
    versions = {"torch": torch.__version__, "onnxruntime": onnxruntime.__version__, "ictrl": ictrl.__version__}
    measured = {"machine": f"{platform.machine()}, {torch.get_num_threads()} threads", **versions, "learners": rows}
    print(table(measured))
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(measured, indent=2) + "\n", encoding="utf-8")
        page = DOCS / "deploy.md"
        before, _, rest = page.read_text(encoding="utf-8").partition(START)
        _, _, after = rest.partition(END)
        page.write_text(f"{before}{START}\n{table(measured)}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
