# SPDX-License-Identifier: LGPL-2.1-or-later
# A recipe for Spack from 1.0 on, for a clone:
#   spack repo add tools/packaging/spack
#   spack dev-build -d . libvpmm@main
from spack_repo.builtin.build_systems.autotools import AutotoolsPackage

from spack.package import *


class Libvpmm(AutotoolsPackage):
    """GPU memory pool without fragmentation: a large contiguous block is made of scattered free ones by mapping
    them again, without copying. It opens the CUDA driver when a program runs, and needs no CUDA to be built."""

    license("LGPL-2.1-or-later")

    version("main")

    variant("toolkit", default=False, description="Check the declarations of the driver against CUDA's cuda.h")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("autoconf", type="build")
    depends_on("autoconf-archive", type="build")
    depends_on("automake", type="build")
    depends_on("libtool", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("python@3.9:", type=("build", "run"))
    depends_on("glib@2.74:")
    depends_on("zlib-api")
    depends_on("cuda@12:", when="+toolkit", type="build")

    def configure_args(self):
        if self.spec.satisfies("+toolkit"):
            return [f"--with-cuda-toolkit={self.spec['cuda'].prefix}"]
        return ["--without-cuda-toolkit"]

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_install(self):
        Executable(self.prefix.bin.join("vpmm-info"))("--backend=host")
