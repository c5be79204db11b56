"""The node role: its loop, its books and what it answers."""
