"""Empty modules in place of packages that draw, which the generators' packages import and never use here."""

from __future__ import annotations

from pathlib import Path

_MODULES = {
    "matplotlib/__init__.py": "",
    "matplotlib/animation.py": "",
    "matplotlib/collections.py": "",
    "matplotlib/pyplot.py": "",
    "mpl_toolkits/__init__.py": "",
    "mpl_toolkits/mplot3d.py": "Axes3D = None\n",
    "rich/__init__.py": "print = print\n",
    "rich/panel.py": "Panel = None\n",
    "rich/table.py": "Table = None\n",
    "rich/text.py": "Text = None\n",
    "drawsvg/__init__.py": "Drawing = None\n",
}


def do_without_drawing(packages: Path) -> None:
    """Write the modules, where the real packages are not installed."""
    present = {name.partition("/")[0] for name in _MODULES if (packages / name).is_file()}
    for name, text in _MODULES.items():
        if name.partition("/")[0] not in present:
            path = packages / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(f'"""Stands in for a package that draws."""\n\n{text}', encoding="utf-8")
