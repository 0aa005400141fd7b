"""AgentEvol: a model improves by iterations of exploring, selecting, training, evaluating and deciding."""
