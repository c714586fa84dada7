"""A Ray cluster to put runs on: one that is there, or one of this machine alone, started for the occasion.

What each run takes of it (CPUs, GPUs) is decided here, and refused in a line where no machine has as much. Ray says a
great deal that nobody asked; here it is kept quiet, and its usage reports are off.
"""

import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import floor
from pathlib import Path
from typing import Any

from ictrl.errors import InputError
from ictrl.experiment.scratch import remove_abandoned, scratch_folder

INSTALL = "pip install 'ictrl[ray]'"
PATIENCE = 5  # seconds for a cluster's address to answer
CLIENT = "ray://"
STORE = 512 * 2**20  # bytes of shared memory for files on their way, in a cluster of this machine alone


@dataclass(frozen=True)
class Cluster:
    """A cluster that is connected, and what each run takes of it."""

    cpus: float
    gpus: float
    started: bool
    """for this command, on this machine alone"""

    @property
    def slots(self) -> int:
        """Runs that it can do at once, if nobody else uses it."""
        return sum(_fitting(node, self.cpus, self.gpus) for node in _nodes())

    def described(self) -> str:
        """In a line."""
        machines = len(_nodes())
        where = "this machine" if self.started else f"{machines} machine{'s' * (machines != 1)}"
        gpus = f" and {self.gpus:g} GPU{'s' * (self.gpus != 1)}" if self.gpus else ""
        return f"Ray on {where}: up to {self.slots} at once, each with {self.cpus:g} CPU{'s' * (self.cpus != 1)}{gpus}."


def ray_module() -> Any:
    """Ray, if it is installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise InputError(f"Expected Ray for --on ray but it cannot be imported ({error}): {INSTALL}.") from None
    return ray


@contextmanager
def connected(address: str | None, cpus: float, gpus: float | None, devices: set[str]) -> Iterator[Cluster]:
    """The cluster at an address, or at RAY_ADDRESS, or one that runs on this machine, or one that is started on it.

    `gpus` of None is one per run where the cluster has some and any of the runs' devices may be one.
    """
    ray = ray_module()
    _check(cpus, gpus, devices)
    address = address or os.environ.get("RAY_ADDRESS") or None
    with scratch_folder() as folder, _own_token():
        started = _connect(ray, address, folder)
        try:
            _quiet()
            wanted = gpus if gpus is not None else _usual_gpus(devices)
            cluster = Cluster(cpus, wanted, started)
            _check_room(cluster)
            yield cluster
        finally:
            with _less_said():
                ray.shutdown()
            remove_abandoned()  # of seats that were killed


@contextmanager
def _own_token() -> Iterator[None]:
    """What Ray asks whoever joins a cluster that is started here: made for the occasion, and nowhere written down.

    Without it Ray makes one and leaves it in the user's home. Other clusters, and a choice of the user's own, are not
    touched by it.
    """
    before = {name: os.environ.get(name) for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN")}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _check(cpus: float, gpus: float | None, devices: set[str]) -> None:
    if not 0 < cpus < 10**6 or (cpus > 1 and cpus != floor(cpus)):
        raise InputError(f"Expected --cpus to be a whole number, or a share above 0, but got {cpus:g}.")
    if gpus is not None and (not 0 <= gpus < 10**6 or (gpus > 1 and gpus != floor(gpus))):
        raise InputError(f"Expected --gpus to be a whole number or a share from 0 to 1 but got {gpus:g}.")
    if numbered := sorted(device for device in devices if ":" in device):
        raise InputError(
            f"Expected cpu, cuda or auto as --device on Ray, which gives each run its GPUs, but got {numbered[0]}."
        )
    if gpus and devices == {"cpu"}:
        raise InputError(f"Expected --gpus 0 for runs on the CPU but got {gpus:g}: leave out --device cpu, or --gpus.")


def _connect(ray: Any, address: str | None, folder: Path) -> bool:
    """Whether a cluster was started here, because none is there."""
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "namespace": "ictrl"}
    if address not in (None, "local", "auto"):
        _check_answers(str(address))
        try:
            with _less_said():
                ray.init(address=address, **quiet)
        except Exception as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise InputError(
                f"Expected a Ray cluster at {address} but could not join it ({reason[:500]}): check that it "
                "has the same versions of Ray and Python and, where it asks for a token, set RAY_AUTH_MODE=token."
            ) from None
        return False
    if address != "local":
        try:
            with _less_said():
                ray.init(address="auto", **quiet)
            return False
        except Exception as error:
            if address == "auto":
                raise InputError(
                    "Expected a Ray cluster on this machine but none is running: `ray start --head` starts one, and "
                    "without an address one is started for this command."
                ) from error
    if not any(name in os.environ for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")):
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    try:
        with _less_said():
            ray.init(
                address="local",
                include_dashboard=False,
                object_store_memory=STORE,
                _temp_dir=str(folder),
                **quiet,
            )
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"Expected to start Ray on this machine but could not: {reason[:500]}") from None
    return True


def _check_answers(address: str) -> None:
    """Ray itself waits for minutes where nobody answers."""
    host, colon, port = address.removeprefix(CLIENT).rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise InputError(
            f"Expected the address of a Ray cluster as HOST:PORT or ray://HOST:PORT, such as 10.0.0.1:6379, but got "
            f"{address!r}."
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE).close()
    except OSError as error:
        raise InputError(
            f"Expected a Ray cluster at {address} but nobody answers there ({error.strerror or error}): "
            "`ray start --head` on a machine prints its address."
        ) from None


def _check_room(cluster: Cluster) -> None:
    """Whether any machine has what a run is to take: a run that none can hold would wait for ever."""
    if cluster.slots:
        return
    nodes = _nodes()
    most = ", ".join(
        f"{max((node.get(kind, 0.0) for node in nodes), default=0.0):g} {kind}s" for kind in ("CPU", "GPU")
    )
    raise InputError(
        f"Expected a machine with {cluster.cpus:g} CPUs and {cluster.gpus:g} GPUs for a run but those of the cluster "
        f"have {most} at most: lower --cpus or --gpus, or let such a machine join."
    )


def _usual_gpus(devices: set[str]) -> float:
    return 1.0 if devices != {"cpu"} and any(node.get("GPU", 0.0) >= 1 for node in _nodes()) else 0.0


def _nodes() -> list[dict[str, float]]:
    """What each machine of the cluster has."""
    return [node["Resources"] for node in ray_module().nodes() if node["Alive"]]


def _fitting(node: dict[str, float], cpus: float, gpus: float) -> int:
    by_gpus = [floor(node.get("GPU", 0.0) / gpus + 1e-6)] if gpus else []
    return min(floor(node.get("CPU", 0.0) / cpus + 1e-6), *by_gpus, 10**6)


def _quiet() -> None:
    """What a worker's death means is said once, by us."""
    with suppress(Exception):  # of Ray's insides, which may have moved: then it says more, and nothing else changes
        from ray._private import worker

        vars(worker)["_worker_logs_enabled"] = False


@contextmanager
def _less_said() -> Iterator[None]:
    """Without what Ray's own parts write to stderr as they begin and end."""
    import logging
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.getLogger("ray").setLevel(logging.ERROR)
        yield
