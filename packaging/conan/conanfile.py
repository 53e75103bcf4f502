# A Conan 2 recipe for the sources around it: conan create packaging/conan (packaging/README.md).
import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load
from conan.tools.system.package_manager import Apt


class LockstepConan(ConanFile):
    name = "lockstep"
    description = "Training neural networks on several GPUs from one C++ program"
    license = "Apache-2.0"
    package_type = "library"
    settings = "os", "compiler", "build_type", "arch"
    options = {"shared": [True, False], "fPIC": [True, False], "images": [True, False], "mpi": [True, False],
               "cuda": [True, False]}
    default_options = {"shared": False, "fPIC": True, "images": True, "mpi": False, "cuda": False}
    implements = ["auto_shared_fpic"]

    @property
    def _root(self):
        return os.path.join(self.recipe_folder, "..", "..")

    def set_version(self):
        project = load(self, os.path.join(self._root, "CMakeLists.txt"))
        self.version = re.search(r"project\(Lockstep VERSION ([0-9.]+)", project)[1]

    def export_sources(self):
        for pattern in "CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "src/*":
            copy(self, pattern, self._root, self.export_sources_folder)

    # The libraries come from the system: compiling oneDNN takes longer than compiling Lockstep.
    def system_requirements(self):
        packages = ["libtbb-dev", "libdnnl-dev", "libxxhash-dev", "libfmt-dev"]
        if self.options.images:
            packages += ["libpng-dev", "libjpeg-dev"]
        if self.options.mpi:
            packages += ["libopenmpi-dev"]
        Apt(self).install(packages)

    def validate(self):
        check_min_cppstd(self, 20)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in "TESTS", "EXAMPLES", "BENCHMARKS", "WARNINGS_AS_ERRORS":
            toolchain.cache_variables["LOCKSTEP_" + part] = False
        toolchain.cache_variables["LOCKSTEP_INSTALL"] = True
        for part in "images", "mpi", "cuda":
            toolchain.cache_variables["LOCKSTEP_" + part.upper()] = "ON" if self.options.get_safe(part) else "OFF"
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install()

    # CMake reads the package's own lockstepConfig.cmake. The names of libraries are for other build systems.
    def package_info(self):
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "lockstep")]
        self.cpp_info.libs = ["lockstep"]
        if not self.options.shared:
            self.cpp_info.system_libs = ["tbb", "dnnl", "gomp", "pthread"]
            if self.options.images:
                self.cpp_info.system_libs += ["png", "jpeg"]
