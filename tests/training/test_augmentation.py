"""What a network is shown is the image: mirrored, moved and turned as it was drawn, and nothing else."""

import numpy as np
import pytest
import torch

from ictrl.config import AugmentationConfig
from ictrl.errors import ConfigError
from ictrl.training.augmentation import ROTATIONS, Drawn, cropped, draw, recoloured, rotated_labels, shown


def images(n: int) -> torch.Tensor:
    return torch.randint(256, (n, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_what_is_shown_is_the_image_mirrored_and_elsewhere(device: str) -> None:
    pixels = images(100)
    padded = torch.nn.functional.pad(pixels.float(), (2, 2, 2, 2), mode="replicate")
    flipped = torch.arange(100) % 2
    moves = torch.stack([torch.arange(100) % 5, torch.arange(100) // 5 % 5]) - 2
    seen = shown(pixels.to(device), flipped.to(device), moves.to(device), None, torch.float32).cpu()
    for i in range(100):
        i_down, i_right = (moves[:, i] + 2).tolist()
        whole = padded[i].flip(-1) if flipped[i] else padded[i]
        assert torch.allclose(seen[i], whole[:, i_down : i_down + 8, i_right : i_right + 8] / 127.5 - 1, atol=1e-6)
    still = shown(pixels.to(device), torch.zeros_like(flipped).to(device), None, None, torch.float32).cpu()
    assert torch.allclose(still, pixels / 127.5 - 1, atol=1e-6)


def test_quarters_turn_what_was_mirrored_and_moved(device: str) -> None:
    pixels = images(8).to(device)
    flipped, moves = torch.arange(8, device=device) % 2, torch.arange(16, device=device).view(2, 8) % 5 - 2
    straight = shown(pixels, flipped, moves, None, torch.float32)
    turned = torch.arange(8, device=device) // 2
    seen = shown(pixels, flipped, moves, turned, torch.float32)
    for i in range(8):
        assert torch.equal(seen[i], straight[i].rot90(i // 2, (1, 2)))


def test_black_and_white_are_the_ends_of_the_range(device: str) -> None:
    ends = torch.tensor([0, 255], dtype=torch.uint8, device=device).view(1, 1, 1, 2)
    still = torch.zeros(1, dtype=torch.long, device=device)
    assert shown(ends, still, None, None, torch.bfloat16).flatten().tolist() == [-1, 1]


def test_nothing_is_drawn_that_is_off(generator: torch.Generator) -> None:
    before = generator.get_state()
    drawn = draw(AugmentationConfig(), torch.arange(5), generator)
    assert drawn.flipped.tolist() == [0] * 5
    assert (drawn.moves, drawn.turned) == (None, None)
    assert torch.equal(generator.get_state(), before)
    pixels = images(5)
    assert torch.allclose(drawn.apply(pixels, torch.float32), pixels / 127.5 - 1, atol=1e-6)


def test_all_that_may_be_drawn_is_drawn_equally_often(generator: torch.Generator) -> None:
    drawn = draw(AugmentationConfig(mirror=True, shifts=2, rotations=True), torch.zeros(40_000).long(), generator)
    assert drawn.moves is not None
    assert drawn.turned is not None
    for values, choices in (
        (drawn.flipped, [0, 1]),
        (drawn.moves[0], [-2, -1, 0, 1, 2]),
        (drawn.moves[1], [-2, -1, 0, 1, 2]),
        (drawn.turned, [0, 1, 2, 3]),
    ):
        found, counts = values.unique(return_counts=True)
        assert found.tolist() == choices
        assert (counts / 40_000).tolist() == pytest.approx([1 / len(choices)] * len(choices), abs=0.01)


def test_what_was_drawn_is_what_is_applied(generator: torch.Generator) -> None:
    drawn, pixels = draw(AugmentationConfig(True, 1, True), torch.arange(30), generator), images(30)
    assert drawn.moves is not None
    assert drawn.turned is not None
    seen = drawn.apply(pixels, torch.float32)
    for i in range(30):
        turned = int(drawn.turned[i])
        one = shown(pixels[i : i + 1], drawn.flipped[i : i + 1], drawn.moves[:, i : i + 1], None, torch.float32)
        assert torch.equal(seen[i], one[0].rot90(turned, (1, 2)))
    assert drawn.apply(pixels, torch.bfloat16).dtype == torch.bfloat16


@pytest.mark.parametrize("turned", [False, True])
def test_black_edges_are_those_of_an_image_padded_with_black(
    turned: bool, generator: torch.Generator, device: str
) -> None:
    config = AugmentationConfig(mirror=True, shifts=3, rotations=turned, edges="black")
    drawn, pixels = draw(config, torch.arange(40), generator), images(40)
    assert drawn.moves is not None
    on_device = Drawn(*(p.to(device) if isinstance(p, torch.Tensor) else p for p in vars(drawn).values()))
    seen = on_device.apply(pixels.to(device), torch.float32).cpu().numpy()
    for i, picture in enumerate(pixels.numpy()):
        mirrored = picture[:, :, ::-1] if drawn.flipped[i] else picture
        padded = np.pad(mirrored, ((0, 0), (3, 3), (3, 3)))
        down, right = (int(by) for by in drawn.moves[:, i])
        h, w = picture.shape[1:]
        part = padded[:, 3 + down : 3 + down + h, 3 + right : 3 + right + w]
        quarters = int(drawn.turned[i]) if drawn.turned is not None else 0
        np.testing.assert_allclose(seen[i], np.rot90(part, quarters, (1, 2)) / 127.5 - 1, atol=1e-6)


def test_the_kind_of_edge_changes_no_draw() -> None:
    drawn = [
        draw(AugmentationConfig(mirror=True, shifts=3, edges=edges), torch.arange(9), torch.Generator().manual_seed(1))
        for edges in ("repeated", "black")
    ]
    assert drawn[0].moves is not None
    assert torch.equal(drawn[0].moves, drawn[1].moves)  # type: ignore[arg-type]
    assert torch.equal(drawn[0].flipped, drawn[1].flipped)


def test_augmentation_is_a_function_of_the_generator() -> None:
    config = AugmentationConfig(mirror=True, shifts=3, rotations=True)
    one, same, other = (draw(config, torch.arange(50), torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(one.flipped, same.flipped)
    assert not torch.equal(one.flipped, other.flipped)


@pytest.mark.parametrize("old", [0, 3])
def test_every_rotation_of_a_new_class_has_a_number_of_its_own(old: int) -> None:
    y, turned = (part.flatten() for part in torch.meshgrid(torch.arange(old, old + 5), torch.arange(4), indexing="ij"))
    labels = rotated_labels(y, turned, old)
    assert labels.tolist() == list(range(old, old + 5 * ROTATIONS))
    assert rotated_labels(y.short(), turned, old).dtype == torch.int16  # as few bits as before


def test_a_crop_of_everything_is_the_image() -> None:
    X = torch.rand(3, 3, 8, 8) * 2 - 1
    whole = torch.tensor([1.0, 1.0, 0.0, 0.0])[:, None].expand(4, 3)
    torch.testing.assert_close(cropped(X, whole), X)


def test_a_crop_shows_a_part_enlarged() -> None:
    """The left half: its middle column of pixels lies where the image's quarter was."""
    X = torch.linspace(-1, 1, 8).expand(1, 1, 8, 8).clone()
    left = torch.tensor([0.5, 1.0, -0.5, 0.0])[:, None]
    shown = cropped(X, left)
    assert float(shown.max()) < 0.1
    torch.testing.assert_close(shown[0, 0, 0].mean(), X[0, 0, 0, :4].mean(), atol=0.02, rtol=0)


def test_crops_keep_to_the_share_that_is_asked_for(generator: torch.Generator) -> None:
    drawn = draw(AugmentationConfig(crop=0.3), torch.arange(500), generator)
    assert drawn.crops is not None
    width, height, x, y = drawn.crops
    area = width * height
    assert 0.25 < float(area.min()) < 0.35  # a side is never longer than the image
    assert float(area.max()) > 0.9
    assert float((x.abs() + width).max()) <= 1 + 1e-6
    assert float((y.abs() + height).max()) <= 1 + 1e-6


def test_colours_change_as_the_factors_say() -> None:
    X = torch.rand(2, 3, 4, 4) * 1.2 - 0.6
    same = torch.ones(3, 2)
    torch.testing.assert_close(recoloured(X, same, None), X)
    brighter = recoloured(X, torch.tensor([[1.2], [1.0], [1.0]]).expand(3, 2), None)
    torch.testing.assert_close(brighter, ((X + 1) * 1.2 - 1).clamp(-1, 1))
    grey = recoloured(X, None, torch.tensor([True, False]))
    assert torch.equal(grey[0, 0], grey[0, 2])
    assert torch.equal(grey[1], X[1])
    without_saturation = recoloured(X, torch.tensor([[1.0], [1.0], [0.0]]).expand(3, 2), None)
    torch.testing.assert_close(without_saturation[:, 0], without_saturation[:, 1])


def test_grey_images_have_no_saturation_to_change() -> None:
    X = torch.rand(2, 1, 4, 4)
    torch.testing.assert_close(recoloured(X, torch.tensor([[1.0], [1.0], [0.3]]).expand(3, 2), None), X)


@pytest.mark.parametrize("settings", [{"crop": 0.0}, {"crop": 1.5}, {"jitter": 1.0}, {"grey": -0.1}])
def test_crops_and_colours_out_of_range(settings: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=f"augmentation.{next(iter(settings))}"):
        AugmentationConfig(**settings)
