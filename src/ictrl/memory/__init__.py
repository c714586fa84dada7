"""What is kept of a class, how it follows the encoder, and how it classifies."""
