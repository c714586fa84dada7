"""How much faster the objective is from second moments than class by class.

    make bench                       or: python benchmarks/rates.py [--out FILE.json]

Both sides compute ΔR(Z) + ΔR(Ẑ) + Σⱼ ΔR(Zⱼ, Ẑⱼ) and its gradient. The plain side is the formula as one would first
write it: a loop over classes, `torch.logdet` of each, differentiated by autograd. Sides take turns within one run, and
only ratios are judged: machines differ and are noisy. Exits with 1 if a ratio misses its bound.
"""

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from ictrl.theory.objectives import Transcription, closed_loop, evaluate
from ictrl.theory.statistics import class_layout

LOSS = closed_loop({"lambda_new": 1.0, "gamma_old": 1.0}, first=True).decoder

FASTER_THAN_PLAIN = 5.0  # at least, at n = 4000, k = 10, d = 128
SLOWER_AT_100_CLASSES = 5.0  # at most, from k = 10 to k = 100 at n = 8000


def plain_rate(Z: Tensor) -> Tensor:
    n, d = Z.shape
    return 0.5 * torch.logdet(torch.eye(d, dtype=Z.dtype) + d / n * Z.T @ Z)


def plain_objective(Z: Tensor, Z_hat: Tensor, y: Tensor, k: int) -> Tensor:
    value = plain_rate(Z) + plain_rate(Z_hat)
    for j in range(k):
        Z_j, Z_hat_j = Z[y == j], Z_hat[y == j]
        share = len(Z_j) / len(Z)
        value = value - share * plain_rate(Z_j) - share * plain_rate(Z_hat_j)
        value = value + plain_rate(torch.cat([Z_j, Z_hat_j])) - 0.5 * plain_rate(Z_j) - 0.5 * plain_rate(Z_hat_j)
    return value


def our_objective(Z: Tensor, Z_hat: Tensor, y: Tensor, k: int) -> Tensor:
    layout, nothing = class_layout(y, k, Z.shape[1]), Z.new_zeros(0)
    seen = Transcription(Z, Z_hat, nothing, layout, old_classes=0, new_rows=len(Z), eps_sq=1.0, Z_old=nothing)
    return evaluate(LOSS, seen)[0]


def features(n: int, k: int, d: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    Z, Z_hat = (torch.nn.functional.normalize(torch.randn(n, d, generator=generator), dim=1) for _ in range(2))
    return Z.requires_grad_(), Z_hat.requires_grad_(), torch.randint(k, (n,), generator=generator)


def compare(sides: dict[str, Callable[[], Tensor]], rounds: int) -> dict[str, float]:
    """Median seconds of each side, value and gradient; the sides take turns."""
    for side in sides.values():
        side().backward()
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            start = time.perf_counter()
            side().backward()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    arguments = parser.parse_args()

    Z, Z_hat, y = features(4000, 10, 128)
    with torch.no_grad():
        difference = abs(float(plain_objective(Z, Z_hat, y, 10) - our_objective(Z, Z_hat, y, 10)))
    assert difference < 1e-2, f"the two sides disagree by {difference}"
    against_plain = compare(
        {"plain": lambda: plain_objective(Z, Z_hat, y, 10), "ours": lambda: our_objective(Z, Z_hat, y, 10)},
        arguments.rounds,
    )
    few, many = features(8000, 10, 128), features(8000, 100, 128)
    by_classes = compare(
        {"k = 10": lambda: our_objective(*few, 10), "k = 100": lambda: our_objective(*many, 100)}, arguments.rounds
    )
    faster = against_plain["plain"] / against_plain["ours"]
    slower = by_classes["k = 100"] / by_classes["k = 10"]

    machine = f"{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}"
    plain, ours, k10, k100 = (1e3 * seconds for seconds in (*against_plain.values(), *by_classes.values()))
    print(f"objective with gradient, d = 128, float32; {machine}; medians of {arguments.rounds}")
    print(f"  n = 4000, k = 10:  plain {plain:.1f} ms, ours {ours:.1f} ms")
    print(f"      {faster:.1f} times faster (at least {FASTER_THAN_PLAIN:g})")
    print(f"  n = 8000:  k = 10 {k10:.1f} ms, k = 100 {k100:.1f} ms")
    print(f"      {slower:.1f} times slower (at most {SLOWER_AT_100_CLASSES:g})")
    if arguments.out:
        figures = {
            "machine": machine,
            "rounds": arguments.rounds,
            "seconds": {"n=4000 k=10": against_plain, "n=8000": by_classes},
            "faster_than_plain": faster,
            "slower_at_100_classes": slower,
        }
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(figures, indent=2) + "\n")
    return int(faster < FASTER_THAN_PLAIN or slower > SLOWER_AT_100_CLASSES)


if __name__ == "__main__":
    sys.exit(main())
