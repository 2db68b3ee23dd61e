"""Training of both levels of a cascade (OptINC, section III-C), each on the exact grid of its own function.

The levels are trained apart, as the paper trains them. No receiver decides between them: the analogue deviation of
level 1 enters level 2, so that no wrong output in either does not mean none from end to end. `cascade.end_to_end`
counts them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from lightloom.core.errors import ConfigError
from lightloom.photonics.averaging.cascade import Cascade, PlainLevel
from lightloom.photonics.onn.checkpoint import Checkpoint
from lightloom.photonics.onn.recipe import TrainingRecipe
from lightloom.photonics.onn.training import Trained, train


def train_cascade(
    recipes: Sequence[TrainingRecipe], folder: Path | None = None, advance: Callable[[int], None] = lambda _: None
) -> tuple[Cascade, tuple[Trained, Trained]]:
    """Train both levels by the recipes of `TrainingRecipe.cascade`; return the cascade, and both trainings.

    Args:
        recipes: of level 1 and of level 2.
        folder: where checkpoints are stored, in a folder for each level.
        advance: called with the work done since the last call, in units of `TrainingRecipe.work`.

    Raises:
        ConfigError: the recipes are not those of two levels of one cascade, or a checkpoint belongs to another recipe.
    """
    first, second = recipes
    if (
        not first.carries_decimals
        or second.groups is None
        or (first.servers, first.bits)
        != (
            second.servers,
            second.bits,
        )
    ):
        raise ConfigError("recipes: expected level 1, which carries decimals, and level 2 of the same cascade")
    folders = [None if folder is None else folder / f"level-{level}" for level in (1, 2)]
    # Level 1 stays in its folder until level 2 has ended, so that an interruption loses neither.
    trained = tuple(
        train(recipe, place, advance, keeps_checkpoint=True) for recipe, place in zip(recipes, folders, strict=True)
    )
    for recipe, place in zip(recipes, folders, strict=True):
        if place is not None:
            Checkpoint(place, recipe).remove()
    one, two = (PlainLevel("trained", each.recipe.function, each.network) for each in trained)
    return Cascade(first.bits, second.groups, first.servers, one, two), (trained[0], trained[1])
