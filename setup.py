"""Builds the C library, one plain shared library with every kernel once for each level of processor; and a shortcut for
small arrays, another.

They link neither Python nor MPI. Without a working compiler the install goes on, and mpicomp runs on NumPy.
CC and CFLAGS are respected; MPICOMP_SANITIZE=address,undefined builds with those sanitizers.
Names, versions and dependencies are in setup.cfg.
"""

import os
import platform
import shlex
import shutil
import subprocess
from multiprocessing.pool import ThreadPool
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:
    from wheel.bdist_wheel import bdist_wheel

ROOT = Path(__file__).parent
SOURCES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "kernels" / "cpu").glob("*.c"))
HEADERS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "kernels").rglob("*.h"))
# -ffp-contract=off: a fused multiply-add rounds once, and sums would differ from machine to machine.
# -fno-trapping-math: nobody reads the exception flags, so both sides of a choice may be computed, in vectors.
# -fno-math-errno: nor errno, so a square root is one instruction.
# -falign: where a loop happens to begin makes up to 1.5 times the speed of some.
FLAGS = [
    "-O3",
    "-std=c11",
    "-fPIC",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
    "-ffp-contract=off",
    "-fno-trapping-math",
    "-fno-math-errno",
    "-falign-functions=64",
    "-falign-loops=64",
]
LEVELS = {1: []}
if platform.machine() in ("x86_64", "AMD64"):
    LEVELS.update({3: ["-march=x86-64-v3"], 4: ["-march=x86-64-v4", "-mprefer-vector-width=512"]})


def find_compiler():
    named = shlex.split(os.environ.get("CC", ""))
    return named or next(([cc] for cc in ("cc", "gcc", "clang") if shutil.which(cc)), ["cc"])


class BuildLibrary(build_ext):
    def get_ext_filename(self, fullname):
        return os.path.join(*fullname.split(".")) + ".so"

    def build_extension(self, ext):
        target = Path(self.get_ext_fullpath(ext.name))
        target.unlink(missing_ok=True)  # rather none than an old one
        compiler, extra = find_compiler(), shlex.split(os.environ.get("CFLAGS", ""))
        if os.environ.get("MPICOMP_SANITIZE"):
            extra += ["-g", "-fno-omit-frame-pointer", "-fsanitize=" + os.environ["MPICOMP_SANITIZE"]]
        try:
            levels = LEVELS if ext.sources == SOURCES else {1: []}
            objects = self.compile_all(compiler, extra, ext.sources, levels)
            target.parent.mkdir(parents=True, exist_ok=True)
            self.run_tool(compiler + ["-shared", "-o", str(target)] + objects + extra)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"note: {target.name} was not built ({error}); mpicomp will run without it, much slower")

    def compile_all(self, compiler, extra, sources, levels):
        """Object files of every level; one that the compiler does not know is left out, but for the first."""
        objects = []
        for level, flags in levels.items():
            folder = Path(self.build_temp) / f"v{level}"
            folder.mkdir(parents=True, exist_ok=True)
            made = [str(folder / Path(source).with_suffix(".o").name) for source in sources]
            options = compiler + FLAGS + flags + extra + [f"-DMC_LEVEL={level}"]
            try:
                with ThreadPool() as pool:
                    pool.starmap(
                        lambda source, result, options=options: self.run_tool(options + ["-c", source, "-o", result]),
                        zip(sources, made),
                        chunksize=1,
                    )
            except subprocess.CalledProcessError:
                if level == 1:
                    raise
                print(f"note: no kernels for level v{level}: {compiler[0]} failed")
            else:
                objects += made
        return objects

    def run_tool(self, command):
        print(shlex.join(command), flush=True)
        subprocess.run(command, check=True, cwd=ROOT)


class PlatformWheel(bdist_wheel):
    """The library is loaded by ctypes: the wheel depends on the platform, not on the Python that built it."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


setup(
    packages=find_packages(include=["mpicomp", "mpicomp.*"]) + ["mpicomp.kernels"],
    package_dir={"mpicomp.kernels": "kernels"},  # top-level in a clone only
    package_data={"mpicomp": ["py.typed"], "mpicomp.kernels": ["*.h", "cpu/*.[ch]", "cuda/*"]},
    ext_modules=[
        Extension("mpicomp.libmpicomp", SOURCES, depends=HEADERS, optional=True),
        Extension("mpicomp.libshortcut", ["mpicomp/shortcut.c"], optional=True),
    ],
    cmdclass={"build_ext": BuildLibrary, "bdist_wheel": PlatformWheel},
)
