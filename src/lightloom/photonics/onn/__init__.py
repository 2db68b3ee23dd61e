"""Averaging networks that are trained, as in OptINC (arXiv 2603.28290), and noise-aware ones to compare with."""

from lightloom.photonics.onn.levels import train_cascade
from lightloom.photonics.onn.recipe import TrainingRecipe
from lightloom.photonics.onn.rival import RIVALS
from lightloom.photonics.onn.search import SearchResult, Trial, search
from lightloom.photonics.onn.training import Trained, train

__all__ = ["RIVALS", "SearchResult", "Trained", "TrainingRecipe", "Trial", "search", "train", "train_cascade"]
