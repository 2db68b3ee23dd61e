"""The counts of rows on the pages agree with each other and with the README."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from lightloom.core.claims import STATUSES
from lightloom.papers.study import names

_ROOT = Path(__file__).parents[2]
_COUNTED = re.compile(r"\*\*(\d+ match.*? of \d+ rows)\*\*", re.DOTALL)


def _page(name: str) -> str:
    return (_ROOT / "docs" / "papers" / f"{name}.md").read_text().replace("\n", " ")


def test_the_readme_adds_up_the_counts_of_all_pages() -> None:
    total: Counter[str] = Counter()
    for name in names():
        (words,) = _COUNTED.findall(_page(name))
        assert words in _page("statuses"), name
        total.update({status: int(count) for count, status in re.findall(rf"(\d+) ({'|'.join(STATUSES)})", words)})
        total["rows"] += int(re.search(r"of (\d+) rows", words)[1])  # type: ignore[index]
    copied = total["derived"] + total["by construction"]
    assert total["rows"] == sum(total[status] for status in STATUSES)
    readme = " ".join((_ROOT / "README.md").read_text().split())
    assert (
        f"Of {total['rows']} rows {total['match']} match, {total['stand-in']} hold in another experiment, {copied} "
        f"agree by the papers' own figures or formulas and prove nothing, {total['deviates']} deviate and "
        f"{total['not reproducible']} cannot be compared" in readme
    )
