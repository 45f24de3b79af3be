"""A lab must do what it says.

Bounds are one-sided: a loaded machine is slower, but no machine beats a shaped link.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from . import launch, processes, units
from .lab import LABS, Lab, LabError

NETLAB = str(Path(__file__).resolve().with_name("netlab"))
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, ("ip", "tc", "iptables"))),
    reason="a lab needs root, iproute2 and iptables",
)


def has_mpi() -> bool:
    try:
        launch.find(sys.executable)
    except FileNotFoundError:
        return False
    return True


needs_mpi = pytest.mark.skipif(not has_mpi(), reason="no mpiexec beside this python")


@pytest.fixture(scope="module")
def lab():
    with Lab(hosts=2) as lab:
        yield lab


def rank_program(lab: Lab, body: str, **options) -> str:
    """Output of a small MPI program; `comm`, `np` and `time` are there."""
    head = "import time; import numpy as np; from mpi4py import MPI; comm = MPI.COMM_WORLD\n"
    command = [sys.executable, "-c", head + body]
    done = lab.run(command, timeout=60, stdout=subprocess.PIPE, text=True, **options)
    assert done.returncode == 0
    return done.stdout


@pytest.mark.parametrize("text, value", [("1Gbit", 10**9), ("100Mbit/s", 10**8), ("2.5gbit", 25 * 10**8)])
def test_a_bandwidth_is_read_in_bits(text, value):
    assert units.bits_per_second(text) == value


@pytest.mark.parametrize("text, value", [("0.1ms", 1e-4), ("50us", 5e-5), ("1s", 1), (0.25, 0.25)])
def test_a_latency_is_read_in_seconds(text, value):
    assert units.seconds(text) == pytest.approx(value)


@pytest.mark.parametrize(
    "read, text",
    [
        (units.bits_per_second, "fast"),
        (units.bits_per_second, "0"),
        (units.seconds, "1h"),
        (units.probability, "200%"),
    ],
)
def test_what_is_no_quantity_is_refused(read, text):
    with pytest.raises(ValueError, match=text):
        read(text)


@pytest.mark.parametrize(
    "option, number, words",
    [
        ("--hosts", "0", "0 hosts: a lab has 1 to 253"),
        ("--hosts", "-1", "-1 hosts: a lab has 1 to 253"),
        ("--hosts", "300", "300 hosts: a lab has 1 to 253"),
        ("--ranks-per-host", "0", "'0' is not a whole number of at least 1"),
    ],
)
def test_impossible_numbers_are_refused(option, number, words):
    done = subprocess.run([NETLAB, option, number, "--", "true"], check=False, capture_output=True, text=True)
    assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr


def test_a_process_is_known_again_only_by_its_start_time(tmp_path):
    processes.write(tmp_path / "me", os.getpid())
    assert processes.read(tmp_path / "me") == os.getpid()
    (tmp_path / "me").write_text(f"{os.getpid()} 1\n")
    assert processes.read(tmp_path / "me") is None


@needs_root
def test_a_host_has_its_own_name_address_and_shared_memory(lab):
    script = "hostname; hostname -I; touch /dev/shm/mine; ls /dev/shm"
    done = lab.shell("h2", ["sh", "-c", script], stdout=subprocess.PIPE, text=True)
    assert done.stdout.split() == ["h2", "10.77.0.2", "mine"]
    assert not Path("/dev/shm/mine").exists()


@needs_root
def test_an_unknown_host_or_lab_is_named(lab):
    with pytest.raises(LabError, match="'h9'.*h1, h2"):
        lab.cut("h9")
    with pytest.raises(LabError, match="no-such-lab"):
        Lab.attach("no-such-lab")


@needs_root
@needs_mpi
def test_every_host_gets_one_rank(lab):
    print_name = "print(f'{comm.rank} {comm.size} {MPI.Get_processor_name()}\\n', end='')"
    assert sorted(rank_program(lab, print_name).splitlines()) == ["0 2 h1", "1 2 h2"]


@needs_root
@needs_mpi
def test_ranks_on_one_host_come_in_order(lab):
    out = rank_program(lab, "print(f'{comm.rank} {MPI.Get_processor_name()}\\n', end='')", ranks_per_host=2)
    assert sorted(out.splitlines()) == ["0 h1", "1 h1", "2 h2", "3 h2"]


@needs_root
@needs_mpi
def test_no_message_is_faster_than_the_link(lab):
    lab.rate("50Mbit")
    body = """
x = np.zeros(2_000_000, 'u1'); comm.Barrier(); start = time.perf_counter()
comm.Send(x, 1) if comm.rank == 0 else comm.Recv(x, 0)
if comm.rank: print((x.nbytes - 2 * 16384) * 8 / (time.perf_counter() - start))
"""
    measured = float(rank_program(lab, body))  # less the bucket of each of the two shapers on the way
    lab.rate(None)
    assert measured < 50e6


@needs_root
@needs_mpi
def test_a_round_trip_takes_twice_the_latency(lab):
    lab.delay("4ms")
    body = """
