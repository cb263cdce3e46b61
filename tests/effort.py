"""How many examples property tests draw: few in `make test`, all of them in `make test-slow`.

The profile of hypothesis decides: see `tests/conftest.py`.
"""

from hypothesis import settings

ALL = 30
"""Examples of a property test that says nothing else, in the thorough profile."""
QUICK = 8
"""The same in the quick profile."""
FEWEST = 3


def examples(n: int, **options) -> settings:
    """Settings of a test that draws `n` examples in the thorough profile, in others fewer."""
    share = settings.default.max_examples / ALL
    return settings(max_examples=max(min(n, FEWEST), round(share * n)), **options)
