"""`ictrl serve`: a learner as an HTTP service."""

import os
import secrets
import signal
from dataclasses import dataclass, field
from typing import Annotated

import tyro

from ictrl.cli.options import Device, Flag, Learned
from ictrl.cli.output import class_list, counted, open_console
from ictrl.cli.terminal import tell
from ictrl.errors import InputError
from ictrl.methods.storage import ALL
from ictrl.serve.bounds import Limits

TOKEN = "ICTRL_TOKEN"
INTERRUPTED = 130
SERVE_HELP = """Serve a learner over HTTP, with a page to look at it: predict, teach, forget, go back.

The page lies at the address that is printed. Programs ask the same address; /openapi.json describes all of it:

  curl -F picture=@cat.jpg http://127.0.0.1:8642/predict
  curl -F hedgehog=@1.jpg -F hedgehog=@2.jpg … http://127.0.0.1:8642/teach

Predictions go on while a class is taught. When it is done, the learner is replaced in one step, as `ictrl teach` does
it: after Ctrl-C, a crash or an error it is as it was. The last versions are kept beside it, to go back to. Meanwhile
`ictrl teach` and `ictrl forget` may be used on the same learner: the service takes up what they write. No picture is
ever written to disk, logged or kept.

Only this machine can reach it, unless --host names another address. Then a token is needed: the one of --token or of
the environment variable ICTRL_TOKEN; otherwise one is made and printed once.

Ctrl-C or SIGTERM stops it: what is being answered is answered, what is being taught is cancelled.

Examples:
  ictrl serve runs/mine
  ictrl serve learner.safetensors --port 9000 --read-only
  ICTRL_TOKEN=… ictrl serve runs/mine --host 0.0.0.0 --public-name pictures.example.org
"""
MISSING = "Expected the extra packages of the service but {name} is not installed: pip install 'ictrl[serve]'."


@dataclass(frozen=True)
class ServeCommand:
    """A learner as a service."""

    learner: Learned
    host: str = "127.0.0.1"
    """address to listen at; other than this machine's own, such as 0.0.0.0, it needs a token"""
    port: int = 8642
    """port to listen at; 0 takes any that is free"""
    token: Annotated[str | None, tyro.conf.DisallowNone, tyro.conf.arg(help_behavior_hint="")] = None
    """what a request must bring as `Authorization: Bearer TOKEN`; others can see it in the list of processes, unlike
    that of the environment variable ICTRL_TOKEN"""
    public_name: tuple[str, ...] = ()
    """names that the server is called by from elsewhere, such as that of a proxy before it; they need a token"""
    read_only: Flag = False
    """refuse to teach, to forget and to go back"""
    versions: int = 5
    """versions of the learner to keep beside it, the current one included"""
    threads: int = 0
    """threads that PyTorch computes with; 0: as many as there are cores"""
    max_connections: int = 1024
    """connections that may be open at once"""
    limits: Annotated[Limits, tyro.conf.arg(name="")] = field(default_factory=Limits)
    device: Device = "auto"

    def execute(self) -> None:
        try:
            from ictrl.serve.access import LOOPBACK, is_loopback
            from ictrl.serve.app import Service
            from ictrl.serve.running import bound, serve
        except ModuleNotFoundError as error:
            package = (error.name or "ictrl").partition(".")[0]
            if package == "ictrl":
                raise
            raise InputError(MISSING.format(name=package)) from None
        from ictrl.serve.host import LearnerHost

        self._check()
        local = is_loopback(self.host)
        token, made = self._token(local)
        self._use_threads()
        with bound(self.host, self.port) as listening:
            host = LearnerHost(self.learner, self.device, self.versions, self.read_only)
            for warning in host.warnings:
                tell(f"warning: {warning}")
            names = (*LOOPBACK, *self.public_name)
            service = Service(host, self.limits, token, names, any_name=not local and not self.public_name)
            address = f"http://{_shown(self.host)}:{listening.getsockname()[1]}/"

            def ready() -> None:
                self._print_begin(host, address, token if made else None)

            stopped_by = serve(service, listening, ready, self.max_connections)
        line = f"Stopped. The learner is version {host.now.version}."
        if (
            service.core.teacher.teaching
        ):  # its epoch takes long; what it does is lost, and a thread at work cannot be ended
            tell(line)
            os._exit(INTERRUPTED if stopped_by == signal.SIGINT else 0)
        if stopped_by == signal.SIGINT:
            raise KeyboardInterrupt(line)

    def _check(self) -> None:
        if not 0 <= self.port < 2**16:
            raise InputError(f"Expected --port from 0 to 65535 but got {self.port}.")
        for option, value, least in (
            ("versions", self.versions, 1),
            ("threads", self.threads, 0),
            ("max-connections", self.max_connections, 1),
        ):
            if value < least:
                raise InputError(f"Expected --{option} of at least {least} but got {value}.")

    def _token(self, local: bool) -> tuple[str | None, bool]:
        """The token that requests need, if they need one, and whether it was made here."""
        from ictrl.serve.access import check_token

        given = self.token if self.token is not None else os.environ.get(TOKEN)
        if given is not None:
            check_token(given)
            return given, False
        return (None, False) if local and not self.public_name else (secrets.token_urlsafe(24), True)

    def _use_threads(self) -> None:
        import torch

        if self.threads:
            torch.set_num_threads(self.threads)

    def _print_begin(self, host: "LearnerHost", address: str, made: str | None) -> None:  # type: ignore[name-defined]
        console, now = open_console(), host.now
        method, classes = now.learner.recipe.method.name, counted(len(now.names), "class", "classes")
        console.print(f"Serving {self.learner}: {method}, {classes}, version {now.version}", soft_wrap=True)
        console.print(f"  {class_list(list(now.names), now.names)}", soft_wrap=True)
        if host.writes:
            console.print(f"Taught, it is written to {host.target}; {self.versions} versions are kept in "
                          f"{host.versions.folder}", soft_wrap=True)  # fmt: skip
        elif now.learner.parts != ALL:
            console.print(
                "It can predict and not be taught: its file was saved with inference_only=True", soft_wrap=True
            )
        else:
            console.print("It can not be changed here: --read-only", soft_wrap=True)
        if made is not None:
            console.print(f"Token, printed this once: {made}", soft_wrap=True)
        console.print(f"Open {address}{'' if made is None else f'#token={made}'} (Ctrl-C stops it)", soft_wrap=True)


def _shown(host: str) -> str:
    return f"[{host.strip('[]')}]" if ":" in host else host
