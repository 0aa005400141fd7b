"""Find what is wrong with a run from its metrics, evaluations and episodes; each rule is a pure function."""
