"""Attacks on what the library promises: processes killed, disks that fail, files that were changed or crafted.

    make attack                                          all of it; writes the table of docs/reliability.md
    python -m attack --list                              what there is (with tests/ on the PYTHONPATH)
    python -m attack --only kills --share 0.1 --seed 3   a tenth of one attack, other cases than seed 0
    python -m attack --only kills --case 17              one case again

An attack is a function that `@attack` enters (`attack.registry`), in a file of its own in this folder. The test suite
plays a small share of each.
"""
