"""Images, labels, and the tasks in which classes arrive."""

from ictrl.data.datasets import Dataset, load_dataset
from ictrl.data.streams import Task, split_tasks

__all__ = ["Dataset", "Task", "load_dataset", "split_tasks"]
