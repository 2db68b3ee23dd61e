"""Files of other tools: how they are read, and whether wrong ones are refused."""
