"""Variables of scripts are those that bash has at the end, or are named as unknown; none differs without a word."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lightloom.core.errors import ConfigError
from lightloom.models.files.shell_script import read_script
from lightloom.models.files.shell_words import MARK

_NAMES = ("TP", "PP", "A")
_PRINT = '\nprintf "%s\\n" "$TP" "$PP" "${A[*]}"\n'

SNIPPETS = {
    "and that fails": "TP=1\n[ 1 -gt 2 ] && TP=8",
    "and that holds": "TP=1\n[ 2 -gt 1 ] && TP=8",
    "or": "TP=1\n[ 1 -gt 2 ] || TP=8",
    "chain": "TP=1; true && false || TP=3 && PP=4",
    "unknown and": "TP=1\ngrep -q nothing /dev/null && TP=8",
    "subshell": "TP=1\n(TP=8; PP=2)",
    "pipeline": "TP=1\necho 8 | while read X; do TP=$X; done\necho 3 | read PP",
    "for": "for i in 1 2 4; do TP=$i; done",
    "for and break": "for i in 1 2 4; do TP=$i; [ $i -eq 2 ] && break; done",
    "for and continue": "for i in 1 2 4; do [ $i -eq 4 ] && continue; TP=$i; done",
    "for over an array": "L=(1 2 8); for i in ${L[@]}; do TP=$i; done",
    "while": "TP=1; while [ $TP -lt 8 ]; do TP=$((TP * 2)); done",
    "until": "TP=1; until [ $TP -ge 8 ]; do let TP=TP*2; done",
    "unknown while": "TP=1; PP=1; while grep -q x /dev/null; do PP=$TP; TP=2; done",
    "arithmetic for": "for ((i = 0; i < 3; i++)); do TP=$((i + 4)); done",
    "let": "TP=1; let TP=8; let 'PP = TP / 3'",
    "double bracket": "TP=1; ((TP=8)); ((PP = TP > 3 ? 5 : 6)); (( TP > 100 )) && PP=9",
    "increment": "TP=1; ((TP++)); PP=$((TP++ + ++TP))",
    "eval": "TP=1; N=TP; eval \"$N=8\"; eval 'PP=3'",
    "read": "TP=1; read TP <<< 8; read -r PP _ <<< '3 4'",
    "mapfile": "A=(1 2); mapfile -t A <<< 8",
    "printf": "TP=1; printf -v TP %d 8",
    "printf without a space": "TP=1; A=(1 2); printf -vTP %d 8; printf -v 'A[1]' %d 8",
    "choice": "TP=4; PP=2; A=$((TP > PP ? TP : PP)); PP=$((TP < 3 ? 1 : TP / 3))",
    "signs": "TP=$((!0 == 1)); PP=$((2 - -3)); A=$((1 < 2 == 1)); X=3; ((X = TP, PP = 7))",
    "bits": "TP=$((6 & 3 == 3)); PP=$((1 << 4 | 1)); A=$((~5))",
    "a name for one command": "TP=1; X=8 eval 'TP=$X'; PP=$X",
    "functions in a subshell": "f() { TP=1; }; (f() { TP=8; }); f; unset -f f; PP=2",
    "continue that may be": "for i in 1 2; do grep -q x /dev/null && continue; TP=$i; done; TP2=$TP; PP=4",
    "two loops that may break": "for i in 1 2; do for j in 3; do ls /no || break 2; PP=$j; done; TP=$i; done",
    "words in quotes": 'X=\'a b\'; A=("${X:-c}" ${X:+d} \'$X\' "\\$X" a\\ b); TP=${#A[@]}; PP="${A[*]}"',
    "unset": "TP=1; A=(1 2 3); unset TP; unset 'A[1]'",
    "element": "A=(1 2 3); A[0]=8; A[1]+=5; TP=${A[0]}; PP=${A[-1]}",
    "element of a text": "TP=1; TP[0]=8; A=x; A[2]=y",
    "table": "declare -A A; A[x]=1; A[y]=2; TP=${A[y]}",
    "for one command": "TP=1; TP=8 true; TP=4 PP=2 echo $TP > /dev/null",
    "for one function": "f() { PP=$TP; }; TP=1; TP=8 f",
    "local": "TP=1; f() { local TP=8; PP=$TP; }; f",
    "local without a value": "TP=1; f() { local TP; TP=8; PP=$TP; g; }; g() { A=$TP; TP=5; }; f",
    "declare in a function": "TP=1; f() { declare TP=8; declare -g PP=3; }; f",
    "exit": "TP=1; PP=2; printf '%s\\n' $TP $PP ''; exit 0; TP=8",
    "unknown exit": "TP=1; grep -q nothing /dev/null || echo; TP=8",
    "return": "f() { TP=1; return 0; TP=8; }; f; PP=2",
    "unknown return": "f() { TP=1; grep -q x /dev/null && return; TP=8; }; f",
    "negative division": "TP=$((-7 / 2)); PP=$((-7 % 3)); A=$((7 / -2))",
    "names": "B=C; C=5; TP=$((B)); PP=$((B + 1))",
    "powers": "TP=$((2 ** 3)); PP=$((-2 ** 2)); A=$((0x10 + 010))",
    "many calls": "TP=0; f() { TP=$((TP + 1)); }; " + "f; " * 30,
    "file": "TP=1; if [ -f /nowhere ]; then TP=8; fi",
    "file or else": "if [ -f /etc/passwd ]; then TP=8; else TP=4; fi; if [ -d / ]; then PP=3; else PP=3; fi",
    "default": "TP=${TP:-8}; : ${PP:=4}; A=${A-x}",
    "default of an unknown": "TP=$(echo 4); PP=${TP:-8}",
    "printed": 'TP=$(echo 4); [ "$(echo 5)" -gt 4 ] && PP=3',
    "case": 'X=b; case $X in a) TP=1 ;; b | c) TP=2 ;; *) TP=3 ;; esac; case "$(echo b)" in b) PP=5 ;; esac',
    "case that falls": "case a in a) TP=1 ;& b) PP=2 ;; esac",
    "patterns": "X=large; [[ $X == l* ]] && TP=1; [ $X = 'l*' ] && PP=2; [[ $X == \"l*\" ]] && A=3",
    "expressions": "X=large; [[ $X =~ ^l ]] && TP=4; [[ $X =~ ^s ]] || PP=5",
    "not": "TP=1; ! true && TP=8; if ! [ 1 -gt 2 ]; then PP=2; fi",
    "background": "TP=1; TP=8 & wait; { PP=2; } &\nwait",
    "errors end the script": "set -e; TP=1; PP=1; printf '1\\n1\\n\\n'; [ 1 -gt 2 ]; TP=8",
    "errors in conditions do not": "set -e; TP=1; if [ 1 -gt 2 ]; then PP=2; fi; [ 1 -gt 2 ] || TP=8",
    "arguments": "set -- 4 8; TP=$2; shift; PP=$1; A=$#",
    "too few arguments": "set -- 4 8; shift 3 || TP=$2; PP=$#; shift 2 && A=$#",
    "arguments of functions": "f() { TP=$2; shift; PP=$1; A=(\"$@\"); }; f 1 '2 3' 4",
    "append": "TP=1; TP+=8; A=(1); A+=(2 '3 4'); PP=${#A[@]}",
    "nothing in numbers": 'TP=1; X=; [ "$X" -lt 2 ] && TP=8; [[ $X -lt 2 ]] && PP=8',
    "read-only": "readonly TP=1; export -n TP; PP=2",
    "several on a line": "TP=1 PP=2\n\nA=3 B=4\n# more\necho 5 > /dev/null",
    "reference": "TP=1; declare -n R=TP; R=8",
    "numbers by declaration": "declare -i TP; TP=2+3; declare -u A=x",
    "separator": "IFS=,; X=1,2; A=($X); TP=${A[0]}",
    "braces": "for i in {1..4}; do TP=$i; done",
    "substring": "X=128x; TP=${X%x}; PP=${X:0:1}; A=${X/x/y}",
    "quotes": "X='a b'; A=($X \"$X\"); TP=${#A[@]}; PP=\"a\"'b'c",
    "substitution in a process": "while read X; do TP=$X; done < <(echo 8)",
    "last of a pipeline": "shopt -s lastpipe; TP=1; echo 8 | read TP",
    "lines": "TP=1 \\\n  PP=2\nA=a\\\nb",
    "here document": "cat <<EOF > /dev/null\nTP=8\nEOF\nPP=2",
    "trap": "TP=1; trap 'TP=8' EXIT; PP=2",
    "nested": "f() { if [ $1 -gt 0 ]; then TP=$1; f $(($1 - 1)); fi; }; f 3",
    "two loops": "for i in 1 2; do for j in 3 4; do TP=$j; [ $j -eq 3 ] && break 2; done; PP=$i; done; A=x",
}


def _of_bash(text: str) -> list[str] | None:
    """Values at the end, None where the script ends before or bash leaves a line at a division by zero."""
    done = subprocess.run(
        ["bash", "-c", text + _PRINT], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"}, timeout=20
    )
    lines = done.stdout.splitlines()
    return lines[-3:] if len(lines) >= 3 and "division by 0" not in done.stderr else None


def _of_ours(text: str, folder: Path) -> list[str | None]:
    """Values at the end by name, None where they are named as unknown."""
    path = folder / "run.sh"
    path.write_text(text + _PRINT)
    script = read_script(path)
    found: list[str | None] = []
    for name in _NAMES:
        held = script.variables.get(name, "")
        shown = (" ".join(held) if name == "A" else "".join(held[:1])) if isinstance(held, list) else held
        found.append(None if MARK.search(shown) else shown)
    return found


def _differences(text: str, folder: Path) -> list[tuple[str, str, str | None]]:
    expected = _of_bash(text)
    assert expected is not None, "bash does not reach the end"
    found = _of_ours(text, folder)
    return [
        (name, right, ours)
        for name, right, ours in zip(_NAMES, expected, found, strict=True)
        if ours is not None and ours != right
    ]


needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is the second reading")


@needs_bash
@pytest.mark.parametrize("text", SNIPPETS.values(), ids=SNIPPETS.keys())
def test_no_variable_differs_from_bash_without_a_word(text: str, tmp_path: Path) -> None:
    assert _differences(text, tmp_path) == []


_SIGNS = ("+", "-", "*", "/", "%", "<", ">", "==", "&&", "||")
_EXPRESSION = st.recursive(
    st.sampled_from(["0", "1", "2", "7", "TP", "PP"]),
    lambda inner: (
        st.builds("({0} {1} {2})".format, inner, st.sampled_from(_SIGNS), inner) | st.builds("-{0}".format, inner)
    ),
    max_leaves=4,
)
_NUMBERS = st.builds(
    "[ ${0} {1} {2} ]".format,
    st.sampled_from(["{TP:-0}", "{PP:-0}", "N"]),
    st.sampled_from(["-gt", "-eq", "-le", "="]),
    st.sampled_from(["1", "4"]),
)
_OTHER_TESTS = (
    "true", "false", "[ -f /nowhere ]", "[[ $TP == 1* ]]", "! true", "grep -q x /dev/null", '[ -z "$PP" ]',
)  # fmt: skip
_TEST = st.one_of(_NUMBERS, st.builds("(( {0} ))".format, _EXPRESSION), st.sampled_from(_OTHER_TESTS))
_TEXTS = ("1", "4", "$PP", "x$TP", "${PP:-3}", "$(echo 2)")
_STATEMENTS = (
    "TP=8 true", "unset PP", "read PP <<< 5", "((TP += 2))", "let PP=TP+1", "printf -v TP 6", "A[0]=$TP", "f",
)  # fmt: skip
_SIMPLE = st.one_of(
    st.builds("{0}={1}".format, st.sampled_from(_NAMES[:2]), st.sampled_from(_TEXTS)),
    st.builds("{0}=$(({1}))".format, st.sampled_from(_NAMES[:2]), _EXPRESSION),
    st.builds("A+=({0})".format, st.sampled_from(["1", "$TP", "'a b'", '"$PP" 2'])),
    st.sampled_from(_STATEMENTS),
)


def _compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("if {0}; then {1}; else {2}; fi".format, _TEST, inner, inner),
        st.builds("{0} && {1}".format, _TEST, _SIMPLE),
        st.builds("{0} || {1}".format, _TEST, _SIMPLE),
        st.builds("for i in 1 2; do {0}; done".format, inner),
        st.builds("for i in 1 2 3; do {0}; {1} && break; {2}; done".format, inner, _TEST, inner),
        st.builds("( {0} )".format, inner),
        st.builds("{{ {0}; }}".format, inner),
        st.builds("case $TP in 1*) {0} ;; *) {1} ;; esac".format, inner, inner),
        st.builds("{0}; {1}".format, inner, inner),
        st.builds("g() {{ local TP; {0}; {1} && return; {2}; }}; g".format, inner, _TEST, inner),
        st.builds("echo 1 | {{ {0}; }}".format, inner),
    )


@pytest.mark.long
@needs_bash
@settings(max_examples=800)
@given(text=st.recursive(_SIMPLE, _compound, max_leaves=8), first=st.sampled_from(["TP=1; ", "TP=4; PP=2; ", ""]))
def test_random_scripts_are_read_as_bash_runs_them(
    text: str, first: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = f"f() {{ PP=${{TP}}7; }}; {first}{text}"
    assume(_of_bash(text) is not None)
    try:
        assert _differences(text, tmp_path_factory.mktemp("script")) == []
    except ConfigError as error:
        # It stands in a branch that bash does not take.
        assert "division by zero" in str(error)


def test_scripts_that_are_too_deep_or_never_end_are_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    for text in (
        "if true; then " * 3000 + ":; " + "fi; " * 3000,
        "while true; do :; done",
        "f() { f; }; f",
        "readonly TP=1; TP=8",
        "(" * 2000 + ":" + ")" * 2000,
        "x" * (2 << 20),
    ):
        path.write_text(text)
        with pytest.raises(ConfigError) as refusal:
            read_script(path)
        assert "expected" in str(refusal.value) and "\n" not in str(refusal.value)


def test_a_script_that_ends_for_want_of_an_argument_is_followed_as_if_it_had_it(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text('[ -z "$1" ] && exit 1\nif [ $# = 0 ]; then exit 2; fi\nrun --tp 4\nexit\nrun --tp 8\n')
    script = read_script(path)
    assert script.commands == [["run", "--tp", "4"]]
    assert script.ended_at == 4
    assert script.notes == ["line 1: the script ends there unless 1 is set, and is followed as if it were"]


def test_what_only_perhaps_runs_is_kept_apart_with_what_decides_it(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text("mkdir out && run --tp 4\nPATHS=<where> (optional)\ngo --to $PATHS $A/$B.x\n")
    script = read_script(path)
    assert script.conditional == [("line 1: whether mkdir out succeeds", ["run", "--tp", "4"])]
    assert script.commands[-1] == ["go", "--to", "⟨where:\u00a0a\u00a0placeholder⟩", "⟨A⟩/⟨B⟩.x"]
