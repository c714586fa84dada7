"""The encoder and decoder have the paper's shape, at every size."""

import pytest
import torch

from ictrl.errors import ConfigError
from ictrl.nets.dcgan import IMAGE_SIZES, Decoder, Encoder
from ictrl.nets.wrappers import ImageDecoder, ImageEncoder, parameter_count


def test_the_papers_networks_have_its_number_of_parameters() -> None:
    pair = Encoder(32, 3, 64, 128), Decoder(32, 3, 64, 128)
    assert [parameter_count(network) for network in pair] == [1_183_488, 1_183_616]
    assert parameter_count(*pair) == pytest.approx(2.37e6, rel=0.005)


def test_layers_are_those_of_the_papers_tables() -> None:
    encoder = [m for m in Encoder(32, 3, 64, 128).modules() if isinstance(m, torch.nn.Conv2d)]
    decoder = [m for m in Decoder(32, 3, 64, 128).modules() if isinstance(m, torch.nn.ConvTranspose2d)]
    assert [(m.in_channels, m.out_channels, m.stride[0]) for m in encoder] == [
        (3, 64, 2),
        (64, 128, 2),
        (128, 256, 2),
        (256, 128, 1),
    ]
    assert [(m.in_channels, m.out_channels, m.stride[0]) for m in decoder] == [
        (128, 256, 1),
        (256, 128, 2),
        (128, 64, 2),
        (64, 3, 2),
    ]


@pytest.mark.parametrize("side", IMAGE_SIZES)
@pytest.mark.parametrize("channels", [1, 3, 5])
def test_any_size_and_channels_go_there_and_back(side: int, channels: int, device: str) -> None:
    encoder, decoder = (kind(side, channels, 4, 12).to(device) for kind in (Encoder, Decoder))
    encoder, decoder = ImageEncoder(encoder, 12), ImageDecoder(decoder)
    X = torch.rand(3, channels, side, side, device=device) * 2 - 1
    Z = encoder(X)
    assert Z.shape == (3, 12)
    assert torch.allclose(Z.norm(dim=1), torch.ones(3, device=device), atol=1e-5)
    X_hat = decoder(Z)
    assert X_hat.shape == X.shape
    assert float(X_hat.detach().abs().max()) <= 1


def test_initial_weights_come_from_the_generator_alone() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = Encoder(32, 1, 8, 16, torch.Generator().manual_seed(5))
    assert torch.equal(torch.get_rng_state(), before)
    second = Encoder(32, 1, 8, 16, torch.Generator().manual_seed(5))
    other = Encoder(32, 1, 8, 16, torch.Generator().manual_seed(6))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters()))
    assert not torch.equal(next(first.parameters()), next(other.parameters()))


def test_dcgan_initialisation() -> None:
    decoder = Decoder(32, 3, 64, 128, torch.Generator().manual_seed(0))
    convolution, norm = decoder.layers[0], decoder.layers[1].norm
    assert float(convolution.weight.detach().std()) == pytest.approx(0.02, rel=0.02)
    assert float(norm.weight.detach().mean()) == pytest.approx(1.0, abs=0.01)
    assert float(norm.weight.detach().std()) == pytest.approx(0.02, rel=0.2)
    assert float(norm.bias.detach().abs().max()) == 0.0


@pytest.mark.parametrize("side", [4, 12, 33, 512])
def test_other_sizes_are_refused(side: int) -> None:
    with pytest.raises(ConfigError, match=f"Expected image_size to be one of .* but got {side}"):
        Encoder(side, 1, 4, 8)
