"""What a mean made in the light gives up, and what that costs."""

from __future__ import annotations

FORFEITS = (
    (
        "error correction",
        "codes of links, such as RS(544, 514) over GF(2^10), do not survive a sum of integers, and no code survives "
        "the rounding of a network; the way up is counted at raw errors, 1e-6 of the words by default instead of "
        "corrected ones at 2e-3, and its lanes need that much more light. A sum that is rounded behind its decoder "
        "need not give this up: linear codes over a prime field larger than any sum are closed under addition, at "
        "the cost of parities of more digits, and are not counted here. The way back of a digit sum is coded again, "
        "that of a network is not",
    ),
    (
        "retransmission",
        "a lost word of one server is lost in the mean of all: all of them send it again, N times the energy for that "
        "word; a digit sum may check itself, as the sum of the servers' checksums is the checksum of the sums",
    ),
    (
        "senders in their own time",
        "all symbols meet within a few hundredths of a symbol: the mean waits for the latest server, with one clock, "
        "fibres trimmed to 0.1 mm (0.6 ps), and buffers at the senders; a chip retimes each lane for itself",
    ),
    (
        "any subset of servers",
        "a server that is absent is a dark lane: a digit sum divides by another number, a network needs P set anew",
    ),
)
"""What is forfeited, and what it costs."""
