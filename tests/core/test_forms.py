"""Files are recognised by suffix and contents; what is of no form is refused in one line that lists the forms."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lightloom.core.errors import ConfigError
from lightloom.core.forms import (
    FORMS,
    expected_forms,
    looks_like_file,
    recognise,
    top_level_keys,
)

EXECUTION_TRACE = {"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": [{"id": 1, "traceEvents": 2}]}
PROFILE = {"schemaVersion": 1, "deviceProperties": [{"nodes": 1}], "traceEvents": []}


def written(folder: Path, name: str, content: object) -> Path:
    text = content if isinstance(content, str) else json.dumps(content)
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize("name", ["file.json", "file.json.gz"])
def test_json_is_recognised_by_the_keys_of_its_outermost_object(tmp_path: Path, name: str) -> None:
    assert recognise(written(tmp_path, name, EXECUTION_TRACE), "model").name == "execution-trace"
    assert recognise(written(tmp_path, name, PROFILE), "model").name == "profile"
    assert recognise(written(tmp_path, name, [{"ph": "X", "name": "a"}]), "model").name == "profile"


@example({":\x1f": None})
@given(st.recursive(st.none() | st.text() | st.integers(), lambda inner: st.dictionaries(st.text(), inner)))
def test_keys_are_those_that_a_parser_finds(document: object) -> None:
    text = json.dumps(document)
    keys = {json.dumps(key)[1:-1] for key in document} if isinstance(document, dict) else set()
    assert set(top_level_keys(text)) == keys
    assert set(top_level_keys(text[: len(text) // 2])) <= keys


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("model.pkl", "x", "unknown suffix '.pkl'"),
        ("model", "x", "has no suffix"),
        ("model.json", {"a": 1, "b": {"nodes": 1}}, "of no known form (keys a, b)"),
        ("model.json", "hello\nworld", "begins 'hello'"),
        ("model.json", "", "empty"),
        ("model.json", "{\n]", "line 2, column 1: not JSON"),
        (
            "model.json",
            {"scheduling-policy": "LIFO", "all-reduce-implementation": ["ring"]},
            "which is taken as --accelerator",
        ),
        ("model.yaml", "ranks: 4", "which is taken as --cluster"),
        ("model.json", {"schema": "lightloom.schedule/1"}, "which is taken by 'lightloom schedule'"),
    ],
)
def test_an_unknown_file_is_refused_with_every_form_and_its_suffix(
    tmp_path: Path, name: str, content: object, complaint: str
) -> None:
    with pytest.raises(ConfigError) as refusal:
        recognise(written(tmp_path, name, content), "model")
    text = str(refusal.value)
    assert complaint in text and "\n" not in text
    assert all(form.title in text and form.suffixes[0] in text for form in FORMS if form.purpose == "model")


def test_damaged_gzip_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "step.json.gz", EXECUTION_TRACE)
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(ConfigError, match="not a whole gzip file"):
        recognise(path, "model")


def test_names_of_catalogs_are_no_files(tmp_path: Path) -> None:
    assert not looks_like_file("resnet50") and not looks_like_file("inception-v3")
    assert looks_like_file("step.et") and looks_like_file("step.json.gz") and looks_like_file("folder/odd")
    assert looks_like_file(str(written(tmp_path, "odd", "x")))
    assert ".et (Chakra trace)" in expected_forms("model")


@pytest.mark.parametrize("name", ["torchrun pretrain_gpt.py " + "--num-layers 2 " * 400, "x" * 5000, "a\0b"])
def test_a_text_that_no_file_can_be_called_by_is_no_file(name: str) -> None:
    assert not looks_like_file(name)
