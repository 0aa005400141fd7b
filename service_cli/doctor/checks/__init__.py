"""The checks: one file for each subject, one function for each check."""
