"""A network of hosts on one machine.

Each host is a set of Linux namespaces (network, host name, mounts, shared memory), so that an MPI takes it
for a machine of its own. Every host hangs on one switch by a link whose rate, delay and loss can be set.

    with Lab(hosts=4, bandwidth="1Gbit", latency="0.1ms") as lab:
        lab.run(["python", "-m", "mpicomp", "bench", "allreduce"])
        lab.cut("h3")

Needs root. Setting up costs 0.2 s for four hosts. All hosts share the cores of this machine.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from . import launch, processes, units
from .tools import LabError, nfdelay, require

LABS = Path("/run/netlab")
SWITCH = "switch"
MOST = 253  # hosts: 10.77.0.254 is the switch's address

# What a host does when it is born. sysfs is mounted anew so that /sys/class/net shows the host's own link.
BIRTH = """
set -e
hostname "$1"
mount -t tmpfs tmpfs /dev/shm
mount --bind "$2/hosts" /etc/hosts
mount --rbind /sys/fs/cgroup "$2/cgroup"
mount -t sysfs sysfs /sys
mount --rbind "$2/cgroup" /sys/fs/cgroup
ip link set lo up
echo born
exec sleep infinity >/dev/null 2>&1
"""


class Lab:
    """Hosts h1, h2, ... on one switch. As a context manager it is up inside the block and gone after it.

    bandwidth holds in each direction of each host's link, latency is one way, loss is per packet; each may be
    None. With keep=True the lab outlives the process that built it; Lab.attach(name) finds it again.
    """

    def __init__(self, hosts=4, bandwidth=None, latency=None, loss=None, name=None, keep=False):
        if not 1 <= int(hosts) <= MOST:
            raise LabError(f"{hosts} hosts: a lab has 1 to {MOST}")
        self.folder = LABS / (name or f"run-{os.getpid()}")
        self.keep = keep
        self._wanted = {"hosts": int(hosts), "bandwidth": bandwidth, "latency": latency, "loss": loss}

    @classmethod
    def attach(cls, name: str) -> Lab:
        """A lab that is already up."""
        lab = cls(name=name, keep=True)
        if not lab._file.exists():
            raise LabError(f"no lab named {name!r} is up (up: {', '.join(sorted(labs())) or 'none'})")
        return lab

    def __enter__(self) -> Lab:
        return self.up()

    def __exit__(self, *exception) -> None:
        self.down()

    # ---- up and down

    def up(self) -> Lab:
        """Build the hosts and set their links. Labs whose owner is dead are removed first."""
        require("ip", "tc", "nsenter")
        remove_abandoned()
        if self.folder.exists():
            raise LabError(f"a lab named {self.folder.name!r} is up already; take it down first")
        try:
            self._build(self._wanted["hosts"])
            self.rate(self._wanted["bandwidth"])
            self.delay(self._wanted["latency"])
            self.loss(self._wanted["loss"])
        except BaseException:
            self.down()
            raise
        return self

    def _build(self, n: int) -> None:
        for sub in ("pids", "cgroup"):
            (self.folder / sub).mkdir(parents=True)
        if not self.keep:
            processes.write(self.folder / "pids" / "owner", os.getpid())
        addresses = "".join(f"10.77.0.{i} h{i}\n" for i in range(1, n + 1))
        (self.folder / "hosts").write_text(f"127.0.0.1 localhost\n10.77.0.254 {SWITCH}\n{addresses}")
        self._save(hosts=n, bandwidth=None, latency=None, loss=None)
        self._bear(SWITCH)
        self._do(SWITCH, "ip link add bridge type bridge")
        self._do(SWITCH, "ip addr add 10.77.0.254/24 dev bridge")
        self._do(SWITCH, "ip link set bridge up")
        for i, host in enumerate(self.hosts, 1):
            pid = self._bear(host)
            ends = f"{host} numtxqueues 1 type veth peer name eth0 numtxqueues 1 netns {pid}"
            self._do(SWITCH, f"ip link add {ends}")
            self._do(SWITCH, f"ip link set {host} master bridge up")
            self._do(host, f"ip addr add 10.77.0.{i}/24 dev eth0")
            self._do(host, "ip link set eth0 up")
            # cubic everywhere, whatever this machine's own default is
            self._do(host, f"ip route replace 10.77.0.0/24 dev eth0 src 10.77.0.{i} congctl cubic")

    def _bear(self, host: str) -> int:
        """Start the process that holds the host's namespaces."""
        unshare = ["unshare", "--net", "--uts", "--mount", "--ipc", "--propagation", "private"]
        holder = subprocess.Popen(
            [*unshare, "sh", "-c", BIRTH, "sh", host, str(self.folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the command, not for the hosts
        )
        assert holder.stdout and holder.stderr
        processes.write(self.folder / "pids" / host, holder.pid)
        with holder.stdout, holder.stderr:
            if holder.stdout.readline() != "born\n":
                raise LabError(f"host {host} could not be made: {holder.stderr.read().strip()}")
        return holder.pid

    def down(self) -> None:
        """End everything that lives in the lab, and remove it. Harmless if it is down already."""
        self.end_processes()
        holders = (processes.read(path) for path in (self.folder / "pids").glob("*") if path.name != "owner")
        processes.end(pid for pid in holders if pid)
        shutil.rmtree(self.folder, ignore_errors=True)

    def end_processes(self) -> None:
        """End every process inside the hosts, but not the hosts."""
        holders = {pid for host in [SWITCH, *self.hosts] if (pid := self._pid(host))}
        networks = {net for pid in holders if (net := processes.network_of(pid))}
        networks.discard(str(processes.network_of("self")))
        processes.end(set(processes.in_networks(networks)) - holders, patience=0)

    # ---- links

    def rate(self, bandwidth: object, host: str | None = None) -> None:
        """Bandwidth in each direction of every link, or of one host's link; None lifts the limit."""
        bits = units.bits_per_second(bandwidth) if bandwidth else None
        for one in self._some(host):
            for where, device in ((one, "eth0"), (SWITCH, one)):
                if bits is None:
                    self._do(where, f"tc qdisc del dev {device} root", check=False)
                else:
                    burst, limit = _bucket(bits)
                    self._do(
                        where, f"tc qdisc replace dev {device} root tbf rate {bits}bit burst {burst} limit {limit}"
                    )
            # What is larger than the bucket would be cut into frames, and each of them cost a timer
            whole = 65536 if bits is None else min(burst * 9 // 10, 65536)
            self._do(one, f"ip link set eth0 gso_max_size {whole}")
        if host is None:
            self._save(bandwidth=bits)

    def delay(self, latency: object) -> None:
        """One-way delay of every packet. A round trip grows by twice that, and 0.1 to 0.3 ms of overhead."""
        delay = units.seconds(latency) if latency else 0.0
        if delay or self.settings["latency"]:
            require("iptables")
            self._queue_arrivals(False)
            processes.end(pid for pid in [self._pid("nfdelay")] if pid)
        if delay:
            self._queue_arrivals(True)
            self._start_nfdelay(round(delay * 1e6))
        self._save(latency=delay or None)

    def _queue_arrivals(self, on: bool) -> None:
        for host in self.hosts:
            self._do(host, "iptables -w -t mangle -F PREROUTING")
            if on:
                rule = "-i eth0 -j NFQUEUE --queue-num 0 --queue-bypass"
                self._do(host, f"iptables -w -t mangle -A PREROUTING {rule}")

    def _start_nfdelay(self, microseconds: int) -> None:
        arguments = [f"{self._pid(host)}:{microseconds}" for host in self.hosts]
        log = (self.folder / "nfdelay.log").open("w")
        with log:
            process = subprocess.Popen(
                [str(nfdelay()), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        processes.write(self.folder / "pids" / "nfdelay", process.pid)
        while "ready" not in (said := Path(log.name).read_text()):
            if not processes.alive(process.pid):
                raise LabError(f"nfdelay ended: {said.strip()}")
            time.sleep(0.01)

    def loss(self, probability: object) -> None:
        """Each packet is lost on arrival with this probability; None for no loss."""
        p = units.probability(probability) if probability else 0.0
        if p or self.settings["loss"]:
            require("iptables")
            for host in self.hosts:
                self._do(host, "iptables -w -t raw -F PREROUTING")
                # a packet is one segment, or 64 kB would be lost at a time
                self._do(host, f"ip link set eth0 gso_max_segs {1 if p else 65535}")
                if p:
                    rule = f"-i eth0 -m statistic --mode random --probability {p:.9f} -j DROP"
                    self._do(host, f"iptables -w -t raw -A PREROUTING {rule}")
        self._save(loss=p or None)

    def cut(self, host: str) -> None:
        """Pull the host's cable out of the switch."""
        self._do(SWITCH, f"ip link set {self._some(host)[0]} down")

    def restore(self, host: str) -> None:
        """Put the cable back."""
        self._do(SWITCH, f"ip link set {self._some(host)[0]} up")

    # ---- commands

    def run(
        self,
        command: Sequence[str],
        mpi: str = "auto",
        forced_ring: bool = False,
        ranks_per_host: int = 1,
        timeout: float | None = None,
        **options,
    ) -> subprocess.CompletedProcess:
        """Run an MPI program on all hosts, by the mpiexec that belongs to its `python`.

        mpi: auto, mpich or openmpi. forced_ring makes MPI's own Allreduce a ring. The program finds
        NETLAB_HOSTS, NETLAB_BANDWIDTH (bit/s) and NETLAB_LATENCY (s), the last two where they are set.
        Variables of `env` win over the lab's settings of the MPI. Whatever ends the run early, a time-out
        included, ends the ranks too. Options are those of subprocess.Popen: stdout=subprocess.PIPE, ...
        """
        mpiexec, kind = launch.find(command[0], mpi)
        settings = launch.environment(kind, ranks_per_host, forced_ring)
        env = {**settings, **options.pop("env", os.environ)}  # what the user sets wins
        line = [*launch.command(mpiexec, kind, self.hosts, ranks_per_host), *command]
        return self.shell(self.hosts[0], line, timeout=timeout, env=env, **options)

    def shell(
        self,
        host: str,
        command: Sequence[str],
        timeout: float | None = None,
        env: Mapping[str, str] = os.environ,
        **options,
    ) -> subprocess.CompletedProcess:
        """Run one command on one host, in the folder we are in. Options are those of subprocess.Popen."""
        env = {**env, **self.environment}
        with subprocess.Popen(self._inside(host, command), env=env, **options) as process:
            try:
                out, err = process.communicate(timeout=timeout)
            except BaseException:
                processes.end([process.pid])  # mpiexec, asked kindly, takes its ranks along
                self.end_processes()
                raise
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    @property
    def environment(self) -> dict[str, str]:
        """What a program inside the lab is told about it."""
        told = {"NETLAB": self.folder, "NETLAB_HOSTS": self.settings["hosts"]}
        told.update(NETLAB_BANDWIDTH=self.settings["bandwidth"], NETLAB_LATENCY=self.settings["latency"])
        return {key: str(value) for key, value in told.items() if value is not None}

    # ---- what is stored: settings.json and pids/ in the lab's folder, nothing else

    @property
    def _file(self) -> Path:
        return self.folder / "settings.json"

    @property
    def settings(self) -> dict:
        return json.loads(self._file.read_text()) if self._file.exists() else {"hosts": 0}

    def _save(self, **changes) -> None:
        self._file.write_text(json.dumps({**self.settings, **changes}))

    @property
    def hosts(self) -> list[str]:
        return [f"h{i}" for i in range(1, self.settings["hosts"] + 1)]

    def _some(self, host: str | None) -> list[str]:
        if host is not None and host not in self.hosts:
            raise LabError(f"no host named {host!r} (hosts: {', '.join(self.hosts)})")
        return self.hosts if host is None else [host]

    def _pid(self, name: str) -> int | None:
        return processes.read(self.folder / "pids" / name)

    def _inside(self, host: str, command: Sequence[str]) -> list[str]:
        pid = self._pid(host)
        if pid is None:
            raise LabError(f"host {host!r} of lab {self.folder.name!r} does not run")
        enter = ["nsenter", "--target", str(pid), "--net", "--uts", "--mount", "--ipc", "--"]
        return [*enter, "sh", "-c", 'cd "$0" && exec "$@"', os.getcwd(), *command]

    def _do(self, host: str, command: str, check: bool = True) -> None:
        line = self._inside(host, command.split())
        done = subprocess.run(line, check=False, capture_output=True, text=True)
        if check and done.returncode:
            raise LabError(f"on {host}: {command}: {done.stderr.strip()}")


def _bucket(bits: int) -> tuple[int, int]:
    """(Token bucket, queue), in bytes. A bucket of 1 ms of the rate, which the wake-ups of a busy machine need, and a queue of 10 ms.

    At least 16 kB, but of slow links no more than 4 ms or two frames, and 1 MB. After a pause a message smaller than the
    bucket is not slowed down: a bucket as long as the latency would hide it.
    """
    burst = max(3_200, min(16_384, bits // 2000), bits // 8000)
    return burst, max(1_000_000, bits // 800)


def labs() -> Iterator[str]:
    """Names of all labs on this machine."""
    return (path.name for path in LABS.glob("*") if (path / "pids").is_dir())


def remove_abandoned() -> None:
    """Take down the labs that were to end with a process which no longer runs. Kept labs stay."""
    for name in list(labs()):
        owner = LABS / name / "pids" / "owner"
        if owner.exists() and processes.read(owner) is None:
            Lab(name=name).down()
