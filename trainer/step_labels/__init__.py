"""Labels for the steps of recorded episodes: by continuations, by the outcome, or by a judge."""
