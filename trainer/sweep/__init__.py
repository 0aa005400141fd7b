"""Train the same run with several values of some settings, by Ray Tune; each trial is an ordinary run."""
