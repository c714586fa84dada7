"""The mathematics: pure functions of tensors. No network, no file, no setting."""
