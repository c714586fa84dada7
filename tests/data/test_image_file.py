"""Images in a file are a tensor by all looks, and what is not asked for is not read."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from ictrl.data.image_file import FileImages, header, open_arrays, take

PIXELS = np.random.default_rng(0).integers(256, size=(20, 3, 4, 4), dtype=np.uint8)
ORDINARY = torch.from_numpy(PIXELS)


@pytest.fixture
def images() -> FileImages:
    return FileImages(PIXELS)


@pytest.mark.parametrize(
    "part",
    [
        lambda X: X[3:9],
        lambda X: X[-5:],
        lambda X: X[::3],
        lambda X: X.split(7)[2],
        lambda X: X.split([5, 15])[1],
        lambda X: X.chunk(3)[0],
        lambda X: X.detach(),
        lambda X: X.to("cpu"),
        lambda X: X.contiguous(),
        lambda X: take(X, torch.arange(20) % 3 == 0),
        lambda X: take(X, torch.tensor([4, 4, -1])),
        lambda X: take(take(X, torch.tensor([9, 8, 7])), torch.tensor([2, 0]))[1:],
    ],
)
def test_parts_stay_in_the_file(images: FileImages, part, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(FileImages, "read", None)
        found = part(images)
    assert isinstance(found, FileImages)
    assert torch.equal(found, part(ORDINARY))


@pytest.mark.parametrize(
    "computed",
    [
        lambda X: X[5],
        lambda X: X[-1],
        lambda X: X[torch.tensor([3, -2, 3])],
        lambda X: X[torch.arange(20) > 11],
        lambda X: X.index_select(0, torch.tensor([7, 0])),
        lambda X: X.float(),
        lambda X: X.flip(-1),
        lambda X: X[:, 1],
        lambda X: torch.cat([X[:2], X]),
        lambda X: X.to("cpu", copy=True),
        lambda X: X.clone(),
        lambda X: torch.stack(list(X[:3])),
        lambda X: torch.from_numpy(X[2:4].numpy()),
    ],
)
def test_what_is_computed_is_an_ordinary_tensor(images: FileImages, computed) -> None:
    found = computed(images)
    assert type(found) is Tensor
    assert torch.equal(found, computed(ORDINARY))


def test_a_few_images_are_read_and_not_all(images: FileImages, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    whole = FileImages.read
    monkeypatch.setattr(FileImages, "read", lambda self: read.append(len(self)) or whole(self))
    _ = images[4], images[torch.tensor([1, 2])], images.split(6)[3].float()
    assert sum(read) == 1 + 2 + 2


def test_rows_are_read_into_a_buffer(images: FileImages) -> None:
    out = np.empty((2, 3, 4, 4), np.uint8)
    images[10:].read_rows(np.array([0, 9]), out)
    np.testing.assert_array_equal(out, PIXELS[[10, 19]])


def test_looks_like_a_tensor(images: FileImages) -> None:
    assert (images.dtype, images.device.type, images.nbytes) == (torch.uint8, "cpu", PIXELS.nbytes)
    assert (len(images), images.is_contiguous(), images.is_meta) == (20, True, False)
    assert repr(images) == "FileImages of shape (20, 3, 4, 4)"


def written(path: Path) -> Path:
    arrays = {"images": ("uint8", PIXELS.shape), "labels": ("int64", (20,))}
    path.write_bytes(header(arrays) + PIXELS.tobytes() + np.arange(20).tobytes())
    return path


def test_the_file_is_one_of_safetensors(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    path = written(tmp_path / "file.safetensors")
    arrays, other = open_arrays(path), load_file(path)
    np.testing.assert_array_equal(arrays["images"], PIXELS)
    assert arrays["labels"].tolist() == list(range(20))
    assert all(np.array_equal(arrays[name], other[name]) for name in ("images", "labels"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1],
        lambda content: content[:100],
        lambda content: b"",
        lambda content: content + b"x",
        lambda content: b"\xff" * 16 + content[16:],
        lambda content: content.replace(b'"U8"', b'"F8"'),
        lambda content: content.replace(b"[20, 3, 4, 4]", b"[-2, 3, 4, 4]"),
        lambda content: content.replace(b"[20, 3, 4, 4]", b'[20, 3, 4, ""]'),
        lambda content: content[:8] + b"[" * 4088 + content[4096:],
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, damage) -> None:
    path = written(tmp_path / "file.safetensors")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"."):
        open_arrays(path)
