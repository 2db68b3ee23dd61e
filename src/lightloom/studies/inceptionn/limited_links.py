"""What was measured on limited links: Figure 12's four configurations, the hook beside torch's own, the NIC pair."""

from __future__ import annotations

from typing import Any

from lightloom.core.claims import Claim
from lightloom.studies.inceptionn.paper import INC_C, INC_C_OVER_INC, INC_COMMUNICATION, INC_TOTAL, WA_C

_ORDER = "WA > WA+C > INC > INC+C"
_TOLERANCE = 10.0
"""Percentage points within which a measured reduction counts as the paper's."""
_PRINTED = {
    "total, INC against WA": INC_TOTAL["HDC"],
    "communication, INC against WA": INC_COMMUNICATION["HDC"],
    "communication, WA+C against WA": WA_C,
    "communication, INC+C against WA": INC_C,
    "communication, INC+C against INC": INC_C_OVER_INC,
}


def claims(exchange: Any, links: Any, nic: Any) -> tuple[Claim, ...]:
    """Rows of all three."""
    return (*_order(exchange), *_reductions(exchange), *_hook(links), *_wire(nic))


def _slug(text: str) -> str:
    words = text.lower().replace("+", "_").replace(",", "").replace("-", "").split()
    return "_".join(word for word in words if word != "against")


def _order(exchange: Any) -> list[Claim]:
    return [
        Claim(
            id=f"inceptionn.figure12.measured_{_slug(model)}_order",
            paper=_ORDER,
            ours=order,
            unit="",
            why=f"by communication time. {exchange['what']}",
        )
        for model, order in exchange["order"].items()
    ]


def _reductions(exchange: Any) -> list[Claim]:
    rows = []
    for model, reductions in exchange["reductions"].items():
        for row in reductions:
            low, high = row["range"]
            rows.append(
                Claim(
                    id=f"inceptionn.figure12.measured_{_slug(model)}_{_slug(row['what'])}",
                    paper=_PRINTED[row["what"]],
                    ours=round(row["percent"], 1),
                    unit="% less",
                    tolerance=_TOLERANCE,
                    why=f"median, {low:.0f} to {high:.0f} over rounds; paper: HDC for INC, about for the rest, at "
                    "10 Gbit/s. "
                    "Our ring fills its links, and compressing on the host makes fewer packets, unlike the card",
                )
            )
    return rows


def _hook(links: Any) -> list[Claim]:
    rows = []
    for rate, table in links["tables"].items():
        for mode in table["rows"].values():
            if mode["name"] == table["rows"]["none"]["name"]:
                continue
            low, high = mode["over_none_range"]
            rows.append(
                Claim(
                    id=f"inceptionn.headline.hook_{_slug(rate.replace('/', ' per '))}_{_key(mode['name'])}",
                    paper=None,
                    ours=round(mode["over_none"], 3),
                    unit="of no hook",
                    why=f"DDP step, 23 MB MLP, 4 processes on 2 cores: {1e3 * mode['step_s']:.0f} ms, "
                    f"{low:.2f} to {high:.2f} of no hook over {len(mode['step_s_rounds'])} rounds, {table['data']}",
                )
            )
    return rows


def _key(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name.lower()).strip("_").replace("__", "_")


def _wire(nic: Any) -> list[Claim]:
    rows = []
    for transfer in nic["transfers"]:
        if not transfer["marked"]:
            continue
        rows.append(
            Claim(
                id=f"inceptionn.headline.nic_mtu{transfer['mtu']}",
                paper=None,
                ours=round(transfer["times_fewer_bytes_marked_packets"], 2),
                unit="ratio",
                why=f"bytes before over bytes on the wire of marked packets, headers included, {nic['gradient']} "
                "gradient, "
                f"{nic['codec']}, whose own ratio is {nic['codec_ratio']:.1f}; two network namespaces and engines in "
                f"software; largest error {transfer['largest_error']:.2g}",
            )
        )
    return rows
