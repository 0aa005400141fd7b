"""TextCraft: make an item of Minecraft by its real recipes, in text."""