x = np.zeros(1, 'u1'); first = comm.rank == 0; comm.Barrier()
for _ in range(5):
    start = time.perf_counter()
    comm.Send(x, 1) if first else comm.Recv(x, 0)
    comm.Recv(x, 1) if first else comm.Send(x, 0)
if first: print(time.perf_counter() - start)
"""
    delayed = float(rank_program(lab, body))
    lab.delay(None)
    assert delayed >= 0.008


@needs_root
@needs_mpi
def test_the_program_is_told_about_the_network(lab):
    lab.rate("100Mbit")
    body = "import os; comm.rank or print(sorted(pair for pair in os.environ.items() if 'NETLAB_' in pair[0]))"
    told = rank_program(lab, body)
    lab.rate(None)
    assert told == "[('NETLAB_BANDWIDTH', '100000000'), ('NETLAB_HOSTS', '2')]\n"


def python_on(lab: Lab, host: str, program: str) -> subprocess.Popen:
    return subprocess.Popen(lab._inside(host, [sys.executable, "-c", program]), stdout=subprocess.PIPE)


@needs_root
def test_a_cut_host_is_unreachable_until_it_is_restored(lab):
    """A TCP connection is tried from h1 to a listener on h2."""
    listen = "import socket; s = socket.create_server(('', 7000)); print(flush=True)\nwhile True: s.accept()"
    connect = [sys.executable, "-c", "import socket; socket.create_connection(('h2', 7000), timeout=2)"]
    with python_on(lab, "h2", listen) as listener:
        try:
            listener.stdout.readline()
            assert lab.shell("h1", connect).returncode == 0
            lab.cut("h2")
            assert lab.shell("h1", connect, stderr=subprocess.DEVNULL).returncode != 0
            lab.restore("h2")
            assert lab.shell("h1", connect).returncode == 0
        finally:
            listener.kill()


@needs_root
def test_lost_packets_are_sent_again_and_nothing_goes_missing(lab):
    lab.loss("5%")
    listen = """
import socket
server = socket.create_server(('', 7001)); print(flush=True)
connection = server.accept()[0]
print(sum(iter(lambda: len(connection.recv(65536)), 0)))
"""
    send = "import socket; socket.create_connection(('h2', 7001)).sendall(bytes(1_000_000))"
    with python_on(lab, "h2", listen) as listener:
        listener.stdout.readline()
        lab.shell("h1", [sys.executable, "-c", send], timeout=60)
        assert int(listener.communicate(timeout=60)[0]) == 1_000_000
    count = ["iptables", "-t", "raw", "-vnxL", "PREROUTING"]
    rules = lab.shell("h2", count, stdout=subprocess.PIPE, text=True).stdout
    lab.loss(None)
    dropped = int(rules.splitlines()[2].split()[0])
    assert dropped > 5  # of some 700 packets; 5 or fewer has a probability below 1e-9


@needs_root
@needs_mpi
@pytest.mark.parametrize("code", [0, 7])
def test_the_exit_code_is_that_of_the_program(code):
    program = f"import sys; from mpi4py import MPI; MPI.COMM_WORLD.Barrier(); sys.exit({code})"
    line = [NETLAB, "--hosts", "2", "--", sys.executable, "-c", program]
    assert subprocess.run(line, check=False, capture_output=True).returncode == code


def sleeping_lab(tmp_path: Path) -> subprocess.Popen:
    """A netlab whose ranks sleep; returns when they do."""
    program = f"import time; from mpi4py import MPI; open(r'{tmp_path}/asleep', 'w'); time.sleep(600)"
    line = [NETLAB, "--hosts", "2", "--", sys.executable, "-c", program]
    process = subprocess.Popen(line, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while not (tmp_path / "asleep").exists():
        assert process.poll() is None
        time.sleep(0.05)
    return process


def sleeping_ranks(tmp_path: Path) -> list[str]:
    lines = subprocess.run(["ps", "-eo", "args"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return [line for line in lines.splitlines() if str(tmp_path) in line]


@needs_root
@needs_mpi
@pytest.mark.parametrize("signum, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_signal_leaves_nothing_behind(tmp_path, signum, code):
    process = sleeping_lab(tmp_path)
    process.send_signal(signum)
    assert process.wait(timeout=30) == code
    assert not (LABS / f"run-{process.pid}").exists()
    assert sleeping_ranks(tmp_path) == []


@needs_root
@needs_mpi
def test_what_a_killed_run_left_is_removed_by_the_next_but_kept_labs_stay(tmp_path):
    kept = Lab(hosts=1, name="kept-by-test", keep=True).up()
    process = sleeping_lab(tmp_path)
    process.kill()
    process.wait()
    assert (LABS / f"run-{process.pid}").exists()
    Lab(hosts=1, name="next").up().down()
    assert not (LABS / f"run-{process.pid}").exists()
    assert sleeping_ranks(tmp_path) == []
    assert Lab.attach("kept-by-test").shell("h1", ["true"]).returncode == 0
    kept.down()
