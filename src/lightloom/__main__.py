"""``python -m lightloom``: the command ``lightloom``."""

from lightloom.app.cli.main import main

if __name__ == "__main__":
    main()
