"""Calibration: the right temperature, the stated rate of false alarms, and no number of a single image."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from ictrl import InputError
from ictrl.memory.calibration import (
    ENOUGH,
    GROUPS,
    LEAST,
    NOT_CALIBRATED,
    Calibration,
    fitted_temperature,
    group_means,
    held_out,
)

DRAWS: dict[str, Callable[[int, torch.Generator], Tensor]] = {
    "normal": lambda n, generator: torch.randn(n, generator=generator),
    "exponential": lambda n, generator: torch.empty(n).exponential_(generator=generator),
    "uniform": lambda n, generator: torch.rand(n, generator=generator),
}


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def calibrated(*tasks: Tensor, classes: int = 2) -> Calibration:
    """By images of these measures of strangeness, task by task, every one scored alike."""
    found = NOT_CALIBRATED
    for strangeness in tasks:
        n = len(strangeness)
        found = found.with_task(torch.zeros(n, classes), torch.zeros(n).long(), strangeness)
    return found


@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
def test_a_known_temperature_is_found_again(temperature: float) -> None:
    logits = 2 * torch.randn(20_000, 10, generator=generator())
    labels = logits.softmax(1).multinomial(1, generator=generator(1))[:, 0]
    assert fitted_temperature(temperature * logits, labels) == pytest.approx(temperature, rel=0.03)


def test_no_temperature_nearby_is_likelier() -> None:
    scores, labels = torch.randn(300, 5, generator=generator()) * 6, torch.randint(5, (300,), generator=generator(1))
    scores[torch.arange(200), labels[:200]] += 6
    best = fitted_temperature(scores, labels)

    def loss(temperature: float) -> float:
        p = (scores.double() / temperature).log_softmax(1)
        return math.log(temperature) ** 2 / 2 - float(p.gather(1, labels[:, None]).sum())

    assert all(loss(best) <= loss(best * factor) for factor in (0.5, 0.99, 1.01, 2.0))


@pytest.mark.parametrize("margin", [1e2, 1e6])
def test_images_that_are_all_right_by_far_change_nothing(margin: float) -> None:
    scores = torch.tensor([[margin, 0.0]]).expand(50, 2)
    assert fitted_temperature(scores, torch.zeros(50).long()) == pytest.approx(1.0, abs=1e-4)


def test_a_share_of_each_class_is_held_out() -> None:
    y = torch.tensor([3] * 100 + [7] * 200)
    chosen = held_out(y, 0.1, generator())
    assert [int(chosen[y == label].sum()) for label in (3, 7)] == [10, 20]
    assert torch.equal(chosen, held_out(y, 0.1, generator()))
    assert not torch.equal(chosen, held_out(y, 0.1, generator(1)))


def test_ten_images_of_a_class_always_remain_and_one_is_held_out_if_that_leaves_ten() -> None:
    y = torch.arange(4).repeat_interleave(torch.tensor([100, 12, 11, 10]))
    chosen = held_out(y, 0.5, generator())
    assert [int(chosen[y == label].sum()) for label in range(4)] == [50, 2, 1, 0]
    little = held_out(torch.arange(30).repeat_interleave(20), 0.001, generator())
    assert int(little.sum()) == 30


@pytest.mark.parametrize(("each", "share"), [(20, 0.1), (10, 0.9), (500, 0.0)])
def test_with_too_few_images_none_is_held_out(each: int, share: float) -> None:
    assert not held_out(torch.arange(2).repeat_interleave(each), share, generator()).any()


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
@pytest.mark.parametrize("rate", [0.01, 0.05, 0.3])
def test_false_alarms_are_as_many_as_asked_for(draw: Callable[[int, torch.Generator], Tensor], rate: float) -> None:
    calibration = calibrated(draw(5000, generator()))
    alarms = float(calibration.unknown(draw(50_000, generator(1)), rate).double().mean())
    assert alarms == pytest.approx(rate, abs=4 * (rate / 5000) ** 0.5)


def test_of_few_images_an_exponential_tail_is_known_beyond_the_last() -> None:
    """On average over many calibrations by forty images each, of which none is expected to be that far out."""
    rates = [
        float(calibrated(DRAWS["exponential"](40, generator(seed))).share_stranger(torch.tensor([5.0])))
        for seed in range(200)
    ]
    assert torch.tensor(rates).log().mean() == pytest.approx(-5.0, abs=0.5)


def test_tasks_count_by_their_images() -> None:
    """Of two kinds of images, one always stranger than the other: half the rate of one is another rate of both."""
    familiar, strange = torch.rand(3000, generator=generator()), 10 + torch.rand(1000, generator=generator(1))
    calibration = calibrated(familiar, strange)
    assert float(calibration.share_stranger(torch.tensor([5.0]))) == pytest.approx(0.25, abs=0.01)
    assert float(calibration.share_stranger(torch.tensor([10.5]))) == pytest.approx(0.125, abs=0.02)


def test_the_stranger_an_image_the_fewer_look_stranger() -> None:
    shares = calibrated(torch.randn(700, generator=generator())).share_stranger(torch.linspace(-5, 50, 300))
    assert bool((shares.diff() <= 0).all())
    assert float(shares[0]) == pytest.approx(1.0, abs=0.02)
    assert float(shares[-1]) < 1e-6


def test_images_that_all_look_alike_still_tell_strangers() -> None:
    calibration = calibrated(torch.full((40,), 0.5))
    assert calibration.unknown(torch.tensor([0.4, 0.6]), 0.05).tolist() == [False, True]


@pytest.mark.parametrize("n", [ENOUGH, 57, 900, 100_000])
def test_every_number_that_is_kept_stands_for_ten_images(n: int) -> None:
    strangeness = torch.rand(n, generator=generator())
    means = group_means(strangeness)
    sizes = torch.tensor([len(group) for group in strangeness.tensor_split(len(means))])
    assert int(sizes.min()) >= LEAST
    assert len(means) == min(GROUPS, n // LEAST)
    assert float(means.double() @ sizes.double()) == pytest.approx(float(strangeness.double().sum()), rel=1e-5)
    if n < 1000:  # where numbers are so many that some are the same by chance, nothing can be told
        assert not torch.isin(means, strangeness).any()


def test_tasks_that_knew_fewer_than_half_of_the_classes_no_longer_count() -> None:
    strangeness = torch.rand(40, generator=generator())
    calibration = NOT_CALIBRATED
    for k in (2, 4, 8):
        scores = torch.zeros(40, k)
        scores[:, 0] = 1.0
        calibration = calibration.with_task(scores, torch.arange(40) % 2, strangeness)
    assert calibration.classes.tolist() == [4, 8]
    assert len(calibration.temperatures) == 2
    assert len(calibration.groups) == 2 * 4


def test_the_temperature_is_the_geometric_mean_by_images() -> None:
    parts = torch.tensor([2, 2]), torch.tensor([100, 300]), torch.tensor([1.0, 16.0])
    assert Calibration(*parts, torch.zeros(10 + 30)).temperature == pytest.approx(8.0)
    assert NOT_CALIBRATED.temperature == 1.0


@pytest.mark.parametrize("rate", [0.0, 1.0, 1.5, -0.1, float("nan")])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    calibration = calibrated(torch.rand(40, generator=generator()))
    with pytest.raises(InputError, match="a share of false alarms above 0 and below 1"):
        calibration.unknown(torch.tensor([0.5]), rate)


def test_without_held_out_images_nothing_is_told_unknown() -> None:
    with pytest.raises(InputError, match=r"held out 20 images .* raise calibration.held_out"):
        NOT_CALIBRATED.unknown(torch.tensor([0.5]), 0.05)


def test_what_is_kept_is_read_again_and_what_does_not_fit_is_refused() -> None:
    calibration = calibrated(torch.rand(900, generator=generator()), torch.rand(40, generator=generator()))
    tensors = calibration.tensors()
    again = Calibration.from_tensors({**tensors, "means": torch.zeros(3)})
    assert all(torch.equal(tensor, again.tensors()[name]) for name, tensor in tensors.items())
    assert sum(tensor.numel() * tensor.element_size() for tensor in tensors.values()) == 2 * 20 + 4 * (32 + 4)
    assert Calibration.from_tensors({}).tensors() == {}
    with pytest.raises(ValueError, match="groups"):
        Calibration.from_tensors({**tensors, "calibration.groups": torch.zeros(7)})
    with pytest.raises(KeyError):
        Calibration.from_tensors({"calibration.groups": torch.zeros(7)})
