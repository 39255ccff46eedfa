"""Makes Python on Linux look like Python on macOS to whatever is imported afterwards, in child processes too.

`sys.platform` and `platform` say macOS, and what the standard library and the file system have on Linux alone is gone.
Compiled packages look at the platform to find their own libraries, so those named in ELSEWHERE_LOADED are imported
before the change, if they are installed.
"""

import builtins
import contextlib
import fcntl
import importlib
import io
import os
import platform
import resource
import select
import signal
import socket
import sys
import sysconfig
import types
from typing import Any

# Compared with the documentation of Python's modules ("Availability: Linux").
LINUX_ONLY = {
    os: (
        "sched_getaffinity sched_setaffinity memfd_create pidfd_open eventfd setns unshare splice copy_file_range "
        "posix_fadvise posix_fallocate getrandom prlimit inotify_init setresuid getresuid pipe2 getxattr setxattr "
        "O_PATH O_DIRECT accept4 sched_param sched_setscheduler fdatasync"
    ),
    select: "epoll",
    signal: "pidfd_send_signal sigtimedwait sigwaitinfo SIGRTMIN SIGRTMAX SIGPOLL SIGPWR SIGSTKFLT",
    socket: "SO_MARK TCP_CONGESTION TCP_INFO SOCK_CLOEXEC SOCK_NONBLOCK AF_NETLINK AF_PACKET AF_VSOCK SO_BINDTODEVICE",
    resource: "prlimit RLIMIT_MSGQUEUE RLIMIT_NICE RLIMIT_RTPRIO RLIMIT_RTTIME RLIMIT_SIGPENDING",
    fcntl: "F_ADD_SEALS F_GET_SEALS F_SETPIPE_SZ F_GETPIPE_SZ F_OFD_SETLK F_NOTIFY",
}
LINUX_PATHS = ("/proc", "/sys", "/dev/net")


def absent(path: Any) -> bool:
    """Returns whether only Linux has the path."""
    text = os.fsdecode(path) if isinstance(path, (str, bytes, os.PathLike)) else ""
    return any(text == one or text.startswith(f"{one}/") for one in LINUX_PATHS)


def hiding(function: Any) -> Any:
    """Returns the function of a path, to which what only Linux has does not exist."""

    def hidden(path: Any, *args: Any, **kwargs: Any) -> Any:
        if absent(path):
            raise FileNotFoundError(2, "No such file or directory", path)
        return function(path, *args, **kwargs)

    return hidden


def become_macos() -> None:
    """Changes this process."""
    for module in filter(None, os.environ.get("ELSEWHERE_LOADED", "").split()):
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    # Where Python's own build settings are; the name has the platform in it.
    os.environ["_PYTHON_SYSCONFIGDATA_NAME"] = sysconfig._get_sysconfigdata_name()
    for module, names in LINUX_ONLY.items():
        for name in names.split():
            module.__dict__.pop(name, None)
    # What macOS alone has, as urllib finds the system's proxies with it.
    sys.modules["_scproxy"] = proxies = types.ModuleType("_scproxy")
    proxies._get_proxy_settings = proxies._get_proxies = dict
    for name in ("stat", "lstat", "open", "listdir", "scandir", "readlink"):
        setattr(os, name, hiding(getattr(os, name)))
    builtins.open = io.open = hiding(io.open)
    access = os.access
    os.access = lambda path, *args, **kwargs: not absent(path) and access(path, *args, **kwargs)
    sys.platform = "darwin"
    platform.system = lambda: "Darwin"
    platform.release = lambda: "24.6.0"
    platform.machine = lambda: "arm64"


become_macos()
