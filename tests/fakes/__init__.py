"""Stand-ins for parts of the product and for the services it talks to.

A fake keeps the protocol of the part that it replaces, in memory and in the test's own process: it starts no
process and imports nothing from ``tests.harness``.
"""
