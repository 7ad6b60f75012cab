"""A user's Python by reference, and what people get wrong about it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from twinnet.errors import UsageError
from twinnet.pyfile import call_user, is_reference, load_attribute, split_reference


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_file_and_module_references_return_the_attribute(tmp_path):
    file = write(tmp_path / "net.py", "def build():\n    return 7\n")
    assert load_attribute(f"{file}:build")() == 7
    assert load_attribute("json.decoder:JSONDecoder.decode").__name__ == "decode"


def test_the_folder_is_importable_during_import_only(tmp_path):
    write(tmp_path / "helper_of_net.py", "VALUE = 3\n")
    file = write(tmp_path / "net.py", "from helper_of_net import VALUE\ndef build():\n    return VALUE\n")
    before = list(sys.path)
    assert load_attribute(f"{file}:build")() == 3
    assert sys.path == before


def test_a_file_inside_a_package_keeps_its_relative_imports(tmp_path):
    write(tmp_path / "pkg_a" / "__init__.py", "")
    write(tmp_path / "pkg_a" / "parts.py", "SIZE = 5\n")
    file = write(tmp_path / "pkg_a" / "net.py", "from .parts import SIZE\ndef build():\n    return SIZE\n")
    assert load_attribute(f"{file}:build")() == 5


def test_one_file_is_imported_once_and_again_when_it_changes(tmp_path):
    file = write(
        tmp_path / "net.py", "class A: pass\ndef build():\n    return A\ndef other():\n    return A\n"
    )
    assert load_attribute(f"{file}:build")() is load_attribute(f"{file}:other")()
    write(file, "def build():\n    return 'changed now'\n")
    assert load_attribute(f"{file}:build")() == "changed now"


def test_two_projects_with_files_of_the_same_names_do_not_mix(tmp_path):
    for name in ("one", "two"):
        write(tmp_path / name / "shared_parts.py", f"NAME = {name!r}\n")
        write(tmp_path / name / "net.py", "import shared_parts\ndef build():\n    return shared_parts.NAME\n")
    assert load_attribute(f"{tmp_path}/one/net.py:build")() == "one"
    assert load_attribute(f"{tmp_path}/two/net.py:build")() == "two"
    assert load_attribute(f"{tmp_path}/one/net.py:build")() == "one"


def test_a_file_named_like_a_library_does_not_replace_it(tmp_path):
    import types

    file = write(tmp_path / "types.py", "def build():\n    return 1\n")
    assert load_attribute(f"{file}:build")() == 1
    assert sys.modules["types"] is types


def test_a_path_with_a_colon_that_exists_wins(tmp_path):
    file = write(tmp_path / "a:b", "x")
    assert split_reference(str(file)) == (str(file), "")
    assert not is_reference(str(file))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("net.py:build", True),
        ("a.b.c:build", True),
        ("net.onnx", False),
        ("C:\\models\\net.onnx", False),
        ("dir/net.onnx:x", False),
        ("x=a.npy", False),
    ],
)
def test_what_reads_as_a_reference(text, expected):
    assert is_reference(text) is expected


@pytest.mark.parametrize(
    ("source", "name", "words"),
    [
        ("def build(:\n", "build", ["bad.py:1", "SyntaxError"]),
        ("\n\nraise ValueError('no weights here')\n", "build", ["bad.py:3", "ValueError: no weights here"]),
        ("import no_such_library_x\n", "build", ["bad.py:1", "No module named 'no_such_library_x'"]),
        ("import sys\nsys.exit('usage: bad.py WEIGHTS')\n", "build", ["bad.py:2", "usage: bad.py WEIGHTS"]),
        ("def builds():\n    pass\n", "build", ["has no 'build'", "did you mean builds?"]),
        ("def other():\n    pass\n", "zzz", ["has no 'zzz'", "it defines: other"]),
        ("build = 3\n", "build", ["is an int, not a factory"]),
    ],
)
def test_mistakes_in_a_file_are_told_with_its_line(tmp_path, source, name, words):
    file = write(tmp_path / "bad.py", source)
    with pytest.raises(UsageError) as caught:
        load_attribute(f"{file}:{name}")
    for word in words:
        assert word in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_a_failed_import_leaves_nothing_behind(tmp_path):
    file = write(tmp_path / "half_done_net.py", "def build(): pass\nraise RuntimeError('x')\n")
    with pytest.raises(UsageError):
        load_attribute(f"{file}:build")
    assert "half_done_net" not in sys.modules


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("missing/net.py:build", "no such file: missing/net.py"),
        ("no_such_package_y.net:build", "no module named 'no_such_package_y.net'"),
        ("json", "does not say which factory"),
    ],
)
def test_places_that_do_not_exist(reference, words):
    with pytest.raises(UsageError, match=words):
        load_attribute(reference)


def test_the_line_is_the_users_own_not_that_of_a_library(tmp_path):
    file = write(tmp_path / "net.py", "import json\ndef build():\n    return json.loads('{')\n")
    with pytest.raises(UsageError, match=r"net\.py:3: factory build raised JSONDecodeError"):
        call_user(load_attribute(f"{file}:build"), what="factory")


def test_a_function_may_import_its_neighbours_when_called(tmp_path):
    write(tmp_path / "late_neighbour.py", "VALUE = 4\n")
    file = write(
        tmp_path / "net.py", "def build():\n    import late_neighbour\n    return late_neighbour.VALUE\n"
    )
    assert call_user(load_attribute(f"{file}:build"), what="factory") == 4
