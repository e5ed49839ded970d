"""On what kind of file system a path lies: SQLite's write-ahead log needs one that a single host has for itself."""

from __future__ import annotations

import re
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_NETWORK = re.compile(
    r"nfs\d?|cifs|smb\w*|afs|9p|ceph|glusterfs|lustre|gpfs|beegfs|ocfs2|gfs2|orangefs|fuse\.(sshfs|s3fs|glusterfs|ceph.*)"
)


def network_file_system(path: Path, mounts: str | None = None) -> str:
    """Give the kind of the network file system (such as `nfs4`) that holds the path; empty for a disk of this host.

    The path need not exist. `mounts` is text as in `/proc/self/mountinfo`, by default this system's; where there is
    none, every disk counts as this host's.
    """
    if mounts is None:
        try:
            mounts = _MOUNTS.read_text()
        except OSError:
            return ""
    path = path.resolve()
    best, kind = -1, ""
    for line in mounts.splitlines():
        fields, _, rest = line.partition(" - ")
        point = Path(_unescaped(fields.split(" ")[4]))
        # Of two mounts on one point the later one counts.
        if path.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), rest.split(" ")[0]
    return kind if _NETWORK.fullmatch(kind) else ""


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
