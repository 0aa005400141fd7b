"""Log-probabilities that a teacher on a server gives the tokens of episodes as they are played."""
