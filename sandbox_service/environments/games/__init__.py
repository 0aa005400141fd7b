"""What text games share: one action in text, one observation in text. In every box; standard library only.

``world.GameWorld`` is the base of their worlds, ``catalog.GameCatalog`` of their catalogs.
"""
