"""How a task is learned: images, augmentation, steps, epochs."""
