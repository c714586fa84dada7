"""The GPU kernels compute what the lines of PyTorch do that they stand for.

On a GPU the kernels themselves are tested; elsewhere Triton's interpreter runs them, number by number, on the CPU. It
knows no products of bfloat16.
"""

import copy
import math
import os
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from parallel_support import together
from torch import Tensor, nn
from torch.nn import functional

GPU = torch.cuda.is_available()
if not GPU:
    os.environ["TRITON_INTERPRET"] = "1"  # read when the kernels are first imported

pytest.importorskip("triton", reason="the kernels are written in Triton, which is not installed")
from ictrl import kernels  # noqa: E402
from ictrl.kernels import triton_kernels as fast  # noqa: E402
from ictrl.nets.dcgan import Decoder, Encoder  # noqa: E402
from ictrl.nets.layers import LEAK, exact_float32  # noqa: E402
from ictrl.nets.wrappers import ImageDecoder, ImageEncoder  # noqa: E402
from ictrl.parallel.sharing import add_gradients, gathered, mine, total  # noqa: E402
from ictrl.theory.rates import _rates_and_derivatives  # noqa: E402
from ictrl.training.augmentation import shown  # noqa: E402

DEVICE = "cuda" if GPU else "cpu"
SHAPES = [(3, 3, 64, 8), (5, 1, 12, 4), (2, 5, 96, 4), (1, 2, 130, 2)]  # images, channels, features, side of features


def tensor(*shape: int, seed: int = 0) -> Tensor:
    drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)
    return drawn.contiguous(memory_format=torch.channels_last).requires_grad_() if drawn.ndim == 4 else drawn


def agree(found: tuple[Tensor, ...], expected: tuple[Tensor, ...], tolerance: float = 1e-5) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        ours, theirs = ours.detach(), theirs.detach()
        assert ours.shape == theirs.shape
        assert float((ours - theirs).double().norm()) <= tolerance * float(theirs.double().norm())


def with_gradients(y: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    dy = torch.randn(y.shape, generator=torch.Generator().manual_seed(9)).to(y)
    return y, *torch.autograd.grad(y, inputs, dy)


def some_norm(features: int, training: bool) -> nn.BatchNorm2d:
    norm = nn.BatchNorm2d(features).to(DEVICE)
    with torch.no_grad():
        norm.weight.copy_(tensor(features, seed=2))
        norm.bias.copy_(tensor(features, seed=3))
        norm.running_mean.copy_(3 + tensor(features, seed=4))  # type: ignore[union-attr]
        norm.running_var.copy_(1 + tensor(features, seed=5).square())  # type: ignore[union-attr]
    return norm.train(training)


@pytest.mark.parametrize(("n", "channels", "features", "side"), SHAPES)
def test_the_convolution_next_to_the_image(n: int, channels: int, features: int, side: int) -> None:
    X, weight = tensor(n, channels, 2 * side, 2 * side), tensor(features, channels, 4, 4, seed=1)
    with exact_float32():
        plain = functional.leaky_relu(functional.conv2d(X, weight, stride=2, padding=1), LEAK)
        agree(
            with_gradients(fast.image_convolution(X, weight, LEAK), X, weight),
            with_gradients(plain, X, weight),
        )


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(("n", "channels", "features", "side"), SHAPES)
def test_the_transposed_convolution_next_to_the_image(
    n: int, channels: int, features: int, side: int, training: bool
) -> None:
    H, weight = tensor(n, features, side, side), (0.1 * tensor(features, channels, 4, 4, seed=1)).detach()
    weight.requires_grad_()
    norm = some_norm(features, training)
    plain = copy.deepcopy(norm)
    with exact_float32():
        X = functional.conv_transpose2d(plain(H).relu(), weight, stride=2, padding=1).tanh()
        found = with_gradients(fast.normed_image(H, norm, weight), H, weight, norm.weight, norm.bias)
        agree(found, with_gradients(X, H, weight, plain.weight, plain.bias), 2e-5)
    agree(tuple(norm.buffers()), tuple(plain.buffers()))


def test_small_pixels_keep_their_digits() -> None:
    H, weight = 1e-4 * tensor(2, 16, 4, 4).detach(), 0.1 * tensor(16, 3, 4, 4, seed=1).detach()
    norm = nn.BatchNorm2d(16).to(DEVICE).eval()
    with exact_float32():
        X = functional.conv_transpose2d(norm(H).relu(), weight, stride=2, padding=1).tanh()
    agree((fast.normed_image(H, norm, weight),), (X,), 1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, *([torch.bfloat16] if GPU else [])])
