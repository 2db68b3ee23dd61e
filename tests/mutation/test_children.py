"""Children that try mutants: interpreters that tests start run the mutant too, and say what they entered."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_MODULE = """
def entered():
    return 1

def left_alone():
    return 2
"""
_TESTS = """
import subprocess
import sys

import pytest


@pytest.fixture(scope="session")
def printed():
    return subprocess.check_output([sys.executable, "-c", "import counted; print(counted.entered())"], text=True)


def test_first(printed):
    assert printed == "1\\n"


def test_second(printed):
    assert printed == "1\\n"


def test_alone():
    pass
"""
_RUN = """
import json, sys, time
from pathlib import Path

import pytest
from scripts.mutation.children import Task, reaching_code, start
path = Path(sys.argv[1])
name = "counted"
text = (path / "counted.py").read_text().replace(sys.argv[2], sys.argv[3])
code = reaching_code(text, path / "counted.py", name)
child = start(Task((str(path / "test_counted.py"),), {name: code}, reaching=True))
while (outcome := child.poll()) is None:
    time.sleep(0.05)
print(json.dumps(outcome))
"""


def _outcome(folder: Path, before: str = "", after: str = "") -> dict[str, object]:
    (folder / "counted.py").write_text(_MODULE)
    (folder / "test_counted.py").write_text(_TESTS)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(_ROOT), str(folder)])}
    command = [sys.executable, "-c", _RUN, str(folder), before, after]
    outcome: dict[str, object] = json.loads(subprocess.check_output(command, env=environment, cwd=_ROOT, text=True))
    return outcome


@pytest.mark.long
def test_what_a_fixture_enters_in_another_interpreter_counts_for_every_test_that_uses_it(tmp_path: Path) -> None:
    outcome = _outcome(tmp_path)
    assert outcome["failed"] == ""
    reached = {test.split("::")[1]: names for test, names in dict(outcome["reached"]).items()}  # type: ignore[call-overload]
    assert reached == {"test_first": ["counted:entered"], "test_second": ["counted:entered"], "test_alone": []}


@pytest.mark.long
def test_interpreters_that_tests_start_run_the_mutant_and_the_map_leaves_failing_tests_out(tmp_path: Path) -> None:
    outcome = _outcome(tmp_path, "return 1", "return 3")
    assert str(outcome["failed"]).endswith("::test_first")
    assert [test.split("::")[1] for test in dict(outcome["tests"])] == ["test_alone"]  # type: ignore[call-overload]
