"""`python -m ictrl`."""

from ictrl.cli import command

command()
