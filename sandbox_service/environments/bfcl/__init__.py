"""BFCL: function calls over many turns, and single ones, graded by the official checkers."""
