"""Command lines that start an MPI program, one or more ranks on each host of a lab."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

NSRSH = str(Path(__file__).resolve().with_name("nsrsh"))  # stands in for ssh


def find(program: str, mpi: str = "auto") -> tuple[str, str]:
    """(path of mpiexec, "mpich" or "openmpi") of the environment that `program` belongs to.

    The mpiexec beside the program (a virtual environment's bin) comes before those on PATH.
    """
    found = shutil.which(program)
    if found is None:
        raise FileNotFoundError(f"no program named {program!r}")
    suffixes = {"auto": [""], "mpich": [".mpich", ""], "openmpi": [".openmpi", ""]}[mpi]
    seen = []
    for folder in [os.path.dirname(os.path.abspath(found)), *os.environ.get("PATH", "").split(os.pathsep)]:
        for name in ("mpiexec" + suffix for suffix in suffixes):
            path = os.path.join(folder, name)
            if os.access(path, os.X_OK):
                kind = _kind(path)
                if kind is not None and mpi in ("auto", kind):
                    return path, kind
                seen.append(f"{path} ({kind or 'unknown'})")
    wanted = "MPICH or Open MPI" if mpi == "auto" else mpi
    others = ", ".join(seen) or "none"
    raise FileNotFoundError(f"no mpiexec of {wanted} beside {found} or on PATH; found: {others}")


def _kind(mpiexec: str) -> str | None:
    said = subprocess.run([mpiexec, "--version"], check=False, capture_output=True, text=True).stdout.lower()
    if "hydra" in said or "mpich" in said:
        return "mpich"
    return "openmpi" if "open mpi" in said or "prrte" in said else None


def command(mpiexec: str, kind: str, hosts: Sequence[str], per_host: int) -> list[str]:
    """The words before the program."""
    ranks = ["-n", str(per_host * len(hosts))]
    if kind == "mpich":
        return [mpiexec, "-hosts", ",".join(hosts), "-ppn", str(per_host), *ranks]
    return [mpiexec, "--bind-to", "none", "--host", ",".join(f"{host}:{per_host}" for host in hosts), *ranks]


def environment(kind: str, per_host: int, ring: bool) -> dict[str, str]:
    """Settings of the MPI, as variables: TCP over eth0, nsrsh for ssh, its Allreduce a ring if so wanted."""
    return _mpich(ring) if kind == "mpich" else _openmpi(per_host, ring)


def _mpich(ring: bool) -> dict[str, str]:
    settings = {
        "HYDRA_LAUNCHER": "ssh",
        "HYDRA_LAUNCHER_EXEC": NSRSH,
        # libfabric, not UCX: over TCP UCX's rendezvous makes MPICH's own Allreduce of 40 MB a third slower
        "MPIR_CVAR_CH4_NETMOD": "ofi",
        "FI_PROVIDER": "tcp",
        "FI_TCP_IFACE": "eth0",
    }
    if ring:
        settings["MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM"] = "ring"
    return settings


# Its own TCP is slower here, and crashes a rank that is still in MPI_Init when a faster one sends to it.
OVER_LIBFABRIC = {"pml": "cm", "mtl": "ofi", "opal_common_ofi_provider_include": "tcp"}
# For ranks that share memory. Without "send" it emulates RDMA; messages that cross then take twice as long.
OVER_TCP = {"pml": "ob1", "btl": "sm,tcp,self", "btl_tcp_if_include": "eth0", "btl_tcp_flags": "send"}


def _openmpi(per_host: int, ring: bool) -> dict[str, str]:
    mca = {
        "plm_rsh_agent": NSRSH,  # Open MPI 4; for 5 see below
        "mpi_yield_when_idle": "1",  # the hosts share this machine's cores: polling would starve the others
        **(OVER_LIBFABRIC if per_host == 1 else OVER_TCP),
    }
    if ring:
        mca.update(coll_tuned_use_dynamic_rules="1", coll_tuned_allreduce_algorithm="4")
    settings = {f"OMPI_MCA_{key}": value for key, value in mca.items()}
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return {**settings, **as_root, "PRTE_MCA_plm_ssh_agent": NSRSH, "FI_TCP_IFACE": "eth0"}
