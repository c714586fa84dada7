"""The multilayer perceptron has the shape that papers on continual learning report for MNIST."""

import numpy as np
import pytest
import torch

from ictrl import ConfigError, create_learner, load_recipe
from ictrl.config import NetworkConfig
from ictrl.nets.families import encoder_of
from ictrl.nets.perceptron import Perceptron
from ictrl.nets.wrappers import parameter_count, to_float
from ictrl.recipes.tables import recipe_with


def of_papers() -> Perceptron:
    return Perceptron(28, 1, 100, 100, torch.Generator().manual_seed(0))


def test_it_has_the_parameters_that_papers_report() -> None:
    assert parameter_count(of_papers()) == 88_600  # 89,610 with a head of ten classes


def test_it_computes_what_its_formula_says(generator: torch.Generator) -> None:
    network = Perceptron(8, 3, 5, 7, generator)
    pixels = torch.randint(0, 256, (6, 3, 8, 8), dtype=torch.uint8, generator=generator)
    with torch.no_grad():
        for part in network.parameters():
            part.normal_(generator=generator)
        found = network(to_float(pixels)).numpy()
    W1, b1, W2, b2 = (part.detach().double().numpy() for part in network.parameters())
    x = pixels.flatten(1).double().numpy() / 255
    expected = np.maximum(np.maximum(x @ W1.T + b1, 0) @ W2.T + b2, 0)
    assert 0 < (expected > 0).mean() < 1
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_black_changes_nothing() -> None:
    with torch.no_grad():
        assert not of_papers()(to_float(torch.zeros(2, 1, 28, 28, dtype=torch.uint8))).any()


def test_glorot_initialisation_from_the_generator_alone() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    network = of_papers()
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), of_papers().parameters()))
    for layer, below in ((network.first, 784), (network.second, 100)):
        bound = (6 / (below + 100)) ** 0.5
        assert bound * 0.99 < float(layer.weight.detach().abs().max()) <= bound
        assert not layer.bias.detach().any()


def test_it_works_in_half_precision(device: str) -> None:
    network = of_papers().to(device)
    X = torch.rand(16, 1, 28, 28, device=device) * 2 - 1
    Z = network(X.bfloat16())
    assert Z.dtype == torch.bfloat16
    Z.float().square().sum().backward()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in network.parameters())
    assert float(((Z.float() - network(X)).norm() / network(X).norm()).detach()) < 0.05


def test_recipes_choose_it_by_name_and_it_alone_takes_mnist_as_it_is() -> None:
    config = NetworkConfig(image_size=28, channels=1, kind="mlp", width=100, feature_dim=100)
    assert type(encoder_of(config)) is Perceptron
    with pytest.raises(ConfigError, match=r'or 256 but got 28: 28 is for kind "mlp"\.$'):
        NetworkConfig(image_size=28, channels=1)
    with pytest.raises(ConfigError, match=r"8, 16, 28, 32, .* or 256 but got 30\.$"):
        NetworkConfig(image_size=30, kind="mlp")


@pytest.mark.parametrize(
    ("recipe", "error", "message"),
    [
        ("digits", ConfigError, "Expected network.kind .dcgan., .resnet. or .resnet18. .* but got .mlp."),
        ("ictrl-mnist-5", ConfigError, "Expected image_size to be one of .* but got 28"),
    ],
)
def test_what_cannot_use_it_says_so(recipe: str, error: type[Exception], message: str) -> None:
    changed = recipe_with(load_recipe(recipe), {"method": {"network": {"kind": "mlp", "image_size": 28}}})
    with pytest.raises(error, match=message):
        create_learner(changed)
