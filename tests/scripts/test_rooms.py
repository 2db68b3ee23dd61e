"""The picture of rooms holds every room and every import, without a line that passes a room."""

from __future__ import annotations

from itertools import combinations, pairwise
from pathlib import Path

from scripts.census.imports import Rooms, find_rooms
from scripts.rooms import Box, draw, lay_out, save

from tests.scripts.trees import modules

_NAMES = "app papers planning exchange reports models collectives machines photonics core".split()  # noqa: SIM905


def _rooms(circle: bool = False) -> Rooms:
    """Ten rooms that import all rooms after them, but for two on one floor."""
    imports = {
        name: [f"from house.{other} import x" for other in _NAMES[index + 1 :]] for index, name in enumerate(_NAMES)
    }
    imports["reports"].remove("from house.models import x")
    imports["core"] += ["from house.app import x"] if circle else []
    return find_rooms(modules({f"{name}/__init__.py": "\n".join(lines) for name, lines in imports.items()}))


def test_boxes_descend_by_floors_and_none_is_below_or_beside_another() -> None:
    rooms = _rooms()
    boxes = list(lay_out(rooms, {}).values())
    assert len(boxes) == 10 and max(rooms.floors.values()) == 9 and rooms.floors["reports"] == rooms.floors["models"]
    assert [rooms.floors[box.name] for box in boxes] == sorted(rooms.floors.values(), reverse=True)
    # Lines run to the right of their room and above the room where they end: nothing else stands there.
    assert all(high.right < low.left and high.bottom < low.top for high, low in pairwise(boxes))
    assert all(isinstance(one, Box) and one.colour != other.colour for one, other in combinations(boxes, 2))


def test_every_pair_of_rooms_has_a_number_and_an_upward_one_too(tmp_path: Path) -> None:
    rooms = _rooms(circle=True)
    figure = draw(rooms, dict.fromkeys(_NAMES, 1234))
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert texts.count("1") == len(rooms.arrows) == 45
    assert set(_NAMES) <= set(texts) and texts.count("1 files\n1,234 lines") == 10
    save(figure, tmp_path / "rooms.svg")
    first = (tmp_path / "rooms.svg").read_bytes()
    save(figure, tmp_path / "rooms.svg")
    assert (tmp_path / "rooms.svg").read_bytes() == first
