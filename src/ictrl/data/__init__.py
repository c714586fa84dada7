"""Images, labels, and the tasks in which classes arrive."""

from ictrl.data.dataset import Dataset
from ictrl.data.download import download
from ictrl.data.layout import Layout, Source, cache_folder
from ictrl.data.pictures import decode_picture, read_picture
from ictrl.data.registry import Listing, dataset_names, list_datasets, load_dataset, locate, register_dataset
from ictrl.data.streams import Task, TaskSummary, choose, describe_stream, split_tasks, tasks_from_arrays

__all__ = [
    "Dataset",
    "load_dataset",
    "register_dataset",
    "Layout",
    "Source",
    "locate",
    "dataset_names",
    "Listing",
    "list_datasets",
    "cache_folder",
    "download",
    "read_picture",
    "decode_picture",
    "Task",
    "split_tasks",
    "tasks_from_arrays",
    "choose",
    "TaskSummary",
    "describe_stream",
]
