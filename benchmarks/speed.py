"""How fast a step of the game is: images a second, share of the GPU's peak, memory, and what makes it grow.

    make bench                                        on a CPU: the digits' step against plain PyTorch
    python benchmarks/speed.py --out docs/speed.json  on a GPU: everything, and docs/speed.md from it

On a GPU the paper's networks (32 px, 2.37 M parameters) play on random images of CIFAR-10's shape, r = 12 directions,
m = 40 samples, batch by the rule, and the operations of all convolutions are counted: 36 million a pass and image,
three passes where weights learn, two where the gradient only goes through. Times are medians over epochs, by
synchronised clocks, after the step was recorded.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rates import plain_rate
from torch import Tensor, nn

from ictrl import ICTRLConfig, load_recipe, run
from ictrl.kernels import plain_torch
from ictrl.memory.store import Gaussians
from ictrl.nets.dcgan import Decoder, Encoder
from ictrl.nets.wrappers import ImageDecoder, ImageEncoder
from ictrl.recipes.tables import recipe_with
from ictrl.theory.objectives import Objective, Transcription, closed_loop, evaluate
from ictrl.theory.statistics import class_layout
from ictrl.training.game import Batch, Rules, decoder_step, encoder_step
from ictrl.training.graphs import unrecorded
from ictrl.training.loop import EpochReport, TaskHooks
from ictrl.training.players import Players
from ictrl.training.state import TrainingState
from ictrl.training.task import GameTask, play_task

DOCS = Path(__file__).parent.parent / "docs"
IMAGES, SIDE, WIDTH, D = 10_000, 32, 64, 128
DIRECTIONS, SAMPLES = 12, 40
# multiplications and additions of one pass of one image: 4×4 layers of 3-64-128-256-d, either way
PASS_FLOPS = 2 * (256 * 48 * 64 + 64 * 1024 * 128 + 16 * 2048 * 256)
AUTHORS = {2: 1.33, 8: 2.2}  # seconds of an epoch of the authors' loop on an H200, by old classes (first and last task)
AUTHORS_TASKS = 690 / 4 / 100  # seconds of an epoch, mean of its four incremental tasks of 100 epochs


def step_flops(new: int, old: int, d: int = D, anchored: bool = False) -> float:
    """Of all convolutions of one step."""
    encoder = 3 * new + 3 * (new + old) + (new + old) + (old if anchored else 0)  # f(X), f(X̂), g(Z), f_before(X̂)
    decoder = new + 3 * (new + old) + 2 * (new + old)  # f(X), g(Z), through f(X̂)
    return float((PASS_FLOPS + 2 * 4096 * d) * (encoder + decoder))


@contextmanager
def plain_path() -> Iterator[None]:
    """PyTorch's own operations, launched one by one."""
    with plain_torch(), unrecorded():
        yield


def pair(shape: tuple[int, int, int, int], precision: torch.dtype, seed: int, device: str) -> Players:
    generator = torch.Generator().manual_seed(seed)
    encoder, decoder = Encoder(*shape, generator), Decoder(*shape, generator)
    networks = ImageEncoder(encoder, shape[-1], precision), ImageDecoder(decoder, precision)
    return Players.pair(*(network.to(device).eval() for network in networks), 1e-4, (0.5, 0.999))


def memory(classes: int, directions: int, d: int) -> Gaussians | None:
    if not classes:
        return None
    g, generator = classes * directions, torch.Generator().manual_seed(1)
    means = nn.functional.normalize(torch.randn(g, d, generator=generator), dim=1)
    factors = 0.03 * torch.randn(g, 39, d, generator=generator)
    labels = torch.arange(classes).repeat_interleave(directions)
    return Gaussians(means.cuda(), factors.cuda(), labels.cuda())


