"""The description of the service."""

from typing import Any

import ictrl


def described() -> dict[str, Any]:
    """The whole document."""
    return {"openapi": "3.1.0", "info": {"title": "ictrl", "version": ictrl.__version__}, "paths": {}}
