"""BabyAI: carry out an instruction in a world of rooms, seen and acted in by words."""
