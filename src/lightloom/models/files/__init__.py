"""Files that describe a model, whoever made them, read as compute graphs."""
