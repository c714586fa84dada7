"""Learners: the protocol that a method keeps (`base`), and one method per file.

Every file of this folder is imported here, so that a method in a new file is known by its name at once.
"""

from importlib import import_module
from pkgutil import iter_modules

for module in iter_modules(__path__):
    import_module(f"{__name__}.{module.name}")
