"""Scripts are followed through assignments and conditions without being run; bash itself is the second reading."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from lightloom.core.errors import ConfigError
from lightloom.models.files.shell_script import read_script

SCRIPT = r"""
#!/bin/bash
NODES=${NNODES:-2}; GPUS=8   # eight a node
WORLD=$(($GPUS*$NODES)) ; HALF=$((WORLD / 2))
NAME="a b"; export SIZE='large' EMPTY=
ARGS=(
    --world $WORLD   # a comment (with a bracket
    --name "$NAME" --size $SIZE
    --half ${HALF}
)
if [ $SIZE == "small" ]; then
    LAYERS=2
elif [[ "$SIZE" == "large" && $WORLD -gt 8 ]]; then
    LAYERS=96
else
    LAYERS=1
fi
case $GPUS in
    1|2) KIND=few ;;
    8) KIND=many ;;
    *) KIND=other ;;
esac
if [ -n "${NOWHERE}" ]; then ARGS+=(--nowhere); fi
[ -z "$EMPTY" ] || exit 1
MORE="--layers $LAYERS \
      --kind ${KIND}"
ARGS+=("--in one" $MORE)
for i in 1 2; do :; done
echo pretrain.py ${ARGS[@]} --count ${#ARGS[@]} --quoted "${ARGS[@]}" --flag=${GPUS}x --plus ${SIZE:+set}
"""


def test_words_are_those_that_bash_expands(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text(SCRIPT)
    words = read_script(path).commands[-1]
    assert words[:6] == ["echo", "pretrain.py", "--world", "16", "--name", "a"]
    if shutil.which("bash") is None:
        pytest.skip("no bash for the second reading")
    printed = subprocess.run(
        ["bash", str(path)], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"}, check=True
    )
    assert " ".join(words[1:]) == printed.stdout.strip()


def test_what_the_file_does_not_say_is_marked_and_never_run(tmp_path: Path) -> None:
    path, touched = tmp_path / "run.sh", tmp_path / "touched"
    path.write_text(
        f"HERE=$(touch {touched}; echo x)\nif [ -d /etc ]; then X=--y; fi\nrun --at $HERE `touch {touched}` $1 $GONE\n"
    )
    script = read_script(path)
    assert not touched.exists()
    assert [word[0] for word in script.commands[0][2:]] == ["⟨"] * 4
    assert read_script(path, {"GONE": "found"}).commands[0][-1] == "found"
    assert "line\u00a02" in str(script.variables["X"])


@pytest.mark.parametrize("text", ["A=(1 2", 'B="open', "if [ 1 ]; then\n x", "C=$((1 + 2"])
def test_what_does_not_end_is_refused_with_its_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.sh"
    path.write_text("\n" + text)
    with pytest.raises(ConfigError, match=r"line 2: .*does not end"):
        read_script(path)
