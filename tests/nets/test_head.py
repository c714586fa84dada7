"""A head of one's own on somebody else's trunk: it reads the last stage, and nobody mistakes the trunk for its part."""

import copy

import torch

from ictrl.nets.dcgan import Encoder
from ictrl.nets.head import HeadOnTrunk


def pair() -> tuple[Encoder, HeadOnTrunk]:
    generator = torch.Generator().manual_seed(0)
    trunk = Encoder(16, 1, 4, 6, generator).eval()
    return trunk, HeadOnTrunk(trunk, channels=8, d=5, generator=generator)


def test_it_is_linear_in_the_last_stage() -> None:
    trunk, head = pair()
    X = torch.rand(3, 1, 16, 16)
    expected = torch.einsum("ncij,dcij->nd", trunk.stages(X)[-1], head.last.weight)
    torch.testing.assert_close(head(X), expected)
    assert torch.equal(head.from_stages(head.stages(X)), head(X))


def test_the_trunk_is_no_part_of_it() -> None:
    trunk, head = pair()
    assert [name for name, _ in head.named_parameters()] == ["last.weight"]
    assert list(head.state_dict()) == ["last.weight"]
    head.train()
    assert head.training
    assert not any(module.training for module in trunk.modules())
    head.requires_grad_(False)
    assert all(parameter.requires_grad for parameter in trunk.parameters())


def test_a_copy_of_it_has_a_trunk_of_its_own() -> None:
    trunk, head = pair()
    X = torch.rand(3, 1, 16, 16)
    copied, before = copy.deepcopy(head), head(X)
    with torch.no_grad():
        trunk.layers[0].weight.add_(1.0)  # type: ignore[operator]
    assert torch.equal(copied(X), before)
    assert not torch.equal(head(X), before)


def test_a_last_stage_of_another_size_is_pooled() -> None:
    _, head = pair()
    assert (
        head.from_stages([torch.rand(2, 8, 7, 7)]).shape == head.from_stages([torch.rand(2, 8, 2, 2)]).shape == (2, 5)
    )
