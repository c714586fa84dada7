"""Everything that is bounded: bodies, pictures, pixels, queues, seconds. Each is an option of `ictrl serve`."""

from dataclasses import dataclass, fields

from ictrl.errors import InputError

MB = 1_000_000


@dataclass(frozen=True)
class Limits:
    """What a request may ask for at most, and what the server has waiting at most."""

    max_body: int = 25
    """MB of a request with pictures to predict"""
    max_teaching: int = 500
    """MB of a request with pictures to teach; they are decoded as they come, and never all in memory"""
    max_pictures: int = 64
    """pictures of a request to predict"""
    max_teaching_pictures: int = 20_000
    """pictures of a request to teach"""
    max_pixels: int = 40
    """million pixels of a picture; its header is read first, and what is larger is never decoded"""
    max_requests: int = 256
    """requests that are being answered at once; others are told to come again"""
    max_upload: int = 200
    """MB of all bodies and undecoded pictures in memory together"""
    queue: int = 512
    """decoded pictures that wait for the learner"""
    batch: int = 64
    """pictures that the learner predicts at once"""
    wait: float = 2.0
    """milliseconds that a batch waits for pictures that are being decoded already"""
    timeout: float = 30.0
    """seconds until a prediction that is not there yet is given up"""
    body_timeout: float = 10.0
    """seconds that a request may take to come, and one more for each 50 kB of it"""
    decoders: int = 2
    """threads that decode and draw pictures"""

    def __post_init__(self) -> None:
        for field in fields(self):
            value, least = getattr(self, field.name), 0 if field.name == "wait" else 1e-3
            if not least <= value < float("inf"):
                option = field.name.replace("_", "-")
                raise InputError(
                    f"Expected --{option} to be {'at least' if least == 0 else 'above'} 0 but got {value}."
                )
        if self.queue < self.max_pictures:
            raise InputError(
                f"Expected --queue to hold all pictures of a request (--max-pictures {self.max_pictures}) but got "
                f"{self.queue}."
            )
