"""Images, labels, and the tasks in which classes arrive."""

from ictrl.data.registry import Listing, list_datasets, load_dataset
from ictrl.data.dataset import Dataset
from ictrl.data.download import cache_folder, download
from ictrl.data.pictures import read_picture
from ictrl.data.streams import Task, TaskSummary, describe_stream, near, split_tasks

__all__ = [
    "Dataset",
    "load_dataset",
    "Listing",
    "list_datasets",
    "cache_folder",
    "download",
    "read_picture",
    "Task",
    "near",
    "split_tasks",
    "TaskSummary",
    "describe_stream",
]
