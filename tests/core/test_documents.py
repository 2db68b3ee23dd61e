"""Documents of others: plain values come back, and what would take all memory is refused before it is built."""

from __future__ import annotations

import gzip
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lightloom.core.documents import (
    load_json,
    parse_json,
    parse_yaml,
    read_number,
)
from lightloom.core.errors import ConfigError

_TEXTS = st.text(st.characters(codec="ascii", min_codepoint=32), max_size=8)
_NUMBERS = st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False)
_NAMES = st.text("abc_ ", min_size=1, max_size=3)
_PLAIN = st.recursive(
    st.none() | st.booleans() | _NUMBERS | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=12,
)


@given(_PLAIN)
def test_plain_values_come_back(value: object) -> None:
    assert parse_json(json.dumps(value), "here") == value
    assert parse_yaml(yaml.safe_dump({"a": value}), "here") == {"a": value}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1:30", "1:30"), ("1_0", "1_0"), ("010", "010"), ("0x10", "0x10"), ("1e3", "1e3"), ("-3", -3),
        ("1.", 1.0), (".5", 0.5), ("+4", 4), ("2020-01-01", "2020-01-01"), ("yes", True), ("1.5GB/s", "1.5GB/s"),
        ("-.inf", -math.inf),
    ],
)  # fmt: skip
def test_numbers_are_plain_digits(text: str, value: object) -> None:
    found = parse_yaml(f"a: {text}", "here")["a"]
    assert found == value and type(found) is type(value)


@pytest.mark.long
@given(st.text(max_size=8))
def test_cells_are_numbers_in_ascii_or_refused(text: str) -> None:
    try:
        number = read_number(text)
    except ValueError:
        return
    assert (text.isascii() and "_" not in text and math.isfinite(number)) or "e" in text.lower()


@pytest.mark.parametrize("text", ["1_0", "nan", "inf", "١", "１", "0x10", "1e", "", "1 0"])
def test_what_python_takes_for_numbers_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="expected a number"):
        read_number(text)


_BILLION = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
)
BOMBS = {
    "aliases": _BILLION,
    "alias of itself": "a: &a [*a]",
    "deep list": "a: " + "[" * 100_000,
    "deep mapping": "".join(f"{' ' * n}a:\n" for n in range(400)),
    "key twice": "a: 1\nb: 2\na: 3\n",
    "key twice inside": "a: {b: 1, b: 2}",
    "not closed": "a: [1, 2",
    "a character that controls": "a: \x10",
    "a tag that runs": "a: !!python/object/apply:os.system [true]",
}


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS.keys())
def test_documents_that_would_not_end_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        parse_yaml(text, "bomb.yaml")
    assert "bomb.yaml" in str(refusal.value) and "\n" not in str(refusal.value)


def test_aliases_and_merges_of_people_are_read() -> None:
    text = "base: &base {ranks: 4, name: x}\nother: {<<: *base, ranks: 8}\nlist: [*base, *base]\n"
    base = {"ranks": 4, "name": "x"}
    assert parse_yaml(text, "here") == {"base": base, "other": {"ranks": 8, "name": "x"}, "list": [base, base]}


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', "[" * 100_000, '{"a": NaN}', "{", '{"a": 1} x'])
def test_json_that_is_none_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        parse_json(text, "here")
    assert str(refusal.value).startswith("here") and "\n" not in str(refusal.value)


def test_many_keys_are_read_in_time_that_grows_with_them(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    keys = ",".join(f'"{number}":0' for number in range(60_000))
    path.write_text(f'{{{keys}, "59999": 1}}')
    with pytest.raises(ConfigError, match="'59999' occurs twice"):
        load_json(path)


@pytest.mark.parametrize("members", [1, 3])
def test_packed_files_are_read_whole_and_bombs_are_not(members: int, tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    parts = ['{"a":', " ", "1}"][-members:] if members > 1 else ['{"a": 1}']
    path.write_bytes(b"".join(gzip.compress(part.encode()) for part in parts))
    assert load_json(path) == {"a": 1}
    path.write_bytes(gzip.compress(b"1" * 100)[:-9])
    with pytest.raises(ConfigError, match="not a whole gzip file"):
        load_json(path)


@pytest.mark.long
def test_a_packed_bomb_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb.json.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(300):
            file.write(b" " * (1 << 20))
    program = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (500 << 20, 500 << 20))\n"
        "from pathlib import Path\n"
        "from lightloom.core.documents import load_json\n"
        "from lightloom.core.errors import ConfigError\n"
        "try:\n    load_json(Path(sys.argv[1]))\n"
        "except ConfigError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    assert "unpacks to more than" in done.stdout
