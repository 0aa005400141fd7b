"""Helpers that start and drive real parts: boxes, services, engines, databases, ranks; and inputs for them.

What replaces a part belongs in ``tests.fakes``; a helper that only one test file uses belongs in that file.
"""
