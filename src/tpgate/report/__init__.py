"""What people and other tools read."""
