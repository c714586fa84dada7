"""Pixels scaled by channel are what the network behind them is given, in every way in which it is asked."""

import copy

import numpy as np
import pytest
import torch

from ictrl.config import NetworkConfig
from ictrl.nets.families import encoder_of
from ictrl.nets.scaled import Scaled
from ictrl.nets.wrappers import parameter_count

MEANS, DEVIATIONS = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2615)


@pytest.mark.parametrize("kind", ["dcgan", "resnet", "resnet18"])
def test_the_network_sees_shares_of_white_less_the_mean_by_the_deviation(kind: str) -> None:
    config = {"kind": kind, "width": 4, "feature_dim": 32}
    plain = encoder_of(NetworkConfig(**config), torch.Generator().manual_seed(0)).eval()  # type: ignore[arg-type]
    scaled = encoder_of(
        NetworkConfig(**config, pixel_means=MEANS, pixel_deviations=DEVIATIONS),  # type: ignore[arg-type]
        torch.Generator().manual_seed(0),
    ).eval()
    pixels = np.random.default_rng(0).integers(0, 256, (6, 3, 32, 32))
    as_papers_have_it = (pixels / 255 - np.array(MEANS)[:, None, None]) / np.array(DEVIATIONS)[:, None, None]
    X, seen = torch.from_numpy(pixels / 127.5 - 1).float(), torch.from_numpy(as_papers_have_it).float()
    assert isinstance(scaled, Scaled)
    torch.testing.assert_close(scaled(X), plain(seen), rtol=1e-4, atol=1e-5)
    for one, other in zip(scaled.stages(X), plain.stages(seen), strict=True):  # type: ignore[operator]
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert parameter_count(scaled) == parameter_count(plain)
    assert scaled(X.bfloat16()).dtype == torch.bfloat16


def test_a_copy_scales_for_itself() -> None:
    config = NetworkConfig(kind="resnet18", width=2, feature_dim=16, pixel_means=MEANS, pixel_deviations=DEVIATIONS)
    first = encoder_of(config, torch.Generator().manual_seed(0)).eval()
    second, X = copy.deepcopy(first), torch.zeros(2, 3, 32, 32)
    before = first(X).detach()
    with torch.no_grad():
        for parameter in second.parameters():
            parameter.zero_()
    torch.testing.assert_close(first(X).detach(), before)
    assert float(second(X).detach().abs().max()) == 0
