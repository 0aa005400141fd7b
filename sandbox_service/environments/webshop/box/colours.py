"""The colours of WebShop's reward: an option that names one counts as that colour."""

from __future__ import annotations

_NAMES = (
    "alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy"
    " camel camo caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral"
    " cranberry cream crystal dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass"
    " gray green grey heather indigo ivory ivy khaki lavender lemon leopard light lilac lime magenta maroon"
    " mauve merlot midnight mint mocha multicolor mushroom mustard natural navy nude olive orange peach"
    " pewter pink plum purple rainbow red rose royal rust sand sapphire seashell silver skull slate steel"
    " stone stonewash sunflower tan taupe teal tiger turquoise violet walnut wheat white wine yellow"
)
COLOURS = tuple(_NAMES.split())
"""In the order in which they are looked for."""


def plain_colour(option: str) -> str:
    """Return the first colour, in the order of the list, that occurs in an option value; else the value."""
    return next((colour for colour in COLOURS if colour in option), option)
