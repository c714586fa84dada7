"""All kernels by name; importing this needs Triton."""

from ictrl.kernels.image import image_convolution, normed_image
from ictrl.kernels.logdet import WIDEST, coding_rates
from ictrl.kernels.norm import leaky_norm
from ictrl.kernels.pixels import shown

__all__ = ["image_convolution", "normed_image", "leaky_norm", "shown", "coding_rates", "WIDEST"]
