"""What a learner can draw, and how real it looks."""
