"""What assistant messages ask for, read the same way by every environment. Standard library only."""
