"""INCEPTIONN (MICRO 2018): its tables and figures, measured where they can be."""
