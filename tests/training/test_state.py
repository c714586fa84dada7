"""All that learning changes can be copied, written down, and read again to the last bit."""

import copy

import pytest
import torch
from torch import Tensor, nn

from ictrl.training.ema import EMA
from ictrl.training.players import adam
from ictrl.training.state import TrainingState, group, load_optimiser, optimiser_tensors


def new_state(seed: int = 0, width: int = 4, ema: bool = False) -> TrainingState:
    """Two networks, one with BatchNorm; nothing has been learned yet."""
    torch.manual_seed(seed)
    networks = {
        "encoder": nn.Sequential(nn.Conv2d(1, width, 3), nn.BatchNorm2d(width)),
        "decoder": nn.Linear(3, width),
    }
    optimisers = {name: adam(network, 1e-2, (0.5, 0.999)) for name, network in networks.items()}
    state = TrainingState(networks, optimisers, torch.Generator().manual_seed(seed))
    state.ema = EMA(tuple(networks.values()), horizon=5.0) if ema else None
    return state


def steps(state: TrainingState, count: int = 3) -> None:
    """Some steps on random input that change weights, statistics, moments, means and the random state."""
    for network in state.networks.values():
        network.train()
    for _ in range(count):
        X = torch.randn(5, 1, 4, 4, generator=state.generator)
        loss = state.networks["encoder"](X).square().mean() + state.networks["decoder"](X[:, 0, 0, :3]).square().mean()
        for optimiser in state.optimisers.values():
            optimiser.zero_grad()
        loss.backward()
        for optimiser in state.optimisers.values():
            optimiser.step()
        if state.ema is not None:
            state.ema.add()


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return list(one) == list(other) and all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def clones(state: TrainingState) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in state.tensors().items()}


@pytest.mark.parametrize("ema", [False, True])
@pytest.mark.parametrize("learned", [0, 3])
def test_what_was_read_goes_on_exactly_like_what_was_written(ema: bool, learned: int) -> None:
    state, other = new_state(ema=ema), new_state(seed=9, ema=ema)
    steps(state, learned)
    other.load(clones(state))
    assert equal(other.tensors(), state.tensors())
    steps(state)
    steps(other)
    assert equal(other.tensors(), state.tensors())


def test_tensors_have_the_names_that_files_have() -> None:
    state = new_state(ema=True)
    steps(state)
    names = set(state.tensors())
    assert {"encoder.0.weight", "encoder.1.running_mean", "decoder.bias", "generator"} <= names
    assert {"encoder_optimiser.0.step", "encoder_optimiser.0.exp_avg", "decoder_optimiser.1.exp_avg_sq"} <= names
    assert {f"averages.{i}" for i in range(6)} == {name for name in names if name.startswith("averages.")}
    assert not any(name.startswith("averages.") for name in new_state().tensors())


@pytest.mark.parametrize("learned", [0, 3])
def test_a_copy_goes_on_like_the_other_which_does_not_notice(learned: int) -> None:
    state, alike = new_state(), new_state()
    steps(state, learned)
    steps(alike, learned)
    before = clones(state)
    state.ema = EMA(tuple(state.networks.values()), 5.0)
    other = copy.deepcopy(state)
    assert other.ema is None
    assert equal(other.tensors(), before)
    steps(other)
    assert equal({name: tensor for name, tensor in state.tensors().items() if "averages" not in name}, before)
    steps(alike)
    assert equal(other.tensors(), alike.tensors())
    assert all(
        {id(part) for group in other.optimisers[name].param_groups for part in group["params"]}
        == {id(part) for part in network.parameters()}
        for name, network in other.networks.items()
    )


def test_a_copys_optimisers_have_the_hooks_of_the_others() -> None:
    state, called = new_state(), list[object]()
    state.optimisers["encoder"].register_step_pre_hook(lambda optimiser, *_: called.append(optimiser))
    state.optimisers["encoder"].register_step_post_hook(lambda optimiser, *_: called.append(optimiser))
    other = copy.deepcopy(state)
    steps(other, 1)
    assert called == [other.optimisers["encoder"]] * 2


def test_when_a_task_is_over_no_gradient_is_kept() -> None:
    state = new_state()
    steps(state)
    state.settle()
    assert all(part.grad is None for network in state.networks.values() for part in network.parameters())


def test_random_numbers_of_another_kind_of_device_are_left_out() -> None:
    state, other = new_state(), new_state(seed=9)
    steps(state)
    before = other.generator.get_state()
    other.load({**clones(state), "generator": torch.zeros(3, dtype=torch.uint8)}, same_device=False)
    assert torch.equal(other.generator.get_state(), before)
    assert torch.equal(other.tensors()["decoder.weight"], state.tensors()["decoder.weight"])


def test_tensors_of_something_else_are_refused() -> None:
    state = new_state(ema=True)
    steps(state)
    with pytest.raises(RuntimeError, match="size mismatch"):
        new_state(width=5).load(clones(state))
    for missing, error in (("averages.0", KeyError), ("generator", KeyError), ("decoder.weight", RuntimeError)):
        part = {name: tensor for name, tensor in clones(state).items() if name != missing}
        with pytest.raises(error, match=missing.rpartition(".")[2]):
            new_state(ema=True).load(part)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"0.exp_avg": torch.zeros(7)}, r"optimiser state 0 has .*exp_avg.*\(7,\).* for a parameter of shape \(4, 3\)"),
        ({"2.exp_avg": torch.zeros(4)}, r"optimiser state 2 has .* for a parameter of shape None"),
        ({"0.other": torch.zeros(4, 3)}, r"optimiser state 0 of Adam has \['exp_avg', 'exp_avg_sq', 'other', 'step'\]"),
    ],
)
def test_moments_of_other_parameters_are_refused(change: dict[str, Tensor], message: str) -> None:
    state = new_state()
    steps(state)
    optimiser = state.optimisers["decoder"]
    with pytest.raises(ValueError, match=message):
        load_optimiser(optimiser, {**optimiser_tensors(optimiser), **change})


def test_moments_lie_in_memory_as_their_parameter_does() -> None:
    """Files know one order; Adam's fused kernel wants the parameter's own."""
    network = nn.Conv2d(3, 8, 4).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimiser = adam(network, 1e-3, (0.5, 0.999))
    network(torch.ones(1, 3, 4, 4)).sum().backward()
    optimiser.step()
    written = {name: tensor.contiguous().clone() for name, tensor in optimiser_tensors(optimiser).items()}
    load_optimiser(optimiser, written)
    assert optimiser.state[network.weight]["exp_avg"].stride() == network.weight.stride()
    assert torch.equal(optimiser.state[network.weight]["exp_avg"], written["0.exp_avg"])


def test_a_group_is_named_up_to_its_dot() -> None:
    tensors = {"encoder.a": torch.zeros(1), "encoder.b.c": torch.ones(1), "encoder_optimiser.0.step": torch.ones(1)}
    assert list(group(tensors, "encoder")) == ["a", "b.c"]
