"""dgmw: masks that harden, weights that are taken and stay, drawings that never change, and bits that are kept."""

from typing import Any

import numpy as np
import pytest
import torch
from generative_support import accuracies, learned, recognised
from method_support import TASKS, learner_of, recipe_of
from torch import Tensor

from ictrl import ConfigError
from ictrl.nets.dcgan import Decoder
from ictrl.nets.masked import MaskedDecoder, Masks, maskable, norm_numbers, of_task, packed, packed_bytes, unpacked
from ictrl.recipes.tables import recipe_with


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_a_mask_hardens_by_its_formula() -> None:
    masks = Masks(Decoder(8, 1, 4, 6, seeded()), seeded())
    e = masks.numbers[0].detach().double().numpy()
    for step, s in ((0, 1 / 50), (5, 1.0), (10, 50.0)):
        masks.steps.fill_(float(step))
        found = masks.soft(50.0, 11)[masks.names[0]].detach().double().numpy()
        np.testing.assert_allclose(found, 1 / (1 + np.exp(-s * e)), rtol=1e-4)


def test_a_masked_decoder_is_one_with_those_weights() -> None:
    decoder = Decoder(8, 1, 4, 6, seeded()).eval()
    masks = Masks(decoder, seeded(1))
    noise = torch.randn(5, 6, generator=seeded(2))
    with torch.no_grad():
        found = MaskedDecoder(decoder, masks, 50.0, 11)(noise)
        soft = masks.soft(50.0, 11)
        for name, weight in maskable(decoder).items():
            weight.mul_(soft[name])
        torch.testing.assert_close(found, decoder(noise))


def test_masks_are_bits() -> None:
    decoder = Decoder(8, 1, 3, 5, seeded())
    hard = Masks(decoder, seeded()).hard()
    bits = packed(hard)
    weights = sum(p.numel() for p in maskable(decoder).values())
    assert len(bits) == packed_bytes(decoder) == -(-weights // 8)
    assert bits.dtype == torch.uint8
    assert all(torch.equal(mask, hard[name]) for name, mask in unpacked(bits, decoder).items())


def test_of_a_task_what_is_masked_is_nothing() -> None:
    decoder = Decoder(8, 1, 4, 6, seeded())
    hard = Masks(decoder, seeded()).hard()
    numbers = norm_numbers(decoder) + 0.5
    found = of_task(decoder, hard, numbers)
    for name, weight in maskable(found).items():
        assert torch.equal(weight != 0, hard[name])
    torch.testing.assert_close(norm_numbers(found), numbers)


def everything_drawn(learner: Any, row: int) -> Tensor:
    with torch.no_grad():
        return learner.drawn(row, 12, seeded())


def test_old_classes_are_drawn_for_ever_as_they_were() -> None:
    """To the last bit, whatever is learned afterwards."""
    learner: Any = learner_of("dgmw", 1)
    before = [everything_drawn(learner, row) for row in (0, 1)]
    learner.learn(*TASKS[1])
    assert all(torch.equal(everything_drawn(learner, row), images) for row, images in enumerate(before))
    assert learner.kept["tasks"].tolist() == [0, 0, 1, 1]


def test_weights_that_are_taken_are_changed_no_more_and_others_are() -> None:
    learner: Any = learner_of("dgmw", 1)
    decoder = learner._state.networks["decoder"]
    taken = learner.taken(decoder)
    before = {name: p.detach().clone() for name, p in maskable(decoder).items()}
    learner.learn(*TASKS[1])
    moved = {name: p.detach() != before[name] for name, p in maskable(learner._state.networks["decoder"]).items()}
    for name, mask in taken.items():
        assert not bool((moved[name] & mask).any())
    assert any(bool((moved[name] & ~mask).any()) for name, mask in taken.items())


def test_what_is_paid_for_masks_against_its_formula() -> None:
    learner: Any = learner_of("dgmw", 1, sparsity=2.0)
    decoder = learner._state.networks["decoder"]
    masks = Masks(decoder, seeded())
    learner._state.networks["masks"] = masks
    learner._taken, learner._steps = learner.taken(decoder), 11
    masks.steps.fill_(10.0)
    soft = [1 / (1 + np.exp(-200.0 * e.detach().double().numpy())) for e in masks.numbers]
    free = [~mask.numpy() for mask in learner._taken.values()]
    expected = 2.0 * sum((m * f).sum() for m, f in zip(soft, free)) / sum(f.sum() for f in free)
    assert float(learner.held(4)["decoder.masks"].detach()) == pytest.approx(expected, rel=1e-4)


def test_a_task_goes_with_its_last_class() -> None:
    learner: Any = learner_of("dgmw")
    last = everything_drawn(learner, 3)
    learner.forget(5)
    assert learner.kept["tasks"].tolist() == [0, 1, 1]
    learner.forget(-4)
    assert learner.kept["tasks"].tolist() == [0, 0]
    assert len(learner.kept["masks"]) == 1
    assert torch.equal(everything_drawn(learner, 1), last)


def test_bytes_are_those_of_masks_and_norms() -> None:
    learner: Any = learner_of("dgmw")
    decoder = learner._state.networks["decoder"]
    per_task = packed_bytes(decoder) + 4 * len(norm_numbers(decoder))
    assert learner.kept_bytes == 2 * per_task + 4 * 8 + 4 * 8  # a task's number and a label of each class
    assert set(learner._state.networks) == {"encoder", "head", "decoder", "critic", "codes", "told"}


def test_digits_are_drawn_and_not_forgotten() -> None:
    learner = learned("dgmw", drawing={"epochs": 20}, stage={"epochs": 8})
    every, old = accuracies(learner)
    assert min(recognised(learner)) > 0.8
    assert every > 0.85
    assert old > accuracies(learned("finetune", later={"epochs": 8}))[1] + 0.4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sparsity": -1.0}, "Expected sparsity to be at least 0 but got -1.0"),
        ({"hardest": 1.0}, "Expected hardest to be above 1 but got 1.0"),
        ({"network": {"feature_dim": 15}}, "Expected network.feature_dim to be even but got 15"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        recipe_with(recipe_of("dgmw"), {"method": settings})
