"""Figures of the report, one idea per file.

Every file of this folder is imported here, and what it draws enters the catalogue by itself.
"""

from importlib import import_module
from pkgutil import iter_modules

for module in iter_modules(__path__):
    import_module(f"{__name__}.{module.name}")
