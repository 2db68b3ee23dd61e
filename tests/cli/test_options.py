"""Options are those of functions: their names, types, defaults and help; a command gets the functions bound to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from pydantic import Field
from typer.testing import CliRunner

from lightloom.app.cli.options import Help, Options, documented, with_options
from lightloom.core.errors import ConfigError
from lightloom.core.fields import Quantity

GIVEN: dict[str, Any] = {}


def price(
    built: str,
    *,
    ranks: Annotated[int, Field(ge=2)] | None = None,
    share: Annotated[float, Field(ge=0, le=1)] = 0.5,
    names: str | Sequence[str] = "all",
    table: str | Path | None = None,
    explain: bool = False,
    overlap: bool = True,
    secret: str = "",
    restart: Annotated[float, Field(ge=0), Quantity("time", "25us")] | None = None,
    spares: Annotated[int, Field(ge=0)] | None = None,
) -> dict[str, Any]:
    """Price what is built.

    Args:
        built: what is priced.
        ranks: number of ranks, of :class:`~lightloom.Cluster`.
        share (SHARE): a share,
            on two lines.
        names: ``some`` names; repeatable.
        table: a file.
        explain: explains.
        overlap: overlaps.
        restart (TIME): time of a restart.
        spares: spare nodes.
    """
    return dict(locals())


def command(
    place: str,
    *,
    table: Annotated[Path | None, "--file", Help("The command's own file.")] = None,
    price: Annotated[partial[dict[str, Any]], Options(price, without=("secret",))],
) -> None:
    """Do it.

    At length.

    Args:
        place (WHERE): Where to do it.
        share: Another share.
    """
    GIVEN.clear()
    GIVEN.update(price(place), keywords=dict(price.keywords), file=table)


@pytest.fixture(scope="module")
def run() -> Callable[..., Any]:
    app = typer.Typer()
    app.command()(with_options(command))
    return lambda *words: CliRunner().invoke(app, list(words), catch_exceptions=False)


def test_options_that_are_not_given_leave_the_functions_own_defaults(run: Callable[..., Any]) -> None:
    assert run("here").exit_code == 0
    assert GIVEN["keywords"] == {"share": 0.5, "explain": False, "overlap": True}
    assert GIVEN["names"] == "all" and GIVEN["built"] == "here" and GIVEN["file"] is None


def test_values_have_the_types_of_annotations(run: Callable[..., Any]) -> None:
    words = ["here", "--ranks", "4", "--share", "30%", "--names", "a", "--names", "b", "--file", "x", "--explain"]
    assert run(*words, "--no-overlap", "--restart", "5min", "--spares", "0").exit_code == 0
    assert GIVEN["ranks"] == 4 and GIVEN["share"] == pytest.approx(0.3) and GIVEN["names"] == ["a", "b"]
    assert GIVEN["file"] == Path("x") and GIVEN["table"] is None
    assert GIVEN["explain"] is True and GIVEN["overlap"] is False
    assert GIVEN["restart"] == "5min" and GIVEN["spares"] == 0


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--ranks", "1"], "--ranks 1: expected at least 2"),
        (["--ranks", "many"], "--ranks 'many': expected a whole number"),
        (["--share", "2"], "--share '2': expected 0 to 1"),
        (["--spares", "-1"], "--spares -1: expected at least 0"),
        (["--secret", "x"], "No such option"),
        (["--table", "x"], "No such option"),
    ],
)
def test_what_cannot_be_read_is_refused_by_the_options_name(
    run: Callable[..., Any], words: list[str], complaint: str
) -> None:
    done = run("here", *words)
    assert done.exit_code == 2 and complaint in " ".join(done.output.replace("│", " ").split())


def test_help_is_the_docstrings() -> None:
    summary, helps = documented(price)
    assert summary == "Price what is built."
    assert helps["ranks"] == Help("Number of ranks, of Cluster.")
    assert helps["share"] == Help("A share, on two lines.", "SHARE")
    assert helps["names"].text == "some names; repeatable."
    taken = with_options(command)
    assert taken.__doc__ == "Do it.\n\nAt length."
    app = typer.Typer()
    app.command()(taken)
    about: dict[str | None, Any] = {each.name: each for each in typer.main.get_command(app).params}
    assert about["share"].help == "Another share." and about["restart"].metavar == "TIME"
    assert about["table"].help == "The command's own file." and about["place"].metavar == "WHERE"


def test_a_check_in_the_annotation_refuses_before_the_command_runs() -> None:
    def refuse(path: Path) -> None:
        raise ConfigError(f"{path}: refused")

    def write(*, out: Annotated[Path | None, refuse] = None) -> None:
        GIVEN["written"] = out

    write.__annotations__["out"] = Annotated[Path | None, refuse]
    app = typer.Typer()
    app.command()(with_options(write))
    with pytest.raises(ConfigError, match="x: refused"):
        CliRunner().invoke(app, ["--out", "x"], catch_exceptions=False)
    assert CliRunner().invoke(app, [], catch_exceptions=False).exit_code == 0 and GIVEN["written"] is None
