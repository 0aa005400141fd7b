"""TextWorld: parser games that are made at set-up, with objects, doors, recipes and coins."""
