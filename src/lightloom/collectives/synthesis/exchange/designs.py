"""Which wirings are worth trying for an all-to-all: plain ones, random ones, and steps from one to the next.

plain    chains of hubs, and of hubs of hubs; between hubs that feed, all tours, or chords of two lengths
random   some of each, wavelengths that are left anywhere
steps    wavelengths to where the load is, other chords, other feeders, other hubs
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lightloom.collectives.synthesis.engine.hubs import Level
from lightloom.collectives.synthesis.exchange.circuits import (
    DEEPEST,
    Feeder,
    MixedTours,
    Tours,
    Wiring,
    longest_circuit,
    reaches,
)
from lightloom.core.arrays import Floats

_BLOCKS, _LEAST_RANKS = 256, 1024
"""Times the ranks, or so many of them: blocks of one period above which a wiring is not tried."""
_UNEVEN = 512
"""Ranks up to which hubs may be spread unevenly."""
_SPACINGS = (2, 4, 5, 8, 10, 16, 32)
_COARSER = (1, 1, 1, 2, 3, 4, 5, 8, 16)
"""Hubs for each of those that a chord starts from."""
_SHARES = (1.0, 1.25, 1.6, 2.5)
"""Ranks behind a wavelength of a span, over an even share of them."""


class Designs:
    """Wirings of one ring."""

    def __init__(self, ranks: int, channels: int, reach: int | None = None) -> None:
        """Args:
        channels: wavelengths each way.
        reach: most links that a circuit may pass; None for no limit.
        """
        self._ranks, self._channels, self._reach = ranks, channels, reach
        self._rng = np.random.default_rng(0)
        self.most = _BLOCKS * max(ranks, _LEAST_RANKS)
        self.hubs = self._hub_counts()

    def _hub_counts(self) -> list[int]:
        ranks = self._ranks
        even = [hubs for hubs in range(3, ranks + 1) if ranks % hubs == 0 and ranks // hubs * ranks <= self.most]
        if len(even) > 4 or ranks > _UNEVEN:
            return even
        return sorted({*even, *range(3, min(ranks, 48)), *(ranks // k for k in range(1, 9) if ranks // k > 2)})

    def fits(self, wiring: Wiring) -> bool:
        """Whether the ring has the wavelengths, hubs are nested, and blocks of one period are not too many."""
        ranks, hubs, feeder = self._ranks, wiring.hubs, wiring.feeder
        if wiring.wavelengths > self._channels or (feeder is None) != (hubs == ranks):
            return False
        for chord in wiring.chords:
            if chord.hubs < 3 or hubs % chord.hubs or chord.width < 1 or not 1 <= chord.skip <= chord.hubs // 2:
                return False
            if isinstance(chord, Tours) and (chord.hubs % 2 or chord.skip > chord.hubs // 4):
                return False
        if wiring.period(ranks) * ranks > self.most:
            return False
        half = -(-ranks // hubs) // 2
        if feeder is not None and not (1 <= feeder.depth <= DEEPEST and reaches(feeder, half)):
            return False
        return self._reach is None or longest_circuit(wiring, ranks) <= self._reach

    def plain(self) -> Iterator[Wiring | None]:
        """Wirings of few parts."""
        narrow = sorted({max(1, self._channels // parts) for parts in (64, 16, 8, 4)})
        yield from self._chains(narrow)
        for hubs in self.hubs:
            for width in sorted({*narrow, max(1, self._channels // 2)}):
                feeder = self._feeder(hubs, width) if hubs < self._ranks else None
                if feeder is not None or hubs == self._ranks:
                    yield from self._over_hubs(hubs, width, feeder, narrow)

    def _chains(self, narrow: list[int]) -> Iterator[Wiring | None]:
        """Unit links, a chain of hubs and perhaps one of fewer hubs; also fed by trees."""
        ranks = self._ranks
        spacings = [spacing for spacing in _SPACINGS if ranks % spacing == 0 and ranks // spacing in self.hubs]
        for spacing in spacings:
            for width in narrow:
                hubs, left = ranks // spacing, self._channels - width
                yield Wiring(ranks, (Level(ranks, 1, width), Level(hubs, 1, left)), None)
                yield self._filled(Wiring(hubs, (Level(hubs, 1, 1),), self._feeder(hubs, width)))
                for far in spacings:
                    if far % spacing == 0 and far > spacing:
                        for more in narrow:
                            chords = (Level(ranks, 1, width), Level(hubs, 1, more), Level(ranks // far, 1, left - more))
                            yield Wiring(ranks, chords, None)

    def _over_hubs(self, hubs: int, width: int, feeder: Feeder | None, narrow: list[int]) -> Iterator[Wiring | None]:
        """Tours, chords of two lengths, or chains, between hubs."""
        far = max(2, self._channels - width - 1)
        skips = {far, far // 2, far * 3 // 4, round((hubs / 2) ** 0.5)}
        tops: list[tuple[Level | Tours, ...]] = [(Level(hubs, 1, 1),)]
        tops += [(Level(hubs, 1, 1), Level(hubs, skip, 1)) for skip in sorted(skips) if 2 <= skip <= hubs // 2]
        if hubs % 2 == 0:
            tops.append(tuple(Tours(hubs, skip, 1) for skip in range(1, hubs // 4 + 1)))
        for chords in tops:
            yield self._filled(Wiring(hubs, chords, feeder))
        used = width if feeder else 0
        for more in narrow:
            for coarser in (2, 4, 8):
                if hubs % coarser == 0:
                    longest = Level(hubs // coarser, 1, self._channels - used - more)
                    yield Wiring(hubs, (Level(hubs, 1, more), longest), feeder)

    def complete(self) -> Iterator[Wiring]:
        """Chords between all pairs of hubs, opposite ones included, and spans from hubs to all ranks: three hops.

        Wavelengths are shared between chords and spans so that neither carries a block much longer than the other.
        """
        for hubs in self.hubs:
            half = -(-self._ranks // hubs) // 2
            chords: list[Level | Tours] = [
                *(Tours(hubs, skip, 1) for skip in range(1, hubs // 4 + 1)),
                Level(hubs, hubs // 2, 1),
            ]
            used = sum(chord.wavelengths for chord in chords)
            widths = range(1, (self._channels - half) // used + 1)
            if hubs % 2 or hubs == self._ranks or not widths:
                continue
            behind = self._ranks / hubs
            width = min(widths, key=lambda w: max(self._ranks * half / (self._channels - w * used), behind**2 / w))
            wide = tuple(chord._replace(width=width) for chord in chords)
            yield Wiring(hubs, wide, Feeder(self._channels - width * used, 1, 1))

    def random(self) -> Wiring | None:
        """Any wiring; None where chance leads nowhere."""
        hubs, feeder = int(self._rng.choice(self.hubs)), None
        if hubs < self._ranks:
            feeder = self._feeder(hubs, int(self._rng.integers(1, max(2, self._channels * 2 // 3 + 1))))
            if feeder is None:
                return None
        chords: list[Level | Tours] = []
        left = self._channels - (feeder.wavelengths if feeder else 0)
        for _ in range(int(self._rng.integers(1, 6))):
            fresh = self._chords(hubs)
            if fresh is not None and fresh.wavelengths <= left:
                chords.append(fresh)
                left -= fresh.wavelengths
        return self._filled(Wiring(hubs, tuple(chords), feeder))

    def _feeder(self, hubs: int, wavelengths: int) -> Feeder | None:
        """As few spans one after the other as can be, or one more."""
        half = -(-self._ranks // hubs) // 2
        share = max(1, int(half / wavelengths * self._rng.choice(_SHARES)))
        for depth in range(1, DEEPEST):
            if reaches(Feeder(wavelengths, depth, share), half):
                return Feeder(wavelengths, depth + int(self._rng.integers(0, 2)), share)
        return None

    def _chords(self, hubs: int) -> Level | Tours | None:
        """Chords of any length, short ones more often."""
        coarser = [ratio for ratio in _COARSER if hubs % ratio == 0 and hubs // ratio >= 3]
        if not coarser:
            return None
        count = hubs // int(self._rng.choice(coarser))
        if count % 2 == 0 and self._rng.random() < 0.4:
            return Tours(count, int(self._rng.integers(1, count // 4 + 1)), 1)
        skip = int(np.exp(self._rng.random() * np.log(max(count // 2, 1))))
        return Level(count, max(1, skip), 1)

    def _filled(self, wiring: Wiring) -> Wiring | None:
        """As many wavelengths as there are: what is missing is taken from chords, what is left goes anywhere."""
        chords, feeder = list(wiring.chords), wiring.feeder
        if not chords:
            return None
        left = self._channels - wiring.wavelengths
        while left < 0:
            wide = [i for i, chord in enumerate(chords) if chord.width > 1]
            if not wide:
                return None
            i = int(self._rng.choice(wide))
            chords[i] = chords[i]._replace(width=chords[i].width - 1)
            left += chords[i].colours
        while left > 0:
            can = [i for i, chord in enumerate(chords) if chord.colours <= left]
            can += [len(chords)] if feeder is not None else []
            if not can:
                break
            i = int(self._rng.choice(can))
            if feeder is not None and i == len(chords):
                feeder = feeder._replace(wavelengths=feeder.wavelengths + 1)
                left -= 1
            else:
                chords[i] = chords[i]._replace(width=chords[i].width + 1)
                left -= chords[i].colours
        return Wiring(
            wiring.hubs, tuple(sorted(chords, key=lambda chord: (-chord.hubs, chord.skip, chord.width))), feeder
        )

    def step(self, wiring: Wiring, load: Floats | None) -> Wiring | None:
        """A wiring near this one; None where chance leads nowhere.

        Args:
            load: seconds for which the busiest circuit of each kind of chords is busy, and that of the feeders.
        """
        kind = int(self._rng.integers(0, 9))
        i = int(self._rng.integers(0, len(wiring.chords)))
        if kind < 2:
            return self._filled(self._shifted(wiring, load if kind == 0 else None))
        if kind < 6:
            return self._filled(self._other_chords(wiring, kind, i))
        if kind < 8:
            return self._filled(self._other_feeder(wiring, kind == 7))
        return self._filled(self._other_hubs(wiring))

    def _shifted(self, wiring: Wiring, load: Floats | None) -> Wiring:
        """A wavelength goes to what is busiest, or anywhere, from chords or the feeders."""
        chords, feeder = list(wiring.chords), wiring.feeder
        if load is None:
            to = int(self._rng.integers(0, len(chords) + (feeder is not None)))
        else:
            to = int(np.argmax(load))
        i = int(self._rng.integers(0, len(chords)))
        if i != to and chords[i].width > 1:
            chords[i] = chords[i]._replace(width=chords[i].width - 1)
        elif feeder is not None and to != len(chords) and feeder.wavelengths > 1:
            feeder = feeder._replace(wavelengths=feeder.wavelengths - 1)
        if to < len(chords):
            chords[to] = chords[to]._replace(width=chords[to].width + 1)
        elif feeder is not None:
            feeder = feeder._replace(wavelengths=feeder.wavelengths + 1)
        return wiring._replace(chords=tuple(chords), feeder=feeder)

    def _other_chords(self, wiring: Wiring, kind: int, i: int) -> Wiring:
        """Chords a little longer or shorter, replaced, added or left out."""
        chords = list(wiring.chords)
        if kind == 2:
            chord = chords[i]
            if isinstance(chord, MixedTours):
                return wiring
            chords[i] = chord._replace(skip=max(1, chord.skip + int(self._rng.choice((-2, -1, 1, 2)))))
        elif kind == 5:
            del chords[i]
        else:
            fresh = self._chords(wiring.hubs)
            chords[i : i + (kind == 3)] = [] if fresh is None else [fresh]
        return wiring._replace(chords=tuple(chords))

    def _other_feeder(self, wiring: Wiring, widths: bool) -> Wiring:
        """Feeders of other depths and shares, or other wavelengths."""
        feeder = wiring.feeder
        if feeder is None:
            return wiring
        if widths:
            wavelengths = max(1, feeder.wavelengths + int(self._rng.choice((-3, -2, -1, 1, 2, 3))))
            return wiring._replace(feeder=self._feeder(wiring.hubs, wavelengths))
        depth = max(1, feeder.depth + int(self._rng.choice((-1, 0, 1))))
        share = max(1, int(feeder.share * self._rng.choice((0.7, 0.85, 1.2, 1.5))))
        return wiring._replace(feeder=feeder._replace(depth=depth, share=share))

    def _other_hubs(self, wiring: Wiring) -> Wiring:
        """Chords of the same lengths between more or fewer hubs."""
        hubs, feeder = int(self._rng.choice(self.hubs)), None
        chords: list[Level | Tours] = []
        for chord in wiring.chords:
            if isinstance(chord, MixedTours):
                return wiring
            count = chord.hubs * hubs // wiring.hubs
            chords.append(chord._replace(hubs=count, skip=max(1, round(chord.skip * count / chord.hubs))))
        if hubs < self._ranks:
            feeder = self._feeder(hubs, wiring.feeder.wavelengths if wiring.feeder else 1)
        return Wiring(hubs, tuple(chords), feeder)