def test_a_pixel_that_is_quite_white_can_still_change(dtype: torch.dtype) -> None:
    H = torch.ones(2, 16, 4, 4, dtype=dtype, device=DEVICE, requires_grad=True)
    norm, weight = nn.BatchNorm2d(16).to(DEVICE).eval(), torch.full((16, 3, 4, 4), 0.2, device=DEVICE)
    X = fast.normed_image(H, norm, weight)
    assert float(X[0, 0, 4, 4].detach()) == 1  # tanh(4 · 16 · 0.2)
    X[0, 0, 4, 4].backward()
    assert H.grad is not None
    assert float(H.grad.max()) == pytest.approx(0.2 / math.cosh(12.8) ** 2, rel=0.05)


def test_an_image_may_lie_in_memory_as_it_likes() -> None:
    X, weight = tensor(3, 3, 16, 16).detach(), tensor(8, 3, 4, 4, seed=1)
    rows_first = X.contiguous(memory_format=torch.contiguous_format)
    agree((fast.image_convolution(rows_first, weight, LEAK),), (fast.image_convolution(X, weight, LEAK),), 0)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(("n", "features", "side"), [(3, 64, 8), (5, 12, 4), (2, 96, 4), (40, 130, 2)])
@pytest.mark.parametrize("slope", [0.0, LEAK])
def test_batchnorm_with_its_activation(n: int, features: int, side: int, slope: float, training: bool) -> None:
    H, norm = (3 + 2 * tensor(n, features, side, side)).detach().requires_grad_(), some_norm(features, training)
    plain = copy.deepcopy(norm)
    found = with_gradients(fast.leaky_norm(H, norm, slope), H, norm.weight, norm.bias)
    expected = with_gradients(functional.leaky_relu(plain(H), slope), H, plain.weight, plain.bias)
    agree(found, expected, 2e-5)
    agree(tuple(norm.buffers()), tuple(plain.buffers()))


def shared_norms() -> dict[str, Tensor]:
    """BatchNorm by the kernels, alone and before the image, of which a process has a share of the rows."""
    H, norm, last = tensor(5, 12, 4, 4), some_norm(12, training=True), some_norm(12, training=True)
    weight = (0.1 * tensor(12, 3, 4, 4, seed=1)).detach().requires_grad_()
    with exact_float32():
        y = fast.leaky_norm(mine(H), norm, LEAK)
        X = fast.normed_image(y, last, weight)
    total((X * mine(tensor(5, 3, 8, 8, seed=2))).sum()).backward()
    parameters = {"H": H, "image": weight, **dict(norm.named_parameters()), "last": last.weight}
    add_gradients(torch.optim.SGD(parameters.values()))
    buffers = {f"{i}.{name}": value for i, each in enumerate((norm, last)) for name, value in each.named_buffers()}
    gradients = {name: p.grad for name, p in parameters.items() if p.grad is not None}
    return {"X": gathered(X.detach(), 5), **gradients, **buffers}


@pytest.mark.skipif(GPU, reason="a process that was forked has no GPU")
def test_norms_of_rows_that_processes_share() -> None:
    expected = shared_norms()
    assert len(expected) == 12  # the image, gradients, two sets of statistics
    for size in (1, 2):
        for found in together(size, shared_norms):
            for name, value in expected.items():
                agree((found[name],), (value,), 1e-4)


def test_a_frozen_norm_passes_gradients_on_and_learns_nothing() -> None:
    H, norm = tensor(4, 8, 4, 4), nn.BatchNorm2d(8).to(DEVICE).eval().requires_grad_(False)
    agree(
        with_gradients(fast.leaky_norm(H, norm, LEAK), H),
        with_gradients(functional.leaky_relu(norm(H), LEAK), H),
    )


