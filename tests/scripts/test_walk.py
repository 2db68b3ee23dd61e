"""The walk counts the files whose functions are called, the second time that they are."""

from __future__ import annotations

import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
from scripts.walk import Walk, run_command, show_list, show_tree, walk_through

from scripts import walk as walks

_FILES = {
    "__init__.py": "",
    "top.py": '''
        """Where the call arrives."""
        import threading
        from functools import cache
        from walked import middle

        def run():
            once()
            middle.add(1)
            middle.add(2)
            other = threading.Thread(target=in_thread)
            other.start()
            other.join()
            import walked.late
            class Local:
                size = 1

        @cache
        def once():
            middle.only_cold()

        def in_thread():
            middle.Table().grow()
    ''',
    "middle.py": '''
        """Adds."""
        from walked import bottom

        def add(number):
            return sum(map(bottom.double, [number, number]))

        def only_cold():
            bottom.unused_when_warm()

        class Table:
            def grow(self):
                return [index for index in range(3)]
    ''',
    "bottom.py": "def double(number):\n    return 2 * number\n\ndef unused_when_warm(): ...\n",
    "late.py": "size = max(1, 2)\n",
}


@pytest.fixture
def walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Walk]:
    folder = tmp_path / "walked"
    folder.mkdir()
    for name, text in _FILES.items():
        (folder / name).write_text(textwrap.dedent(text).lstrip())
    monkeypatch.syspath_prepend(tmp_path)
    yield walk_through(import_module("walked.top").run, folder)
    for name in [name for name in sys.modules if name.partition(".")[0] == "walked"]:
        del sys.modules[name]


def test_files_stand_in_the_order_of_first_entry_with_the_calls_of_their_functions(walk: Walk) -> None:
    names = {file: {name: number for (name, _), number in calls.items()} for file, calls in walk.files.items()}
    assert names == {
        "top.py": {"run": 1, "in_thread": 1},
        "middle.py": {"add": 2, "Table.grow": 1},
        "bottom.py": {"double": 4},
    }
    assert list(names) == ["top.py", "middle.py", "bottom.py"] and walk.functions == 5
    assert walk.entered_from == {"top.py": "", "middle.py": "top.py", "bottom.py": "middle.py"}


def test_calls_cross_between_files_through_callers_outside(walk: Walk) -> None:
    assert walk.crossings == {("top.py", "middle.py"): 3, ("middle.py", "bottom.py"): 4}


def test_the_tree_indents_a_file_below_the_one_that_entered_it(walk: Walk, capsys: pytest.CaptureFixture[str]) -> None:
    show_tree(walk)
    assert capsys.readouterr().out == (
        "\ntop.py (2): Where the call arrives.\n  middle.py (2): Adds.\n    bottom.py (1): \n"
    )
    show_list(walk)
    assert "bottom.py (1)\n  1: double (4)\n" in capsys.readouterr().out


def test_profiles_are_as_before_when_the_walk_ends(tmp_path: Path) -> None:
    before = sys.getprofile(), threading.getprofile()
    walk_through(lambda: None, tmp_path)
    assert (sys.getprofile(), threading.getprofile()) == before


def test_a_command_that_fails_ends_the_walk_with_what_it_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    def install(main: Callable[[], object]) -> None:
        monkeypatch.setattr(walks, "entry_points", lambda **_: (SimpleNamespace(load=lambda: main),))

    def fail() -> None:
        sys.stdout.write(f"no such fabric {sys.argv[1]}\n")
        sys.exit(2)

    install(lambda: sys.exit(0))
    run_command(["plan"])
    install(fail)
    with pytest.raises(SystemExit, match=r"no such fabric plan\n.*exit status 2"):
        run_command(["plan"])
