"""Outcomes of episodes by the run's reward function or a judge, in place of the environment's grade."""
