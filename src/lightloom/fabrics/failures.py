"""Things that fail, as files and commands name them (:mod:`lightloom.fabrics.damage` says what each means)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, model_serializer, model_validator

from lightloom.core.errors import ConfigError

WAYS = ("clockwise", "counter-clockwise")
FORMS = {
    "wavelength": "wavelength:NUMBER",
    "transceiver": "transceiver:NODE:CHANNEL[:WAY]",
    "segment": "segment:NODE:WAY",
    "cable": "cable:NODE",
    "node": "node:NODE",
    "dark-node": "dark-node:NODE",
    "link": "link:NODE:NODE",
    "plane": "plane:NUMBER",
}


class Failure(BaseModel):
    """One thing that has failed; written and read as the text of ``FORMS``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    what: Literal["wavelength", "transceiver", "segment", "cable", "node", "dark-node", "link", "plane"]
    at: int
    """Wavelength, plane, or node; segments and cables lead from this node to the next clockwise."""
    to: int | None = None
    """The node at the other end of a link; None of all else."""
    channel: int = 0
    """Channel of a transceiver: fibre · wavelengths + wavelength."""
    way: int | None = None
    """0 clockwise, 1 counter-clockwise, None both."""

    @classmethod
    def parse(cls, text: str) -> Failure:
        """Read a failure.

        Raises:
            ConfigError: not of one of the forms.
        """
        try:
            return cls(**_fields(text))
        except ValueError as error:
            raise ConfigError(f"failure {text!r}: expected one of {', '.join(FORMS.values())}") from error

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        return _fields(value) if isinstance(value, str) else value

    @model_serializer
    def text(self) -> str:
        """The form in which it is read."""
        parts = [self.what, str(self.at)]
        parts += [str(self.channel)] if self.what == "transceiver" else []
        parts += [str(self.to)] if self.what == "link" else []
        return ":".join(parts + ([] if self.way is None else [WAYS[self.way]]))


def _fields(text: str) -> dict[str, Any]:
    what, *rest = text.split(":")
    second, way = {"transceiver": "channel", "link": "to"}.get(what), None
    if rest and rest[-1] in WAYS and what in ("transceiver", "segment"):
        way = WAYS.index(rest.pop())
    numbers = 1 if second is None else 2
    if what not in FORMS or len(rest) != numbers or (what == "segment") > (way is not None):
        raise ValueError(f"{text!r}: expected one of {', '.join(FORMS.values())}")
    return {"what": what, "at": int(rest[0]), "way": way} | ({} if second is None else {second: int(rest[1])})
