"""Starting, watching and ending a server."""