@pytest.mark.parametrize(("moved", "turned"), [(False, False), (True, False), (True, True)])
def test_pixels_are_shown(moved: bool, turned: bool) -> None:
    random = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (7, 3, 6, 6 if turned else 10), dtype=torch.uint8, generator=random).to(DEVICE)
    flipped = torch.randint(2, (7,), generator=random).to(DEVICE)
    moves = torch.randint(-3, 4, (2, 7), generator=random).to(DEVICE) if moved else None
    quarters = torch.arange(7, device=DEVICE) % 4 if turned else None
    with kernels.plain_torch():
        expected = shown(pixels, flipped, moves, quarters, torch.float32)
    agree((fast.shown(pixels, flipped, moves, quarters, torch.float32),), (expected,), 1e-6)


@pytest.mark.parametrize(("matrices", "d"), [(1, 1), (3, 5), (4, 32), (2, 40), (2, 128)])
def test_coding_rates_of_small_moments(matrices: int, d: int) -> None:
    Z = functional.normalize(tensor(matrices, 2 * d, d), dim=2)
    S, n = Z.mT @ Z, torch.full((matrices,), 2.0 * d, device=DEVICE)
    n[-1] = 0  # an empty class
    exact, derivative, _ = _rates_and_derivatives(S.cpu().double(), n.cpu().double(), 0.5)
    rates, derivatives, failed = fast.coding_rates(S, n, 0.5)
    agree((rates.cpu(), derivatives.cpu()), (exact, derivative), 2e-6)
    assert failed.tolist() == [0] * matrices
    assert float(rates[-1]) == 0


@pytest.mark.filterwarnings("ignore:invalid value")  # the interpreter's, of a logarithm
def test_moments_without_a_rate_are_noticed() -> None:
    S = torch.eye(3, device=DEVICE).expand(3, 3, 3).clone()
    S[1, 2, 2], S[2, 1, 1] = -5.0, torch.nan
    assert fast.coding_rates(S, torch.ones(3, device=DEVICE), 1.0)[2].tolist() == [0, 3, 2]


@pytest.mark.parametrize(
    ("cuda", "rows", "dtype", "suits"),
    [
        (True, 3, torch.float32, True),
        (True, 3, torch.bfloat16, True),
        (False, 3, torch.float32, False),
        (True, 0, torch.float32, False),  # nothing to launch
        (True, 3, torch.float64, False),  # kernels add up in float32
    ],
)
def test_kernels_are_used_where_they_can_be(cuda: bool, rows: int, dtype: torch.dtype, suits: bool) -> None:
    x = SimpleNamespace(is_cuda=cuda, numel=lambda: rows, dtype=dtype)
    assert (kernels.gpu(x) is fast) is suits  # type: ignore[arg-type]


def test_plain_torch_holds_within_its_block_alone() -> None:
    x = SimpleNamespace(is_cuda=True, numel=lambda: 3, dtype=torch.float32)
    with kernels.plain_torch():
        with kernels.plain_torch():
            assert kernels.gpu(x) is None  # type: ignore[arg-type]
        assert kernels.gpu(x) is None  # type: ignore[arg-type]
    assert kernels.gpu(x) is fast  # type: ignore[arg-type]


@pytest.mark.skipif(not GPU, reason="compares whole networks on a GPU with and without kernels")
@pytest.mark.parametrize(("precision", "tolerance"), [(torch.float32, 0.01), (torch.bfloat16, 0.2)])
@pytest.mark.parametrize("training", [False, True])
def test_networks_are_the_same_with_and_without_kernels(
    precision: torch.dtype, tolerance: float, training: bool
) -> None:
    outcomes = []
    for way in (nullcontext(), kernels.plain_torch()):
        random = torch.Generator().manual_seed(0)
        own = [kind(32, 3, 64, 128, random).to(DEVICE).train(training) for kind in (Encoder, Decoder)]
        encoder, decoder = ImageEncoder(own[0], 128, precision), ImageDecoder(own[1], precision)
        X = torch.rand(100, 3, 32, 32, generator=torch.Generator().manual_seed(1)).to(DEVICE) * 2 - 1
        with way, exact_float32():
            Z_hat = encoder(decoder(encoder(X)))
            (Z_hat @ tensor(128, seed=6)).sum().backward()
        parameters = [*encoder.parameters(), *decoder.parameters()]
        outcomes.append((Z_hat.detach(), *(parameter.grad for parameter in parameters if parameter.grad is not None)))
    agree(outcomes[0], outcomes[1], tolerance)
