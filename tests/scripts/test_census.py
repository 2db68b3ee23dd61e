"""The counters of the census on small trees: what adds to a count, and what leaves it alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts.census.__main__ import census
from scripts.census.imports import count_inner_imports, count_rooms, count_single_importers, find_rooms
from scripts.census.names import count_homonyms, count_riddles
from scripts.census.sizes import code_lines, import_lines
from scripts.census.source import Census

from tests.scripts.trees import modules, write_tree

_CODE = """\
class Link:
    rate: float

    def seconds(self, nbytes: float) -> float:
        return (
            nbytes
            / self.rate
        )


text = '''
two blank lines

of a string are code
'''
"""


def _code_and_imports(text: str) -> tuple[int, int]:
    (module,) = modules({"a.py": text})
    return len(code_lines(module)), len(import_lines(module))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("class Link:", '"""A module."""\n\nclass Link:'),
        ("class Link:", 'class Link:\n    """A link\n\n    of fibre.\n    """\n'),
        ("    rate: float", '    rate: float\n    """Bytes per second."""'),
        ("-> float:", '-> float:\n        """Seconds."""'),
        ("        return (", "        # A reason.\n\n        return (  # another"),
        ("text =", "\n\n\ntext ="),
    ],
)
def test_docstrings_comments_and_blank_lines_are_no_lines_of_code(before: str, after: str) -> None:
    assert before in _CODE
    assert _code_and_imports(_CODE.replace(before, after)) == _code_and_imports(_CODE) == (12, 0)


def test_imports_are_counted_apart_wherever_they_stand() -> None:
    imports = "from typing import (\n    TYPE_CHECKING,\n    Any,\n)\nimport os\n\n"
    inner = _CODE.replace("        return (", "        import math\n\n        return (")
    assert _code_and_imports(imports + inner) == (12, 6)
    assert _code_and_imports("if TYPE_CHECKING:\n    import math\n") == (1, 1)


def test_a_tree_is_counted_with_its_folders_and_small_files(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            "__init__.py": "",
            "core/__init__.py": '"""Units."""\n',
            "core/units.py": "from house import core\n" + "x = 1\n" * 31,
            "core/data/table.yaml": "a: 1\n",
            "core/data/deep/other.yaml": "a: 1\n",
        },
    )
    counts = census(str(tmp_path), tmp_path / "scratch")
    assert counts.figures["files in src"] == 3
    assert counts.figures["  of at most 30 lines of code"] == 2
    assert counts.figures["folders in src"] == 2
    assert counts.figures["  that hold data as well or alone"] == 4
    assert (counts.figures["lines of code"], counts.figures["import lines"], counts.figures["statements"]) == (
        31,
        1,
        33,
    )
    assert counts.places["lines of code"][0] == "src/house/core/units.py: 31"


_HOUSE = {
    "__init__.py": "from house.app import main\n",
    "__main__.py": "from house.app import main\n",
    "app/__init__.py": "",
    "app/main.py": "from house.plans.search import find\n\n\ndef run():\n    from ..core.units import Unit\n",
    "plans/__init__.py": "",
    "plans/search.py": "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from house.fabrics import Ring\n",
    "fabrics/__init__.py": "from house.core import units\n",
    "reports/__init__.py": "import house.core.units\nimport numpy\n",
    "core/__init__.py": "",
    "core/units.py": "",
}


def test_floors_follow_every_import_and_leave_out_the_root() -> None:
    rooms = find_rooms(modules(_HOUSE))
    assert set(rooms.sizes) == {"app", "plans", "fabrics", "reports", "core"} and sum(rooms.sizes.values()) == 8
    assert rooms.chain == ["app", "plans", "fabrics", "core"]
    assert rooms.floors == {"app": 4, "plans": 3, "fabrics": 2, "reports": 2, "core": 1}
    assert rooms.arrows == dict.fromkeys(
        [("app", "plans"), ("app", "core"), ("plans", "fabrics"), ("fabrics", "core"), ("reports", "core")], 1
    )
    assert not rooms.circles and not rooms.aliases


def test_a_module_at_the_top_that_only_imports_is_no_room() -> None:
    alias = '"""Public names."""\n\nfrom house.app.main import run\n\n__all__ = ["run"]\n'
    counts = Census("house")
    count_rooms(modules(_HOUSE | {"hooks.py": alias}), counts)
    assert (counts.figures["rooms"], counts.figures["floors"]) == (5, 4)
    assert counts.places["  modules at the top that only import"] == ["hooks.py"]
    more = find_rooms(modules(_HOUSE | {"hooks.py": alias + "limit = 3\n"}))
    assert "hooks" in more.sizes and more.floors["hooks"] == 5


def test_rooms_of_a_circle_count_as_floors_of_their_own() -> None:
    rooms = find_rooms(modules(_HOUSE | {"core/units.py": "def late():\n    from house.plans import search\n"}))
    assert rooms.circles == [["core", "fabrics", "plans"]]
    assert len(rooms.chain) == 4 and rooms.floors["app"] == 4 and rooms.floors["core"] == 3


def test_an_importer_counts_once_and_modules_with_one_are_told_by_its_folder() -> None:
    tree = {
        "__init__.py": "",
        "a/__init__.py": "",
        "a/used_beside.py": "",
        "a/used_above.py": "",
        "a/used_twice.py": "",
        "a/unused.py": "",
        "a/user.py": "from house.a import used_beside, used_twice\n\n\ndef f():\n    from .used_beside import x\n",
        "b.py": "from house.a.used_above import x\nfrom house.a.used_twice import y\n",
    }
    counts = Census("house")
    count_single_importers(modules(tree), counts)
    assert counts.places["modules with one importer"] == [
        "src/house/a/used_above.py <- src/house/b.py",
        "src/house/a/used_beside.py <- src/house/a/user.py",
    ]
    assert counts.figures["  in the same folder"] == 1


def test_names_are_shared_when_four_modules_define_them_not_when_they_import_them() -> None:
    definition = "def _measure():\n    def inner(): ...\n\n\nclass Step:\n    def run(self): ...\n"
    tree = {f"{name}.py": definition for name in "abc"} | {"d.py": "from house.a import _measure\n"}
    counts = Census("house")
    count_homonyms(modules(tree), counts)
    assert counts.figures == {"names defined in 4 or more modules": 0, "class names used more than once": 1}
    count_homonyms(modules(tree | {"e.py": "async def _measure(): ...\n" * 2}), counts)
    assert counts.places["names defined in 4 or more modules"] == ["_measure: 4: house.a, house.b, house.c, house.e"]


_DOCSTRINGS = '''
"""Assigns wavelengths to lightpaths of rings."""

x = 1
"""Bits per code."""

class A:
    """What a reader finds out by reading the body."""

    y: int
    """As many bits as it takes."""

    def f(self):
        """Return the number of wavelengths in use.

        Of all links.
        """
        """Of a code."""
        z = """no docstring"""
'''


def test_riddles_are_short_or_begin_as_labels_do() -> None:
    tree = {"a.py": _DOCSTRINGS, "b.py": '"""Offsets of the ranks in a ring."""\n'}
    counts = Census("house")
    count_riddles(modules(tree), counts)
    assert counts.figures["riddles"] == 4
    assert [place.split(" ", 1)[1] for place in counts.places["  of at most 3 words"]] == [
        "Bits per code.",
        "Of a code.",
    ]


def test_imports_inside_functions_are_told_apart_by_what_they_load() -> None:
    tree = {
        "__init__.py": "",
        "kernels.py": "import numba\n",
        "plain.py": "",
        "user.py": "def f():\n    import torch\n    from house import kernels\n    from house import plain\n",
    }
    counts = Census("house")
    count_inner_imports(modules(tree), counts)
    assert list(counts.figures.values()) == [3, 1, 1, 1]
