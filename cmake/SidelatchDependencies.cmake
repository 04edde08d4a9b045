# Every library the project uses, each with the Debian package that brings it.
find_package(PkgConfig)
if(NOT PkgConfig_FOUND)
    message(FATAL_ERROR "pkg-config is missing. On Debian: apt-get install pkg-config, or run scripts/install-deps build")
endif()

macro(sidelatch_missing what package group)
    message(FATAL_ERROR "${what} is missing. On Debian: apt-get install ${package}, or run scripts/install-deps ${group}")
endmacro()

# sidelatch_find_pc(MODULE DEBIAN_PACKAGE) makes PkgConfig::MODULE.
function(sidelatch_find_pc module package)
    pkg_check_modules(${module} QUIET IMPORTED_TARGET GLOBAL ${module})
    if(NOT ${module}_FOUND)
        sidelatch_missing(${module} ${package} build)
    endif()
endfunction()

# sidelatch_find(PACKAGE DEBIAN_PACKAGE GROUP) finds a CMake package. A macro: imported targets belong to the caller.
macro(sidelatch_find name package group)
    find_package(${name} QUIET)
    if(NOT ${name}_FOUND)
        sidelatch_missing(${name} ${package} ${group})
    endif()
endmacro()

sidelatch_find_pc(libibverbs libibverbs-dev)
sidelatch_find_pc(librdmacm librdmacm-dev)
sidelatch_find_pc(numa libnuma-dev)
sidelatch_find_pc(libisal libisal-dev)
sidelatch_find_pc(tomlplusplus libtomlplusplus-dev)
sidelatch_find(Threads libc6-dev build)
sidelatch_find(TBB libtbb-dev build)
sidelatch_find(fmt libfmt-dev build)
sidelatch_find(CLI11 libcli11-dev build)
sidelatch_find(nlohmann_json nlohmann-json3-dev build)
if(SIDELATCH_BUILD_TESTS)
    sidelatch_find(GTest libgtest-dev test)
    if(NOT TARGET GTest::gmock)
        sidelatch_missing(GoogleMock libgmock-dev test)
    endif()
endif()
if(SIDELATCH_BUILD_MICRO)
    sidelatch_find(benchmark libbenchmark-dev test)
endif()

# What the library itself is built with.
set(SIDELATCH_DEPENDENCIES
    PkgConfig::libibverbs
    PkgConfig::librdmacm
    PkgConfig::numa
    PkgConfig::libisal
    PkgConfig::tomlplusplus
    TBB::tbb
    fmt::fmt
    nlohmann_json::nlohmann_json
    Threads::Threads
)
