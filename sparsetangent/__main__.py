"""``python -m sparsetangent``: what is installed and in use."""

from .config import show_config

if __name__ == "__main__":
    show_config()
