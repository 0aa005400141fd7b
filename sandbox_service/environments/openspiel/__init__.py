"""Games of OpenSpiel for two players, against the library's opponents or a second model."""
