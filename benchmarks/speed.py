"""How long an epoch takes on a GPU, and where the time goes.

    python benchmarks/speed.py [--out FILE.json] [--profile]

Plays the game on random images of CIFAR-10's shape with the paper's networks: 10,000 new images of two classes, 0 to 8
old classes in memory, r = 12 directions, m = 40 samples, batches by the rule. Every variant is warmed up and timed over
whole epochs with a synchronised clock. The peak is that of a large bfloat16 matrix product in the same run.
"""

import argparse
import json
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

import ictrl.capture
from ictrl.config import AnchorsConfig, GameConfig, ObjectiveConfig
from ictrl.game import EpochReport, Players, play
from ictrl.memory import Gaussians
from ictrl.networks import Decoder, Encoder

D, SIDE, IMAGES, DIRECTIONS, SAMPLES = 128, 32, 10_000, 12, 40
NETWORK_FLOPS = 2 * (16 * 16 * 64 * 3 + 8 * 8 * 128 * 64 + 4 * 4 * 256 * 128 + 128 * 256) * 16  # forward, an image


def step_flops(new: int, old: int, anchored: bool) -> float:
    """Multiplications and additions in the convolutions of one step; a backward pass counts twice its forward one."""
    encoder = 3 * new + 3 * (new + old) + (new + old) + (new + old if anchored else 0)  # f(X), f(X̂), g(Z), f_before
    decoder = new + 3 * (new + old) + 2 * (new + old)  # f(X), g(Z), through f(X̂) without its weights
    return float(NETWORK_FLOPS * (encoder + decoder))


def players(device: str, precision: torch.dtype) -> Players:
    generator = torch.Generator().manual_seed(0)
    pair = [kind(SIDE, 3, 64, D, generator).to(device).eval() for kind in (Encoder, Decoder)]
    for network in pair:
        network.precision = precision
    return Players.pair(*pair, 1e-4, (0.5, 0.999))


def memory(classes: int, device: str) -> Gaussians | None:
    if not classes:
        return None
    g = classes * DIRECTIONS
    generator = torch.Generator().manual_seed(1)
    means = torch.nn.functional.normalize(torch.randn(g, D, generator=generator), dim=1)
    factors = 0.03 * torch.randn(g, SAMPLES - 1, D, generator=generator)
    labels = torch.arange(classes).repeat_interleave(DIRECTIONS)
    return Gaussians(means.to(device), factors.to(device), labels.to(device))


def epoch_seconds(
    device: str, old: int, precision: torch.dtype, anchored: bool, graph: bool, epochs: int = 12
) -> dict[str, float]:
    """Seconds of an epoch, median of those after the first three, and the peak of memory."""
    generator = torch.Generator().manual_seed(2)
    images = torch.randint(0, 256, (IMAGES, 3, SIDE, SIDE), dtype=torch.uint8, generator=generator).to(device)
    y = (old + torch.arange(IMAGES) % 2).to(device)
    times: list[float] = []
    torch.cuda.reset_peak_memory_stats()

    def progress(report: EpochReport) -> None:
        torch.cuda.synchronize()
        times.append(time.perf_counter())

    before = ictrl.capture.PLAIN_CALLS
    ictrl.capture.PLAIN_CALLS = before if graph else 10**9
    game = GameConfig(epochs=epochs, first_epochs=epochs, flips=True)
    anchors = AnchorsConfig(new=5.0, replayed=20.0) if anchored else AnchorsConfig()
    play(
        players(device, precision),
        images,
        y,
        old + 2,
        memory(old, device),
        samples=SAMPLES,
        game=game,
        objective=ObjectiveConfig(),
        anchors=anchors,
        generator=torch.Generator(device).manual_seed(3),
        progress=progress,
    )
    ictrl.capture.PLAIN_CALLS = before
    gaps = sorted(b - a for a, b in pairwise(times[2:]))
    rows = old * DIRECTIONS * SAMPLES
    size = rows * 2 if old else game.first_batch
    steps = -(-IMAGES // size)
    seconds = gaps[len(gaps) // 2]
    flops = steps * step_flops(IMAGES // steps, rows, anchored and old > 0)
    return {"seconds": seconds, "tflops": flops / seconds / 1e12, "peak_gb": torch.cuda.max_memory_allocated() / 1e9}


def matrix_peak(device: str) -> float:
    A, B = (torch.randn(8192, 8192, device=device, dtype=torch.bfloat16) for _ in range(2))
    for _ in range(3):
        A @ B
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(10):
        A @ B
    torch.cuda.synchronize()
    return 10 * 2 * 8192**3 / (time.perf_counter() - start) / 1e12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--profile", action="store_true", help="also print the kernels of a plain epoch")
    arguments = parser.parse_args()
    peak = matrix_peak("cuda")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; bfloat16 matrix product {peak:.0f} TFLOP/s")
    table: list[dict[str, Any]] = []
    for precision, graph in (
        (torch.bfloat16, True),
        (torch.bfloat16, False),
        (torch.float32, True),
        (torch.float32, False),
    ):
        for anchored in (False, True) if precision == torch.bfloat16 and graph else (False,):
            for old in (0, 2, 4, 6, 8):
                found = epoch_seconds("cuda", old, precision, anchored, graph)
                row = {"precision": str(precision)[6:], "graph": graph, "anchors": anchored, "old": old, **found}
                table.append(row)
                print(
                    f"{row['precision']:9} {'graph' if graph else 'plain'} {'anchors' if anchored else '':8}"
                    f"{old} old: {1e3 * found['seconds']:7.1f} ms an epoch, {found['tflops']:6.1f} TFLOP/s "
                    f"({found['tflops'] / peak:.0%}), peak {found['peak_gb']:.1f} GB",
                    flush=True,
                )
    if arguments.profile:
        with torch.profiler.profile() as profiler:
            epoch_seconds("cuda", 4, torch.bfloat16, False, graph=False, epochs=4)
        print(profiler.key_averages().table(sort_by="self_cuda_time_total", row_limit=30, max_name_column_width=70))
    if arguments.out:
        arguments.out.write_text(json.dumps({"peak_tflops": peak, "epochs": table}, indent=1) + "\n")


if __name__ == "__main__":
    main()
