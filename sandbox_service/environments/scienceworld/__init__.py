"""ScienceWorld: thirty kinds of science experiments for primary school, in a simulated house."""
