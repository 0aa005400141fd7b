"""What assistant messages ask for, read the same way by every environment. In every box; standard library only."""
