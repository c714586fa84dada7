"""Pickled dictionaries, and pickles that would run code; what CIFAR's files may hold is in test_cifar.py."""

import tracemalloc
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


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (b"\x8b\xff\xff\xff\x7f", "a whole number of more than 64 bits"),
        (b"I" + b"9" * 5000 + b"\n.", "a whole number of more than 64 bits"),
        (b"]]" * 10 + b"s.", "no dict where one is needed"),
        (b"}])s.", "a dictionary with keys that are no texts"),
        (b"X\xff\xff\xff\xffabc", "its end too early"),
        (b"\x8e" + b"\xff" * 8, "its end too early"),
        (b"Pid\n.", r"the instruction b'P', which no dataset needs and which is not run"),
        (b"h\x07.", "a value that was not kept"),
        (b".", "more values asked for than there are"),
        (b"tNR.", "no mark where one is needed"),
        (b"cnumpy\nndarray\n)R.", "a call of something that is no function"),
        (b"]]\x93.", "a function without a name"),
        (b"cnumpy\ndtype\n)\x85R.", "a type without a name"),
        (b"cnumpy.core.multiarray\n_reconstruct\n)R(K\1]cnumpy\ndtype\nU\2u1\x85R\x89U\0tb.", "without a shape"),
        (b"c_codecs\nencode\nX\1\0\0\0aU\5utf-8\x86R.", "bytes in another encoding"),
    ],
)
def test_programs_that_no_dataset_is(tmp_path: Path, program: bytes, message: str) -> None:
    (tmp_path / "file").write_bytes(program)
    with pytest.raises(InputError, match=message):
        read_pickle(tmp_path / "file")


def test_nine_bytes_do_not_take_gigabytes(tmp_path: Path) -> None:
    """Python's own reader makes a table of 2^31 places of them."""
    (tmp_path / "file").write_bytes(b"}r\xff\xff\xff\x7f.")
    tracemalloc.start()
    try:
        assert read_pickle(tmp_path / "file") == {}
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_deep_and_shared_values_are_built_and_left_alone(tmp_path: Path) -> None:
    nested = b"}U\1k" + b"]" * 20_000 + b"a" * 19_999 + b"s."
    shared = b"}U\1k)" + b"q\0h\0\x86" * 1000 + b"s."  # 2^1000 values to whoever follows them
    for program in (nested, shared):
        (tmp_path / "file").write_bytes(program)
        assert list(read_pickle(tmp_path / "file")) == [b"k"]


def test_a_pickle_takes_no_more_steps_than_the_limit(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("ICTRL_MAX_PICKLE_STEPS", "1000")
    (tmp_path / "file").write_bytes(b"}" + b"N0" * 499 + b".")
    assert read_pickle(tmp_path / "file") == {}
    (tmp_path / "file").write_bytes(b"}" + b"N0" * 500 + b".")
    with pytest.raises(InputError, match=r"above the limit of 1,000 \(ICTRL_MAX_PICKLE_STEPS\)"):
        read_pickle(tmp_path / "file")


def test_the_same_text_is_not_turned_into_bytes_again_and_again(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("ICTRL_MAX_UNPACKED_BYTES", "2_000_000")
    text = b"X" + (100_000).to_bytes(4, "little") + b"a" * 100_000
    program = b"}(" + text + b"q\0" + b"c_codecs\nencode\nh\0U\6latin1\x86R" * 100 + b"."
    (tmp_path / "file").write_bytes(program)
    with pytest.raises(InputError, match=r"bytes in memory, above the limit .*ICTRL_MAX_UNPACKED_BYTES"):
        read_pickle(tmp_path / "file")


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("ICTRL_MAX_UNPACKED_BYTES", "10")
    (tmp_path / "file").write_bytes(b"}" * 11)
    with pytest.raises(InputError, match=r"could not read .*: 11 bytes in memory, above the limit of 10"):
        read_pickle(tmp_path / "file")
