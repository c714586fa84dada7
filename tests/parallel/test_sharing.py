"""Rows are divided, sums are added, and who is alone notices nothing."""

from itertools import chain

import pytest
import torch
from parallel_support import together
from torch import Tensor
from torch.nn import functional

from ictrl.errors import ProcessesError
from ictrl.nets.batchnorm import FeatureNorm
from ictrl.nets.layers import Halve
from ictrl.parallel.agreement import alike, any_of, as_first, from_first
from ictrl.parallel.sharing import (
    Group,
    add_gradients,
    alone,
    everyones,
    exchanged,
    gathered,
    group,
    is_first,
    mean,
    means,
    member_of,
    mine,
    share,
    shared,
    sharing,
    spread,
    total,
)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_shares_are_parts_of_nearly_one_size_that_are_all_there_is() -> None:
    for n in (0, 1, 5, 12):
        for size in (1, 2, 3, 5):
            parts = []
            for rank in range(size):
                with member_of(Group(rank, size)), sharing():
                    parts.append(list(range(n))[share(n)])
            assert list(chain(*parts)) == list(range(n))
            assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_who_is_alone_has_everything_and_adds_nothing() -> None:
    x = numbers(5, 2)
    same = mine(x), total(x), exchanged(x), gathered(x, 5), everyones(x), spread(lambda part: part, x)
    assert all(found is x for found in same)
    assert torch.equal(mean(x), x.mean())
    assert group() is shared() is None
    assert is_first()
    assert any_of(True)
    assert from_first(x) is x
    assert alike([x])
    with sharing():  # of nothing
        assert shared() is None


def test_one_of_a_group_shares_only_where_all_do() -> None:
    with member_of(Group(1, 2)):
        assert shared() is None
        assert not is_first()
        with sharing():
            assert shared() == Group(1, 2)
            assert mine(torch.arange(5)).tolist() == [3, 4]
            with alone():
                assert shared() is None
                assert mine(torch.arange(5)).tolist() == [0, 1, 2, 3, 4]
            assert shared() == Group(1, 2)
    assert group() is None


def everything() -> dict[str, Tensor]:
    """What every process makes of the same seven rows."""
    x, y = numbers(7, 3), numbers(4, seed=1)
    own = mine(x)
    rows = [len(own)] if shared() else [7]
    return {
        "total": total(own.sum(0)),
        "means": means(own.square(), mine(y)),
        "gathered": gathered(own, 7),
        "types": torch.cat([gathered(mine(x.to(kind)), 7).double() for kind in (torch.bfloat16, torch.int16)]),
        "everyones": everyones(own[own[:, 0] > 0]),
        "spread": spread(lambda part: part.cos(), x),
        "few": spread(lambda part: part.cos(), x[:2]),
        "rows": everyones(torch.tensor(rows)).sum(),
    }


@pytest.mark.parametrize("size", [1, 3])
def test_what_all_have_together_is_what_one_has_alone(size: int) -> None:
    expected = everything()
    for found in together(size, everything):
        for name, value in expected.items():
            torch.testing.assert_close(found[name], value, rtol=1e-12, atol=1e-12, msg=name)


def test_a_gradient_is_that_of_the_whole_batch() -> None:
    """A weight that all rows go through, whose loss is no sum over rows, beside a statistic that all rows depend on."""

    def weight_gradient() -> Tensor:
        x, weight = numbers(6, 3), numbers(3, 2, seed=1).requires_grad_()
        optimiser = torch.optim.SGD([weight])
        rows = mine(x) @ weight
        centred = rows - exchanged(rows.sum(0)) / 6
        moment = total(centred.T.tanh() @ rows)
        moment.logdet().add(mean(rows.square())).backward()
        add_gradients(optimiser)
        assert weight.grad is not None
        return weight.grad

    expected = weight_gradient()
    for found in together(2, weight_gradient):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


def test_gradients_are_added_in_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ictrl.parallel.sharing.BUCKET", 5)

    def gradients() -> list[Tensor]:
        parameters = [torch.zeros(2, 2), torch.zeros(3), torch.zeros(2, dtype=torch.float64), torch.zeros(7)]
        parameters[0] = parameters[0].view(1, 2, 2, 1).to(memory_format=torch.channels_last)
        for i, parameter in enumerate(parameters):
            parameter.grad = torch.arange(parameter.numel()).to(parameter.dtype).view(parameter.shape) + i
        without = torch.zeros(1)
        add_gradients(torch.optim.SGD([*parameters, without]))
        assert without.grad is None
        return [parameter.grad for parameter in parameters if parameter.grad is not None]

    alone, shared = gradients(), together(2, gradients)
    for found in shared:
        assert all(torch.equal(2 * one, both) for one, both in zip(alone, found, strict=True))


def batch_norms() -> dict[str, Tensor]:
    """Two kinds of BatchNorm after a step in training, with all gradients."""
    layer, features = Halve(2, 3).double().train(), FeatureNorm(4).double().train()
    with torch.no_grad():
        for i, parameter in enumerate((*layer.parameters(), *features.parameters())):
            parameter.copy_(numbers(*parameter.shape, seed=10 + i))
    maps, rows = (10 + numbers(5, 2, 8, 8)).requires_grad_(), numbers(5, 4, seed=2).requires_grad_()
    out_maps, out_rows = layer(mine(maps)), features(mine(rows))
    loss = total((out_maps * mine(numbers(5, 3, 4, 4, seed=3))).sum()) + total((out_rows * mine(rows)).sin().sum())
    loss.backward()
    optimiser = torch.optim.SGD([*layer.parameters(), *features.parameters(), maps, rows])
    add_gradients(optimiser)
    found = {f"grad {i}": p.grad for i, p in enumerate(optimiser.param_groups[0]["params"])}
    buffers = {f"{module} {name}": value for module in (layer, features) for name, value in module.named_buffers()}
    return {**found, **buffers, "maps": gathered(out_maps.detach(), 5), "rows": gathered(out_rows.detach(), 5)}


def test_batchnorm_is_that_of_the_whole_batch() -> None:
    expected = batch_norms()
    for found in together(2, batch_norms):
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            torch.testing.assert_close(found[name], value, rtol=1e-9, atol=1e-9, msg=name)


def test_batchnorm_that_has_learned_needs_nobody() -> None:
    layer, x = Halve(2, 3).eval(), numbers(4, 2, 8, 8).float()
    with torch.no_grad():
        layer.conv.weight.copy_(numbers(*layer.conv.weight.shape, seed=1))
        expected = functional.leaky_relu(layer.norm(layer.conv(x)), 0.2)
        with member_of(Group(0, 2)), sharing():  # with whom nothing could be exchanged here
            assert torch.equal(layer(x), expected)


def agreement() -> tuple[bool, bool, str, bool, list[float], str]:
    found = group()
    assert found is not None
    weights = [torch.full((2,), float(found.rank)), torch.tensor([3, found.rank], dtype=torch.int16)]
    same = alike(weights)
    as_first(weights)
    odd = [torch.zeros(2 + found.rank)]
    try:
        as_first(odd)
        said = ""
    except ProcessesError as error:
        said = str(error)
    asked = any_of(found.rank == 1), any_of(False)
    return *asked, from_first(f"of {found.rank}"), same, torch.cat(weights).tolist(), said


def test_what_processes_agree_on() -> None:
    for stop, never, text, same, weights, said in together(2, agreement):
        assert (stop, never, text, same) == (True, False, "of 0", False)
        assert weights == [0.0, 0.0, 3.0, 0.0]
        assert "keep different numbers" in said
