"""Let ``python -m dynpart`` be the same as ``dynpart``."""

from dynpart.cli import main

main()
