"""Procedurally generated reasoning tasks of the package reasoning-gym, single-turn, with endless seeds."""
