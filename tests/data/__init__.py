"""Tests of the data room; a package, so that its conftest and the one above it can be told apart."""
