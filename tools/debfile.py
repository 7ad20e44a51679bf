# SPDX-License-Identifier: Apache-2.0
"""Reads single files of Debian packages, installed or not: a test that needs one file of a large
package needs not install it. For the tools beside it; standard library only."""
import io
import subprocess
import tarfile
import tempfile
from pathlib import Path

MEMBER_HEAD = 60
EXIT_MISSING = 4  # of the tools: a package is neither there nor to be had


class Missing(Exception):
    """A package that is neither installed nor to be had."""


def members(deb):
    """The (name, content) pairs of an ar archive, which a package is."""
    data = Path(deb).read_bytes()
    if data[:8] != b"!<arch>\n":
        raise OSError("%s: is no Debian package" % deb)
    at = 8
    while at + MEMBER_HEAD <= len(data):
        head = data[at:at + MEMBER_HEAD]
        size = int(head[48:58])
        at += MEMBER_HEAD
        if at + size > len(data):
            raise OSError("%s: cut off" % deb)
        yield head[:16].decode("ascii").strip().rstrip("/"), data[at:at + size]
        at += size + size % 2


def read_deb(deb, path):
    """The content of the file `path` (absolute) in a package's file."""
    for name, content in members(deb):
        if not name.startswith("data.tar"):
            continue
        try:
            with tarfile.open(fileobj=io.BytesIO(content), mode="r:*") as tar:
                return tar.extractfile("." + path).read()
        except KeyError:
            break
        except tarfile.ReadError as e:
            raise OSError("%s: its %s cannot be read: %s" % (deb, name, e)) from e
    raise OSError("%s: has no file %s" % (deb, path))


def read_packaged(package, path, source=None):
    """The content of `path` of a package: from `source`, the file itself or a .deb, if given;
    as it is installed; or from the package, which apt-get downloads but does not install."""
    if source:
        return read_deb(source, path) if source.endswith(".deb") else Path(source).read_bytes()
    if Path(path).exists():
        return Path(path).read_bytes()
    with tempfile.TemporaryDirectory(prefix="longhaul-") as folder:
        try:
            subprocess.run(["apt-get", "-q", "download", package], cwd=folder, check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        except FileNotFoundError:
            raise Missing("%s is not there, nor apt-get to download Debian's %s" %
                          (path, package)) from None
        except subprocess.CalledProcessError as e:
            raise Missing("apt-get download %s: %s" %
                          (package, e.stderr.decode(errors="replace").strip())) from e
        return read_deb(next(Path(folder).glob("*.deb")), path)
