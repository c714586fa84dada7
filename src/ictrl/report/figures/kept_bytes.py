"""What is kept, against the training images."""

from ictrl.methods.base import LEARNERS
from ictrl.report.catalogue import Figure, figure
from ictrl.report.plots import level_bars
from ictrl.report.record import RunRecord
from ictrl.report.words import size


@figure(section="cost", order=10)
def kept_bytes(run: RunRecord) -> Figure:
    """Bytes kept besides the networks, and bytes of the training images."""
    kept, images = run.results.kept_bytes, run.results.image_bytes
    keeps = LEARNERS[run.method].keeps
    what, grows = "kept", f"{run.method} keeps {keeps}{' but labels' if keeps == 'nothing' else ''}."
    if run.keeps_images and not run.keeps_every_image:
        what, grows = "kept, images included", f"{run.method} keeps some of the training images."
    elif run.keeps_images:
        what, grows = "kept, images included", f"{run.method} keeps every training image, and grows with each."
    elif run.keeps_moments:
        what, grows = "moments kept", "The moments of a class take no more space however many images it has."
    beside = "training images" if run.keeps_images else "training images, not kept"
    return Figure(
        "What is kept, against the training images",
        f"{kept / images:.1%} of the images' bytes. {grows} The networks come on top, with {run.results.parameters:,} "
        "parameters.",
        alt=f"Two bars: {size(kept)} are kept, and the training images have {size(images)}.",
        drawing=level_bars([(what, kept, size(kept), "memory"), (beside, images, size(images), "untrained")]),
    )
