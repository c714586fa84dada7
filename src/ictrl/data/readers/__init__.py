"""Readers of datasets, one file per format.

To add a dataset, add a file with a function of the stream's settings that returns a `Dataset`, decorated with
`register_dataset`. Every file in this folder is imported when a dataset is first asked for; nothing lists them. What is
slow to import is imported inside the function.
"""
