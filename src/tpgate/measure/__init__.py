"""From request records to metrics and validity."""
