"""A seeded mutation run over the packages where a wrong line would be a wrong answer (``make mutants``)."""
