"""Print the oldest versions that pyproject.toml admits, as requirements of pip.

python .ci/oldest.py [EXTRA ...]
"""

import re
import sys
import tomllib
from pathlib import Path

BOUND = re.compile(r"([A-Za-z0-9_.-]+)\s*>=\s*([0-9][0-9.]*)")


def oldest(project: dict, extras: list[str]) -> list[str]:
    """Requirements "name==version", one for each lower bound."""
    wanted = list(project["dependencies"])
    for extra in extras:
        wanted += project["optional-dependencies"][extra]
    bounds = [BOUND.match(line) for line in wanted if not line.startswith(project["name"])]
    return [f"{bound[1]}=={bound[2]}" for bound in bounds if bound]


if __name__ == "__main__":
    document = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    print("\n".join(oldest(document["project"], sys.argv[1:])))
