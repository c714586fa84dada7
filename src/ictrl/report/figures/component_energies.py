"""How much of a class's variance each of its principal components holds."""

import torch
from torch import Tensor

from ictrl.report.catalogue import Figure, figure
from ictrl.report.plots import Curve, line_chart
from ictrl.report.record import RunRecord
from ictrl.shapes import Float
from ictrl.theory.statistics import ClassStatistics

COMPONENTS = 30  # whose energy is drawn


@figure(section="structure", order=30)
def energy(run: RunRecord) -> Figure | None:
    """Share of each class's variance along its principal components, as memory has them."""
    if run.memory is None:
        return None
    shares = {label: energies(kept) for label, kept in run.memory.items()}
    mean = torch.stack(list(shares.values())).mean(0)
    curves = [
        Curve(run.class_name(label), list(enumerate(share.tolist(), start=1)), "memory", mark=False, faint=True)
        for label, share in shares.items()
    ]
    curves.append(Curve("mean of all classes", list(enumerate(mean.tolist(), start=1)), "reencoded", mark=False))
    first = float(mean[:5].sum())
    return Figure(
        "Energy per principal component",
        "Share of the variance of each class (thin) along its principal components, from the stored covariances. On "
        f"average the first five hold {first:.0%}.",
        alt=f"Curves of the share of variance by component for {len(shares)} classes: on average the first has "
        f"{float(mean[0]):.0%}, the first five {first:.0%}.",
        drawing=line_chart(
            curves,
            x_label="component",
            x_names={i: str(i) for i in (1, *range(5, len(mean) + 1, 5))},
            y_label="share of variance",
        ),
    )


def energies(kept: ClassStatistics) -> Float[Tensor, " shown"]:
    """Variances along the principal components as shares of their sum, the largest first, up to those drawn."""
    values, _ = kept.spectrum
    return (values / values.sum().clamp(min=1e-30))[:COMPONENTS]
