"""Telling disks of this host from shared ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.disks import network_file_system
from engine.paths import StatePaths

MOUNTS = """\
22 1 252:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
30 22 0:26 / /srv rw,relatime shared:4 master:1 - nfs4 files:/srv rw,vers=4.2
31 30 252:2 / /srv/own rw - xfs /dev/vdb rw
32 22 0:27 / /mnt/my\\040share rw - cifs //nas/share rw
33 22 0:28 / /media rw - fuse.sshfs me@host: rw
34 22 0:29 / /tmp rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/me/project/.git", ""),
        ("/srv/project/.git", "nfs4"),
        ("/srv", "nfs4"),
        ("/srv/own/project", ""),
        ("/srvother", ""),
        ("/mnt/my share/project", "cifs"),
        ("/media/x", "fuse.sshfs"),
        ("/tmp/x", ""),
    ],
)
def test_the_nearest_mount_tells(path: str, kind: str) -> None:
    assert network_file_system(Path(path), MOUNTS) == kind


def test_the_state_of_a_repository_on_a_share_lies_on_this_host(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path / "home")}

    def state(common: str) -> Path:
        return StatePaths.of(
            Path(common), environ, network=lambda path: network_file_system(path, MOUNTS)
        ).state

    assert state("/home/me/shop/.git") == Path("/home/me/shop/.git/taskyard")
    here = state("/srv/shop/.git")
    assert here.parent.parent == tmp_path / "home" / "taskyard"
    assert here.name == "state"
    assert state("/srv/shop/.git") == here != state("/srv/other/.git")
