"""A real Slurm on one machine: a controller and several nodes, each a host of a netlab.

    with Cluster(nodes=4, cpus=2) as cluster:
        cluster.shell(["sbatch", "script.sbatch"])

The controller runs on the lab's switch, one slurmd on each host, so a node has its own name, address and
shared memory. Every daemon lives inside the lab and ends with it. Needs root and Debian's Slurm (PACKAGES).
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from benchmarks.netlab.lab import SWITCH, Lab, LabError  # noqa: E402

PACKAGES = {
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sbatch": "slurm-client",
    "munged": "munge",
    "ip": "iproute2",
}
PMIX = Path("/usr/lib/x86_64-linux-gnu/pmix2/lib/libpmix.so")  # where Debian's srun --mpi=pmix looks for it
NAME = "mpicomp-slurm"

CONFIG = """\
ClusterName={name}
SlurmctldHost={switch}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
TmpFS={folder}/tmp-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
MailProg=/bin/true
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
SchedulerParameters=batch_sched_delay=0,sched_interval=1
KillWait=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=h[1-{nodes}] CPUs={cpus} State=UNKNOWN
PartitionName=normal Nodes=ALL PriorityTier=1 Default=YES MaxTime=INFINITE State=UP
PartitionName=urgent Nodes=ALL PriorityTier=2 MaxTime=INFINITE State=UP
"""
# config_overrides: a node may claim more CPUs than this machine has.
# cred_expire: a job that is queued again may start after that many seconds; the default is two minutes.
# urgent: its jobs push those of normal back into the queue.


class Unavailable(LabError):
    """There is no Slurm for tests here, and no way to get one."""


class Cluster(Lab):
    """Nodes h1, h2, ... under one controller; see the module."""

    def __init__(self, nodes: int = 4, cpus: int = 2, keep: bool = False, name: str = NAME):
        super().__init__(hosts=nodes, name=name, keep=keep)
        self.cpus = cpus

    @property
    def slurm(self) -> Path:
        return self.folder / "slurm"

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "SLURM_CONF": str(self.slurm / "slurm.conf")}

    def up(self) -> Cluster:
        super().up()
        try:
            self._configure()
            self._start()
        except BaseException:
            self.down()
            raise
        return self

    def _configure(self) -> None:
        self.slurm.mkdir(mode=0o755)
        for kind in ("spool", "tmp"):
            for host in self.hosts:
                (self.slurm / f"{kind}-{host}").mkdir()
        (self.slurm / "state").mkdir()
        key = self.slurm / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(1024))
        config = CONFIG.format(name=NAME, switch=SWITCH, folder=self.slurm, nodes=len(self.hosts), cpus=self.cpus)
        (self.slurm / "slurm.conf").write_text(config)

    def _start(self) -> None:
        munge = {
            "socket": "socket",
            "key-file": "key",
            "pid-file": "pid",
            "log-file": "log",
            "seed-file": "seed",
        }
        files = [f"--{option}={self.slurm}/munge.{suffix}" for option, suffix in munge.items()]
        self._daemon(SWITCH, "munged", "--force", *files)
        self._daemon(SWITCH, "slurmctld")
        for host in self.hosts:
            self._daemon(host, "slurmd", "-N", host)
        stop = time.monotonic() + 30
        while self._idle() < len(self.hosts):
            if time.monotonic() > stop:
                raise LabError("the nodes did not come up:\n" + self._logs())
            time.sleep(0.1)

    def _daemon(self, host: str, *command: str) -> None:
        """Start a program that puts itself into the background."""
        with (self.slurm / f"start-{command[0]}-{host}.log").open("w") as log:
            options = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            if self.shell(host, command, timeout=30, **options).returncode:
                raise LabError(f"{command[0]} on {host} did not start:\n" + self._logs())

    def _idle(self) -> int:
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        states = self.shell(SWITCH, ["sinfo", "-h", "-p", "normal", "-N", "-o", "%T"], **options).stdout
        return states.split().count("idle")  # a node that is not there yet is "idle*" or "unknown*"

    def _logs(self) -> str:
        tails = (f"== {log.name}\n{log.read_text()[-2000:]}" for log in sorted(self.slurm.glob("*.log")))
        return "\n".join(tails)


def install_packages() -> None:
    """Install Debian's Slurm where it is missing, and make PMIx known to its srun."""
    if os.geteuid():
        raise Unavailable("a Slurm for tests needs root")
    missing = sorted({package for program, package in PACKAGES.items() if not shutil.which(program)})
    if not PMIX.with_name("libpmix.so.2").exists():
        missing.append("libpmix2")
    if missing:
        if not shutil.which("apt-get"):
            raise Unavailable(f"no apt-get to install {' '.join(missing)}; install Slurm's daemons and munge yourself")
        apt = ["apt-get", "-qq", "-o", "Dpkg::Use-Pty=0"]
        subprocess.run([*apt, "update"], check=True, stdout=subprocess.DEVNULL)
        line = [*apt, "install", "-y", "--no-install-recommends", *missing]
        env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(line, check=True, stdout=subprocess.DEVNULL, env=env)
    if not PMIX.exists() and PMIX.with_name("libpmix.so.2").exists():
        PMIX.symlink_to("libpmix.so.2")
