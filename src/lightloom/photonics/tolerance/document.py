"""An averager that tolerates errors, as a JSON document."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lightloom.photonics.link.sources import AMPLIFIER_LIMIT, SOURCES
from lightloom.photonics.meshes.mapping import decibels
from lightloom.photonics.tolerance.fabricated import Amplifiers
from lightloom.photonics.tolerance.search import TolerantAverager, largest_alone, largest_share


def assumptions(amplifiers: Amplifiers | None) -> list[str]:
    """Return what the word error rate rests on, and what it leaves out, as sentences."""
    levels = "assumption: lanes, outputs of units, amplifiers and receivers set for the loss of their paths"
    left_out = "crossings without loss; lasers, units and receivers without errors (onn link has them)"
    if amplifiers is None:
        return [levels, f"no noise; {left_out}"]
    return [
        f"noise figure {amplifiers.noise_figure_db:g} dB ({SOURCES['noise_figure_db']})",
        f"bandwidth {amplifiers.bandwidth / 1e9:g} GHz ({SOURCES['bandwidth']})",
        levels,
        f"amplifiers emit any power, real ones {AMPLIFIER_LIMIT * 1e3:.0f} mW (onn link --gain optical has the peaks)",
        f"no noise but that of amplifiers; {left_out}",
    ]


def tolerance_document(result: TolerantAverager, advance: Callable[[int], None] = lambda _: None) -> dict[str, Any]:
    """Return the request, what was measured, and how much of each error the averager tolerates alone and at once."""
    mapped, request, measured = result.mapped, result.request, result.measured
    # The whole request is tolerated: that was measured with more words than shares of it are.
    share = max(largest_share(mapped, request, result.seed, advance), 1.0)
    power = request.full_scale
    return {
        "errors": request.errors,
        "target": request.word_errors,
        "word_error_rate": measured.rate,
        "interval_95": list(measured.interval),
        "wrong_words": int(measured.wrong.sum()),
        "words": measured.words * int(measured.wrong.size),
        "fabrications": int(measured.wrong.size),
        "tried": result.tried,
        "mapping": result.candidate.mapping,
        "window": str(result.candidate.window),
        "copies": result.candidate.copies,
        "mzi_count": mapped.mzis,
        "columns": mapped.depth,
        "crossings": mapped.crossings,
        "largest_gain_db": decibels(mapped.gain),
        "lane_power_watts": None if power is None else power * float(mapped.preprocessing.gains.max()) ** 2,
        "tolerated_share": share,
        "tolerated_at_once": request.scaled(share).errors if share else None,
        "tolerated_alone": {
            name: largest_alone(mapped, request, name, result.seed, advance) for name in request.errors
        },
        "assumptions": assumptions(request.amplifiers),
    }
