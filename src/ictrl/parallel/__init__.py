"""Several processes that learn as one, each with a share of every batch."""
