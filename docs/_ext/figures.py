"""Gallery pictures of figures made without pyplot: whatever `Figure` an example has bound."""

from pathlib import Path
from weakref import WeakSet

from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst

_drawn: WeakSet[Figure] = WeakSet()


def bound_figures(block: tuple, block_vars: dict, gallery_conf: dict) -> str:
    """Save every figure that a block has bound to a name, and return the pictures' markup."""
    paths = []
    for value in block_vars["example_globals"].values():
        if isinstance(value, Figure) and value not in _drawn:
            _drawn.add(value)
            path = next(block_vars["image_path_iterator"])
            value.savefig(path, dpi=gallery_conf.get("figure_dpi", 120))
            paths.append(str(Path(path)))
    return figure_rst(paths, gallery_conf["src_dir"])


def _get_sg_image_scraper():  # the name that sphinx-gallery asks for
    return bound_figures
