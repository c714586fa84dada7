"""Learn image classes one task after another, without keeping an old image."""

__version__ = "0.2.0"
