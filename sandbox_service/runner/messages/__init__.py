"""The messages that the processes of a box send each other, one module for each pair of processes.

A message is a frozen dataclass with a ``kind``. Each receiving end has a codec with the kinds that may arrive
there; any other is refused.
"""
