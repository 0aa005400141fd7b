"""ALFWorld: household chores in text, on the planning model of ALFRED."""
