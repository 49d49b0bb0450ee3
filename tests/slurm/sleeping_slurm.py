"""A private Slurm whose fake nodes sleep and boot: Slurm's own power saving, with programs of the tests'.

A node that boots is a slurmd that starts `boot_s` later; one named in the folder `broken` never does.
"""

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from tests.slurm.private_slurm import Node, Partition, PrivateSlurm, short_folder

RESUME = """#!/bin/sh
for node in $(scontrol show hostnames "$1"); do
    echo "resume $node" >> {folder}/power.log
    [ -e {folder}/broken/$node ] && continue
    setsid sh -c "sleep $(cat {folder}/boot_s); exec slurmd -D -b -N $node -f {folder}/etc/slurm.conf" \\
        >> {folder}/log/boot.$node.log 2>&1 < /dev/null &
done
"""
SUSPEND = """#!/bin/sh
for node in $(scontrol show hostnames "$1"); do
    echo "suspend $node" >> {folder}/power.log
    kill -9 $(cat {folder}/run/slurmd.$node.pid)
done
"""
BOOT_LIMIT_S = 8


@dataclass
class SleepingSlurm:
    """`slurm` with nodes that sleep."""

    slurm: PrivateSlurm

    def boot_in(self, seconds: float) -> None:
        """Let boots take so long from now on."""
        (self.slurm.folder / "boot_s").write_text(f"{seconds}\n")

    def break_node(self, name: str) -> None:
        """Let a node never boot."""
        (self.slurm.folder / "broken" / name).touch()

    def powers(self) -> dict[str, str]:
        """The states of all nodes, with all flags."""
        lines = self.slurm.run("sinfo", "-N", "--noheader", "--Format=NodeList:0|,StateComplete:0").split()
        return dict(line.split("|") for line in lines)

    def asleep(self) -> set[str]:
        """The nodes that sleep or fall asleep."""
        return {name for name, state in self.powers().items() if "+power" in state and "ing_up" not in state}

    def asked(self) -> list[str]:
        """What Slurm has asked its programs for."""
        with suppress(FileNotFoundError):
            return (self.slurm.folder / "power.log").read_text().splitlines()
        return []

    def mend(self) -> None:
        """Wake all nodes, whatever became of them, and forget what the programs were asked for."""
        self.boot_in(0.2)
        for broken in (self.slurm.folder / "broken").iterdir():
            broken.unlink()
        for line in self.slurm.run("scontrol", "--oneliner", "show", "reservation").splitlines():
            if line.startswith("ReservationName="):
                self.slurm.run("scontrol", "delete", line.split()[0])
        self.slurm.wait_for(self._woken, f"all nodes are awake: {self.powers()}")
        (self.slurm.folder / "power.log").unlink(missing_ok=True)

    def _woken(self) -> bool:
        powers = self.powers()
        for name, state in powers.items():
            words = ["RESUME"] if "drain" in state else []
            words += ["POWER_UP"] if "powered_down" in state and "power_up" not in state else []
            for word in words:
                with suppress(subprocess.CalledProcessError):
                    self.slurm.run("scontrol", "update", f"NodeName={name}", f"State={word}")
        return set(powers.values()) == {"idle"}


@contextmanager
def sleeping_slurm(
    nodes: Sequence[Node], partitions: Sequence[Partition], **settings: str
) -> Iterator[SleepingSlurm]:
    """Run a cluster whose site has configured power saving and lets no node sleep by itself."""
    folder = short_folder()
    try:
        for name in ("bin", "broken"):
            (folder / name).mkdir()
        for name, text in (("resume", RESUME), ("suspend", SUSPEND)):
            program = folder / "bin" / name
            program.write_text(text.format(folder=folder))
            program.chmod(0o755)
        power = {
            "SuspendProgram": f"{folder}/bin/suspend",
            "ResumeProgram": f"{folder}/bin/resume",
            "SuspendTime": "31536000",
            "SuspendTimeout": "1",
            "ResumeTimeout": str(BOOT_LIMIT_S),
            "MessageTimeout": "2",
        }
        with PrivateSlurm(folder, nodes, partitions, settings=power | settings) as slurm:
            sleeping = SleepingSlurm(slurm)
            sleeping.boot_in(0.2)
            yield sleeping
    finally:
        shutil.rmtree(folder)
