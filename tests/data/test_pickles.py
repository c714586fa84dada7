"""Pickled dictionaries, and pickles that would run code; what CIFAR's files may hold is in test_cifar.py."""

from pathlib import Path

import pytest

from ictrl.data.pickles import read_pickle
from ictrl.errors import InputError


@pytest.mark.parametrize("name", ["numpy.save", "numpy.lib.npyio.load", "builtins.getattr", "os.system", "numpy.array"])
def test_nothing_else_can_be_named(tmp_path: Path, name: str) -> None:
    module, _, attribute = name.rpartition(".")
    path = tmp_path / "file"
    path.write_bytes(f"c{module}\n{attribute}\n.".encode())
    with pytest.raises(InputError, match="which no dataset needs"):
        read_pickle(path)


def test_the_pickles_of_python_2_are_read(tmp_path: Path) -> None:
    """Written by hand as Python 2 and its NumPy wrote them: byte strings, and the module's former name."""
    raw = bytes(range(6))
    path = tmp_path / "file"
    path.write_bytes(
        b"\x80\x02}q\x00U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01K\x02K\x03\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        b"\x89U\x06" + raw + b"tbs."
    )
    array = read_pickle(path)[b"data"]
    assert (array.code, array.shape, array.raw) == ("u1", (2, 3), raw)
