"""Count what the architecture promises to keep small, in one source tree or in two side by side.

    python -m scripts.census                     the working tree
    python -m scripts.census v0.1.0 .            a git revision, a folder, or both
    python -m scripts.census v0.1.0 . --list     with the places that the last tree's counts stand for
    python -m scripts.census . --list riddles    with the places of the counts whose titles hold this word
    python -m scripts.census . --json

What a count means stands in the module that makes it: `imports` (rooms, floors, importers), `sizes` (files, lines),
`names` (homonyms, riddles) and `functions`. Lines are counted as they stand, and once more after ``# fmt: skip`` is
removed and a copy is formatted, so that a tree that hid long lines is compared like for like.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from scripts.census.functions import count_functions
from scripts.census.imports import count_inner_imports, count_rooms, count_single_importers
from scripts.census.names import count_homonyms, count_riddles
from scripts.census.sizes import count_sizes, count_skips
from scripts.census.source import Census, find_tree, parse


def main() -> None:
    """Print the counts of one tree or of two."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.census", description="Count rooms, files, lines, names and imports of source trees."
    )
    parser.add_argument("trees", nargs="*", default=["."], help="folders or git revisions, at most two")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument(
        "--list",
        nargs="?",
        const="",
        metavar="WORD",
        help="print the places of the last tree's counts as well; only of counts whose titles hold WORD, if given",
    )
    options = parser.parse_args()
    if len(options.trees) > 2:
        parser.error("at most two trees can be compared")
    with tempfile.TemporaryDirectory() as scratch:
        counts = [census(tree, Path(scratch) / str(index)) for index, tree in enumerate(options.trees)]
    if options.json:
        documents = [{"tree": one.name, "figures": one.figures, "places": one.places} for one in counts]
        print(json.dumps(documents, indent=2))
        return
    print_table(counts)
    if options.list is not None:
        for title, places in counts[-1].places.items():
            if options.list in title:
                print(f"\n{title.strip()}\n" + "\n".join(f"  {place}" for place in places))


def census(tree: str, scratch: Path) -> Census:
    """Return the counts of a folder or a git revision; `scratch` is a folder that does not exist yet."""
    scratch.mkdir(parents=True)
    root = find_tree(tree, scratch / "revision")
    modules = parse(root)
    counts = Census(tree)
    count_rooms(modules, counts)
    count_sizes(root, modules, counts, scratch / "formatted")
    count_single_importers(modules, counts)
    count_homonyms(modules, counts)
    count_riddles(modules, counts)
    count_functions(modules, counts)
    count_inner_imports(modules, counts)
    count_skips(root, counts)
    return counts


def print_table(counts: list[Census]) -> None:
    """Print one column per tree, the change between two, and the longest chain of the last."""
    names = [Path(one.name).resolve().name if Path(one.name).is_dir() else one.name for one in counts]
    heads = [*names, *(["change"] if len(counts) == 2 else [])]
    titles = list(counts[-1].figures)
    width = max(map(len, titles))
    print(f"{'':{width}}" + "".join(f"{head:>12}" for head in heads))
    for title in titles:
        values = [one.figures[title] for one in counts]
        row = "".join(f"{value:>12,}" for value in values)
        if len(values) == 2:
            row += f"{values[1] - values[0]:>+12,}"
        print(f"{title:{width}}{row}")
    print(f"\nlongest chain of rooms: {' -> '.join(counts[-1].places['floors'])}")


if __name__ == "__main__":
    main()
