"""CURVE keys in files: made here, read here, refused where others could read them too."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec
import zmq

KEY_LETTERS = 40
"""Length of a key in Z85, RFC 32 of ZeroMQ."""
_Z85 = r"^[0-9A-Za-z.:+=^!/*?&<>()\[\]{}@%$#-]+\Z"
PublicKey = Annotated[str, msgspec.Meta(min_length=KEY_LETTERS, max_length=KEY_LETTERS, pattern=_Z85)]
"""Z85: printable ASCII without quotes and backslashes, so that it can stand in TOML and in a shell's single quotes."""


class KeyFileError(OSError):
    """A key that cannot be used; the text says why and what to do."""


class KeyPair(msgspec.Struct, frozen=True):
    """A secret key with its public one."""

    public: PublicKey
    secret: PublicKey


def new_key(path: Path) -> KeyPair:
    """Make a key pair in a file that its owner alone can read; the file is there whole or not at all.

    Raises:
        KeyFileError: there is a file already, or it cannot be written.
    """
    pair = _draw()
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(f'public = "{pair.public}"\nsecret = "{pair.secret}"\n')
            file.flush()
            os.fsync(file.fileno())
        os.link(fresh, path)  # unlike a rename it fails where there is a file
    except FileExistsError:
        raise KeyFileError(f"{path}: there is a key already: remove it first if those who trust it may go") from None
    except OSError as error:
        raise KeyFileError(f"{path}: cannot write a key here: {error.strerror}") from None
    finally:
        with suppress(OSError):
            fresh.unlink()
    return pair


def read_key(path: Path) -> KeyPair:
    """Read a key pair.

    Raises:
        KeyFileError: no such file, others may read it, or it does not hold a key pair.
    """
    try:
        status = path.stat()
        if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            mode = stat.S_IMODE(status.st_mode)
            raise KeyFileError(
                f"{path}: mode {mode:04o} lets others read the secret: chmod 600 {path}, or make a new key"
            )
        pair = msgspec.toml.decode(path.read_bytes(), type=KeyPair)
        if zmq.curve_public(pair.secret.encode()).decode() != pair.public:
            raise KeyFileError(f"{path}: public and secret do not belong together: make a new key")
    except KeyFileError:
        raise
    except OSError as error:
        raise KeyFileError(f"{path}: cannot read a key here: {error.strerror}") from None
    except zmq.ZMQError:
        raise KeyFileError(f"{path}: secret is not a CURVE key: make a new key") from None
    except (ValueError, msgspec.MsgspecError) as error:
        raise KeyFileError(f"{path}: expected `public` and `secret`, 40 letters each: {error}") from None
    return pair


def read_or_make_key(path: Path) -> KeyPair:
    """Read the key pair of a device, made at its first start.

    Raises:
        KeyFileError: as of :func:`read_key` and :func:`new_key`.
    """
    return read_key(path) if path.exists() else new_key(path)


def _draw() -> KeyPair:
    """A new pair whose public key no command line takes for an option, as it would one in 85."""
    while True:
        public, secret = (part.decode() for part in zmq.curve_keypair())
        if not public.startswith("-"):
            return KeyPair(public, secret)
