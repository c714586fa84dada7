"""Recipes: TOML files that name a method, a stream and a run, and what reads them."""
