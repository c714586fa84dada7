"""Encoder and decoder with their optimisers."""

from importlib import import_module
from pathlib import Path

import pytest
import torch
from support import tiny_players
from torch import nn

from ictrl.training import players
from ictrl.training.players import adam, untrained


def test_each_player_has_the_parameters_of_its_own_network() -> None:
    players = tiny_players(learning_rate=3e-4)
    for network, optimiser in (
        (players.encoder, players.encoder_optimiser),
        (players.decoder, players.decoder_optimiser),
    ):
        (group,) = optimiser.param_groups
        assert [id(p) for p in group["params"]] == [id(p) for p in network.parameters()]
        assert (float(group["lr"]), group["betas"]) == (pytest.approx(3e-4), (0.5, 0.999))


def test_statistics_are_trained_for_both_or_for_none() -> None:
    players = tiny_players()
    for train in (True, False):
        players.train_statistics(train)
        norms = [
            module
            for network in (players.encoder, players.decoder)
            for module in network.modules()
            if isinstance(module, nn.BatchNorm2d)
        ]
        assert norms
        assert {norm.training for norm in norms} == {train}


def test_an_optimiser_can_be_recorded_where_its_network_is_on_a_gpu(device: str) -> None:
    (group,) = adam(nn.Linear(2, 2).to(device), 1e-3, (0.5, 0.999)).param_groups
    on_gpu = device == "cuda"
    assert (bool(group["capturable"]), bool(group["fused"])) == (on_gpu, on_gpu)
    assert isinstance(group["lr"], torch.Tensor) is on_gpu


def test_gradients_pass_through_an_untrained_network_and_leave_nothing() -> None:
    network, x = nn.Linear(2, 2), torch.ones(1, 2, requires_grad=True)
    with untrained(network):
        network(x).sum().backward()
    assert x.grad is not None
    assert all(parameter.grad is None for parameter in network.parameters())
    assert all(parameter.requires_grad for parameter in network.parameters())
    with pytest.raises(KeyError), untrained(network):
        raise KeyError
    assert all(parameter.requires_grad for parameter in network.parameters())


def test_what_was_not_trained_before_is_not_trained_afterwards() -> None:
    network = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).requires_grad_(False))
    with untrained(network):
        assert not any(parameter.requires_grad for parameter in network.parameters())
    assert [parameter.requires_grad for parameter in network.parameters()] == [True, True, False, False]


def test_ctrl_c_while_torch_imports_its_compiler_leaves_it_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["import signal", "signal.raise_signal(signal.SIGINT)", "whole = True"]
    (tmp_path / "slow_compiler.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(players, "COMPILER", "slow_compiler")
    with pytest.raises(KeyboardInterrupt):
        adam(nn.Linear(2, 2), 0.1, (0.9, 0.99))
    assert import_module("slow_compiler").whole
    adam(nn.Linear(2, 2), 0.1, (0.9, 0.99))