def measure(
    old: int,
    *,
    new: int = 2,
    images: int = IMAGES,
    batch: int | str = "rule",
    directions: int = DIRECTIONS,
    samples: int = SAMPLES,
    d: int = D,
    precision: torch.dtype = torch.bfloat16,
    anchored: bool = False,
    epochs: int = 12,
) -> dict[str, Any]:
    """One task with `old` classes in memory: seconds of an epoch and what follows from it."""
    generator = torch.Generator().manual_seed(2)
    X = torch.randint(0, 256, (images, 3, SIDE, SIDE), dtype=torch.uint8, generator=generator)
    y = (old + torch.arange(images) % new).cuda()
    changed = {"epochs": epochs, "augmentation": {"mirror": True}}
    later = {**changed, "batch": batch, "weights": {"distill_new": 5.0, "distill_replayed": 20.0} if anchored else {}}
    settings = recipe_with(load_recipe("paper-cifar10-5"), {"method": {"first": changed, "later": later}}).method
    assert isinstance(settings, ICTRLConfig)
    stage = settings.later if old else settings.first
    rows = old * directions * samples
    size = rows * new if stage.batch == "rule" else stage.batch
    steps = -(-images // size)
    times: list[float] = []

    def progress(report: EpochReport) -> None:
        torch.cuda.synchronize()
        times.append(time.perf_counter())

    torch.cuda.reset_peak_memory_stats()
    players = pair((SIDE, 3, WIDTH, d), precision, seed=0, device="cuda")
    optimisers = {"encoder": players.encoder_optimiser, "decoder": players.decoder_optimiser}
    networks = {"encoder": players.encoder.backbone, "decoder": players.decoder.backbone}
    state = TrainingState(networks, optimisers, torch.Generator("cuda").manual_seed(3))
    task = GameTask(X, y, old + new, memory(old, directions, d), samples)
    objective = closed_loop(vars(stage.weights), first=not old)
    play_task(players, task, stage, settings.game, objective, state, TaskHooks(progress))
    seconds = statistics.median(after - before for before, after in pairwise(times[-max(2, epochs - 2) :]))
    flops = steps * step_flops(images // steps, rows, d, anchored and old > 0)
    return {
        "old_classes": old,
        "new_classes": new,
        "new_images_a_step": images // steps,
        "old_rows": rows,
        "samples": samples,
        "d": d,
        "steps": steps,
        "epoch_seconds": seconds,
        "step_seconds": seconds / steps,
        "images_a_second": images / seconds,
        "tflops": flops / seconds / 1e12,
        "peak_gigabytes": torch.cuda.max_memory_allocated() / 1e9,
    }


def matrix_peak() -> float:
    """TFLOP/s of one large bfloat16 matrix product."""
    A, B = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    for _ in range(3):
        A @ B
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(20):
        A @ B
    torch.cuda.synchronize()
    return 20 * 2 * 8192**3 / (time.perf_counter() - start) / 1e12


KINDS = {  # of kernels: those of ictrl.kernels by their names, the libraries' by words in theirs
    "norms with their activations (ours)": ("^_norm",),
    "layers next to the image (ours)": ("^_convolution", "^_give", "^_fold"),
    "rates (ours)": ("^_coding_rate",),
    "convolutions and matrix products": ("gemm", "conv", "xmma", "cutlass", "wgrad", "dgrad", "nvjet"),
    "Adam": ("adam",),
}


def where_the_time_goes(old: int, **settings: Any) -> dict[str, float]:
    """Share of each kind of kernel in the device's working time of one task's loop."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        measure(old, **settings)
    shares = dict.fromkeys([*KINDS, "copies, casts, sums and the rest"], 0.0)
    for event in profiler.key_averages():
        name = f"^{event.key.lower()}"
        kind = next((kind for kind, words in KINDS.items() if any(word in name for word in words)), list(shares)[-1])
        shares[kind] += event.self_device_time_total
    total = sum(shares.values())
    return {kind: time / total for kind, time in shares.items()}


def whole_run(tasks: int, first_epochs: int = 400, **later: Any) -> dict[str, Any]:
    """A run with all that belongs to it: reading, floors, evaluation under both protocols, checkpoints."""
    mirror = {"augmentation": {"mirror": True}}
    stages = {"first": {"epochs": first_epochs, **mirror}, "later": {**later, **mirror}}
    memory = {"neighbours": 40, "samples": SAMPLES}
    recipe = recipe_with(load_recipe(f"paper-cifar10-{tasks}"), {"method": {**stages, "memory": memory}})
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "random.npz"
        generator = np.random.default_rng(0)
        x_train, x_test = (generator.integers(256, size=(n, SIDE, SIDE, 3), dtype=np.uint8) for n in (50_000, 10_000))
        np.savez(file, x_train=x_train, y_train=np.arange(50_000) % 10, x_test=x_test, y_test=np.arange(10_000) % 10)
        recipe = recipe_with(recipe, {"stream": {"dataset": "npz", "root": str(file)}})
        start = time.perf_counter()
        results = run(recipe, Path(folder) / "run").results
        seconds = time.perf_counter() - start
    return {"tasks": tasks, "first_epochs": first_epochs, "whole": seconds, **results.seconds}


def gpu_figures() -> dict[str, Any]:
    found: dict[str, Any] = {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version(),
        "peak_tflops": matrix_peak(),
    }
    measure(2, epochs=4)  # compiles the kernels
    five = (0, 2, 4, 6, 8)
    found["five tasks"] = [measure(old) for old in five]
    found["five tasks, distillation"] = [measure(old, anchored=True) for old in five[1:]]
    found["ten tasks"] = [measure(old, new=1, images=IMAGES // 2) for old in range(10)]
    found["batch of 4000"] = [measure(4, images=12_000, batch=4000)]
    found["kinds of work"] = where_the_time_goes(4, images=12_000, batch=4000)
    found["float32"] = [measure(old, precision=torch.float32, epochs=6) for old in five]
    with plain_path():
        found["plain PyTorch"] = [measure(old, epochs=8) for old in five]
        found["plain PyTorch, float32"] = [measure(old, precision=torch.float32, epochs=5) for old in five[1::3]]
    # the same rows, ever more classes
    found["classes"] = [
        measure(k - 2, images=4000, batch=2000, directions=1, samples=3920 // (k - 2)) for k in (10, 22, 51, 100)
    ]
    whole_run(5, first_epochs=1, epochs=1)  # compiles what else is needed
    found["whole runs"] = [whole_run(5), whole_run(10)]
    found["old samples"] = [measure(8, images=8000, batch=4000, samples=m) for m in (10, 20, 40, 80)]
    found["d"] = [measure(8, images=8000, batch=4000, d=d) for d in (64, 128, 256, 512)]
    return found


def table(rows: list[dict[str, Any]], first: tuple[str, str], peak: float) -> list[str]:
    name, key = first
    lines = [
        f"| {name} | steps | epoch, ms | step, ms | images a second | TFLOP/s | of the peak | memory, GB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row[key]} | {row['steps']} | {1e3 * row['epoch_seconds']:.1f} | {1e3 * row['step_seconds']:.2f} | "
            f"{row['images_a_second']:,.0f} | {row['tflops']:.0f} | {row['tflops'] / peak:.0%} | "
            f"{row['peak_gigabytes']:.1f} |"
        )
    return lines


def mean_epoch(rows: list[dict[str, Any]]) -> float:
    """Milliseconds, over the tasks after the first."""
    return statistics.mean(1e3 * row["epoch_seconds"] for row in rows if row["old_classes"])


def document(found: dict[str, Any]) -> str:
    peak, five, plain = found["peak_tflops"], found["five tasks"], found["plain PyTorch"]
    ours, theirs = mean_epoch(five), mean_epoch(plain)
    classes = found["classes"]
    growth = classes[-1]["step_seconds"] / classes[0]["step_seconds"]
    old = ("old classes", "old_classes")
    return "\n".join(
        [
            "# Speed",
            "",
            "Written by `python benchmarks/speed.py --out docs/speed.json`; do not edit. "
            f"{found['gpu']}, torch {found['torch']}, cuDNN {found['cudnn']}. One large bfloat16 matrix product there: "
            f"{peak:.0f} TFLOP/s, the *peak* of the tables.",
            "",
            "Random images of CIFAR-10's shape, the paper's networks, r = 12, m = 40, batch by the rule, bfloat16. "
            "A step is both players' moves. TFLOP/s count the convolutions alone.",
            "",
            "## CIFAR-10 in five tasks: 10,000 new images a task",
            "",
            *table(five, old, peak),
            "",
            f"Mean over the four tasks after the first: **{ours:.1f} ms an epoch**. The authors' loop, timed "
            f"with their code on such a machine, takes {1e3 * AUTHORS_TASKS:.0f} ms "
            f"({1e3 * AUTHORS[2]:.0f} ms with 2 old classes, "
            f"{1e3 * AUTHORS[8]:.0f} ms with 8): {1e3 * AUTHORS_TASKS / ours:.0f} times as long. "
            f"The same game in plain PyTorch, launched operation by operation: {theirs:.1f} ms, "
            f"{theirs / ours:.1f} times as long.",
            "",
            "With feature distillation, as the `ictrl-…` recipes have it:",
            "",
            *table(found["five tasks, distillation"], old, peak),
            "",
            "## In ten tasks: 5,000 new images a task",
            "",
            *table(found["ten tasks"], old, peak),
            "",
            f"Mean over the nine tasks after the first: {mean_epoch(found['ten tasks']):.1f} ms an epoch.",
            "",
            "## Whole runs: 400 epochs in the first task, 120 in each later one, 50,000 images",
            "",
            "| tasks | whole run, s | of it learning | evaluation, both protocols | floors |",
            "|---|---|---|---|---|",
            *(
                f"| {run['tasks']} | {run['whole']:.1f} | {run['learn']:.1f} | {run['evaluate']:.1f} | "
                f"{run.get('floors', run.get('floor', 0)):.1f} |"
                for run in found["whole runs"]
            ),
            "",
            "The whole also reads the images, takes their digest, and writes checkpoints; Python was running already.",
            "",
            "## A batch of 4,000 new images, 4 old classes",
            "",
            *table(found["batch of 4000"], old, peak),
            "",
            "What the GPU is busy with in that task: the convolutions do not reach a large matrix product's speed (the "
            "paper's layers have 64 to 256 channels, and the gradients of their weights sum over few of them), and "
            "everything else moves numbers without multiplying them.",
            "",
            "| kind of work | share of the time |",
            "|---|---|",
            *(f"| {kind} | {share:.0%} |" for kind, share in found["kinds of work"].items()),
            "",
            "## Without the fast path",
            "",
            "float32, recorded and with kernels:",
            "",
            *table(found["float32"], old, peak),
            "",
            "bfloat16 in plain PyTorch, operation by operation:",
            "",
            *table(plain, old, peak),
            "",
            "float32 in plain PyTorch:",
            "",
            *table(found["plain PyTorch, float32"], old, peak),
            "",
            "## What a step costs",
            "",
            f"More classes, the same 5,920 rows (2,000 new, 3,920 old): from 10 to 100 classes {growth:.2f} times.",
            "",
            *table(classes, old, peak),
            "",
            "More samples from each Gaussian of 8 old classes, 4,000 new images:",
            "",
            *table(found["old samples"], ("samples", "samples"), peak),
            "",
            "Longer features, 8 old classes, 4,000 new images:",
            "",
            *table(found["d"], ("d", "d"), peak),
            "",
        ]
    )


# On a CPU


def plain_objective(y: Tensor, classes: int, lambda_new: float, gamma_old: float) -> Objective:
    """The same losses, class by class, differentiated by autograd."""

    def saved(Z: Tensor) -> Tensor:
        return plain_rate(Z) - sum(len(Z[y == j]) / len(Z) * plain_rate(Z[y == j]) for j in range(classes))

    def apart(seen: Transcription, among: range) -> Tensor:
        pairs = [(seen.Z[y == j], seen.Z_hat[y == j]) for j in among]
        return torch.stack(
            [plain_rate(torch.cat(both)) - 0.5 * plain_rate(both[0]) - 0.5 * plain_rate(both[1]) for both in pairs]
        ).sum()

    def reduction(seen: Transcription) -> Tensor:
        return saved(seen.Z)

    def reduction_hat(seen: Transcription) -> Tensor:
        return saved(seen.Z_hat)

    def distance_new(seen: Transcription) -> Tensor:
        return apart(seen, range(seen.old_classes, classes))

    def distance_old(seen: Transcription) -> Tensor:
        return apart(seen, range(seen.old_classes))

    encoder = {reduction: -1.0, reduction_hat: -1.0, distance_new: -lambda_new, distance_old: gamma_old}
    decoder = {reduction: 1.0, reduction_hat: 1.0, distance_new: lambda_new, distance_old: gamma_old}
    return Objective(encoder, decoder)


def digits_step(rounds: int) -> dict[str, float]:
    """Seconds of a step of the digits' last task: ours, and with plain rates and PyTorch's usual memory layout."""
    settings = load_recipe("ictrl-digits").method
    assert isinstance(settings, ICTRLConfig)
    network, r, m = settings.network, settings.memory.directions, settings.memory.samples
    weights = {"lambda_new": settings.later.weights.lambda_new, "gamma_old": settings.later.weights.gamma_old}
    old, d, generator = 8, network.feature_dim, torch.Generator().manual_seed(0)
    shape = (network.image_size, network.channels, network.width, d)
    X = torch.rand(288, network.channels, network.image_size, network.image_size, generator=generator) * 2 - 1
    Z_old = nn.functional.normalize(torch.randn(old * r * m, d, generator=generator), dim=1)
    y = torch.cat([old + torch.arange(len(X)) % 2, torch.arange(old).repeat_interleave(r * m)])
    losses = {"ours": closed_loop(weights, first=False), "plain": plain_objective(y, old + 2, **weights)}

    Z, Z_hat = (nn.functional.normalize(torch.randn(len(y), d, generator=generator)) for _ in range(2))
    layout = class_layout(y, old + 2, d)
    seen = Transcription(Z, Z_hat, X, layout, old, len(X), settings.game.eps_sq, Z_old)
    values = [evaluate(losses[name].encoder, seen)[1].values() for name in ("ours", "plain")]
    for value, plainly in zip(*values, strict=True):
        assert torch.allclose(value, plainly, rtol=1e-3), "the two sides disagree"

    def side(name: str) -> Callable[[], None]:
        players = pair(shape, torch.float32, seed=1, device="cpu")
        if name == "plain":
            for network in (players.encoder, players.decoder):
                network.to(memory_format=torch.contiguous_format)
        rules = Rules(losses[name], settings.game.eps_sq)

        def step() -> None:
            batch = Batch(X, None, Z_old, None, class_layout(y, old + 2, d), old)
            encoder_step(players, batch, rules)
            decoder_step(players, batch, rules)

        return step

    sides = {name: side(name) for name in losses}
    seconds: dict[str, list[float]] = {name: [] for name in losses}
    for turn in range(rounds + 1):
        for name, step in sides.items():
            start = time.perf_counter()
            step()
            if turn:  # the first one warms up
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write a GPU's figures to this JSON file, and the page beside it")
    parser.add_argument("--page", type=Path, help="write the page again from this JSON file; measures nothing")
    parser.add_argument("--rounds", type=int, default=20, help="steps of either side on a CPU")
    arguments = parser.parse_args()
    if arguments.page:
        arguments.page.with_suffix(".md").write_text(document(json.loads(arguments.page.read_text())), encoding="utf-8")
    elif torch.cuda.is_available():
        found = gpu_figures()
        print(document(found))
        if arguments.out:
            arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            arguments.out.with_suffix(".md").write_text(document(found), encoding="utf-8")
    else:
        step = digits_step(arguments.rounds)
        print(f"a step of the digits' last task, {torch.get_num_threads()} threads; medians of {arguments.rounds}")
        print(f"  ours {1e3 * step['ours']:.1f} ms, plain PyTorch {1e3 * step['plain']:.1f} ms")
        print(f"      {step['plain'] / step['ours']:.1f} times faster")


if __name__ == "__main__":
    main()
