"""Learners: the protocol that a method keeps, and one method per file."""
