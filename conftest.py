"""Doctests of modules that need an extra are left out where the extra is missing."""

from importlib.util import find_spec

NEEDS = {
    "torch": [
        "src/dynpart/engines/torch.py",
        "src/dynpart/engines/_torch_*.py",
        "src/dynpart/baselines/masked.py",
        "src/dynpart/baselines/shape.py",
    ],
    "triton": ["src/dynpart/*/_triton_*.py"],
}
collect_ignore_glob = [
    pattern for extra, patterns in NEEDS.items() if find_spec(extra) is None for pattern in patterns
]
