"""The counts of printed numbers on the pages agree with each other and with the README."""

from __future__ import annotations

from scripts.register import COUNTS, ROOT, stated, sums

from lightloom.papers.study import names


def test_the_readme_adds_up_the_counts_of_all_pages() -> None:
    for path, _, text in sums():
        assert " ".join(text.split()) in " ".join(path.read_text().split()), (
            f"python -m scripts.register --write: {text}"
        )


def test_every_page_states_its_counts_once() -> None:
    for name in names():
        assert len(COUNTS.findall((ROOT / "docs" / "papers" / f"{name}.md").read_text())) == 1, name
        assert stated(name)
