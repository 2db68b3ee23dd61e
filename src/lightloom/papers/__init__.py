"""The five papers reproduced: our rows and figures beside theirs, training runs, stored measurements."""
