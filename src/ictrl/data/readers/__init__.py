"""One file per kind of data set."""
