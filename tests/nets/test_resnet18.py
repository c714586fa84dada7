"""ResNet-18 has the shape that papers on continual learning report, at every size."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, conv2d

from ictrl import ConfigError
from ictrl.config import NetworkConfig
from ictrl.nets.dcgan import IMAGE_SIZES
from ictrl.nets.families import encoder_of
from ictrl.nets.resnet18 import ResNet18
from ictrl.nets.wrappers import parameter_count


def test_it_has_the_parameters_that_papers_report() -> None:
    assert parameter_count(ResNet18(32, 3, 64, 512)) == 11_168_832  # 11,173,962 with a head of ten classes


def test_layers_are_those_of_resnet18() -> None:
    found = [m for m in ResNet18(32, 3, 64, 512).modules() if isinstance(m, nn.Conv2d)]
    by_size = [(m.kernel_size[0], m.in_channels, m.out_channels, m.stride[0]) for m in found]
    assert by_size[0] == (3, 3, 64, 1)
    assert [size for size in by_size if size[0] == 1] == [(1, 64, 128, 2), (1, 128, 256, 2), (1, 256, 512, 2)]
    assert len(by_size) == 1 + 16 + 3
    assert len([m for m in ResNet18(32, 3, 64, 512).modules() if isinstance(m, nn.BatchNorm2d)]) == len(by_size)
    assert all(m.bias is None for m in found)


@pytest.mark.parametrize("train", [True, False])
def test_it_computes_what_its_formula_says(train: bool, generator: torch.Generator) -> None:
    """Written out with the weights alone, one block after another."""
    network = ResNet18(16, 3, 4, 32, generator).train(train)
    weights = {name: tensor.clone() for name, tensor in network.state_dict().items()}

    def normed(a: Tensor, name: str, stride: int = 1) -> Tensor:
        w = weights[f"{name}.conv.weight"]
        names = ("running_mean", "running_var", "weight", "bias")
        h = conv2d(a, w, stride=stride, padding=w.shape[-1] // 2)
        return batch_norm(h, *(weights[f"{name}.norm.{n}"].clone() for n in names), training=train)

    X = torch.rand(5, 3, 16, 16, generator=generator) * 2 - 1
    a = normed(X, "stem").relu()
    for stage in range(4):
        for block in range(2):
            name, stride = f"parts.{stage}.{block}", 2 if stage and not block else 1
            h = normed(normed(a, f"{name}.first", stride).relu(), f"{name}.second")
            changes = f"{name}.shortcut.conv.weight" in weights
            a = (h + (normed(a, f"{name}.shortcut", stride) if changes else a)).relu()
    torch.testing.assert_close(network(X), a.mean((2, 3)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("side", IMAGE_SIZES)
@pytest.mark.parametrize("channels", [1, 3])
def test_any_size_and_channels(side: int, channels: int, device: str) -> None:
    network = ResNet18(side, channels, 2, 16).to(device)
    X = torch.rand(3, channels, side, side, device=device) * 2 - 1
    Z = network(X).detach()
    assert Z.shape == (3, 16)
    assert float(Z.min()) >= 0
    sides = [stage.shape[-1] for stage in network.stages(X)]
    assert sides == [min(side, 32) // 2**i for i in range(4)]
    assert [stage.shape[1] for stage in network.stages(X)] == [2, 4, 8, 16]


def test_it_works_in_half_precision(device: str) -> None:
    network = ResNet18(16, 3, 4, 32, torch.Generator().manual_seed(0)).to(device)
    X = torch.rand(16, 3, 16, 16, device=device) * 2 - 1
    Z = network(X.bfloat16())
    assert Z.dtype == torch.bfloat16
    Z.float().square().sum().backward()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in network.parameters())
    apart = (Z.float() - network(X)).norm() / network(X).norm()
    assert float(apart.detach()) < 0.05


def test_he_initialisation_from_the_generator_alone() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first, second, other = (ResNet18(32, 3, 32, 256, torch.Generator().manual_seed(seed)) for seed in (5, 5, 6))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters()))
    assert not torch.equal(first.stem.conv.weight, other.stem.conv.weight)
    weight = first.parts[3][1].second.conv.weight.detach().numpy()  # type: ignore[index, union-attr]
    assert weight.std() == pytest.approx(np.sqrt(2 / (256 * 9)), rel=0.01)
    assert abs(weight.mean()) < 1e-3


@pytest.mark.parametrize("feature_dim", [128, 511])
def test_another_number_of_features_is_refused_with_the_remedy(feature_dim: int) -> None:
    message = f"eight times network.width .64. .* but got {feature_dim}: set network.feature_dim to 512"
    with pytest.raises(ConfigError, match=message):
        encoder_of(NetworkConfig(kind="resnet18", feature_dim=feature_dim))


def test_recipes_choose_it_by_name() -> None:
    assert type(encoder_of(NetworkConfig(kind="resnet18", width=4, feature_dim=32))) is ResNet18
    with pytest.raises(ConfigError, match='Expected network.kind to be "dcgan", "resnet", "resnet18" or "mlp"'):
        NetworkConfig(kind="resnet20")  # type: ignore[arg-type]


@pytest.mark.parametrize("side", [4, 33])
def test_other_sizes_are_refused(side: int) -> None:
    with pytest.raises(ConfigError, match=f"Expected image_size to be one of .* but got {side}"):
        ResNet18(side, 1, 4, 32)


@pytest.mark.parametrize("kind", ["dcgan", "resnet", "resnet18", "mlp"])
def test_layers_may_begin_as_those_of_pytorch_do(kind: str) -> None:
    config = NetworkConfig(kind=kind, width=16, feature_dim=128, initialisation="torch")  # type: ignore[arg-type]
    encoder = encoder_of(config, torch.Generator().manual_seed(0))
    layers = [module for module in encoder.modules() if isinstance(module, nn.Conv2d | nn.Linear)]
    weights = [layer.weight.detach() for layer in layers]
    assert weights
    for weight in weights:
        bound = weight[0].numel() ** -0.5
        assert float(weight.abs().max()) <= bound
        assert float(weight.std()) == pytest.approx(bound / 3**0.5, rel=0.15)
    for layer, weight in zip(layers, weights):
        if layer.bias is not None:
            assert 0 < float(layer.bias.detach().abs().max()) <= weight[0].numel() ** -0.5
    own = encoder_of(replace(config, initialisation="own"), torch.Generator().manual_seed(0))
    first = next(module.weight for module in own.modules() if isinstance(module, nn.Conv2d | nn.Linear))
    assert not torch.equal(first, weights[0])
