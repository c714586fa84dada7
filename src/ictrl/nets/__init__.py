"""Encoders and decoders, and their layers."""
