"""The cluster role: its watches, its books and what it answers."""
