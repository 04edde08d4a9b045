# The compiler of P4 programs, and the programs that the library contains.
#
# The compiler is a program of its own, so that the library can contain compiled programs.
file(
    GLOB SIDELATCH_P4C_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/p4/*.cpp" "${PROJECT_SOURCE_DIR}/p4/compiler/*.cpp"
                                                 "${PROJECT_SOURCE_DIR}/p4/runtime/*.cpp"
)
sidelatch_unite(SIDELATCH_P4C_SOURCES p4c ${SIDELATCH_P4C_SOURCES})
add_executable(
    sidelatch_p4c "${PROJECT_SOURCE_DIR}/tools/p4c/main.cpp" "${PROJECT_SOURCE_DIR}/tools/p4_arguments.cpp"
                  ${SIDELATCH_P4C_SOURCES} "${PROJECT_SOURCE_DIR}/roce/crc32.cpp"
)
target_include_directories(sidelatch_p4c PRIVATE "${PROJECT_SOURCE_DIR}/include")
target_link_libraries(sidelatch_p4c PRIVATE sidelatch_flags fmt::fmt PkgConfig::libisal) # of the CRC
set_target_properties(
    sidelatch_p4c PROPERTIES OUTPUT_NAME sidelatch-p4c EXPORT_NAME p4c RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}"
)
add_executable(sidelatch::p4c ALIAS sidelatch_p4c) # its name in an installed package
include("${CMAKE_CURRENT_LIST_DIR}/SidelatchAddP4.cmake")

# The library's own: experiments and flows run them.
sidelatch_add_p4(
    sidelatch_objects "${PROJECT_SOURCE_DIR}/p4/switch_atomics.p4" "${PROJECT_SOURCE_DIR}/p4/switch_optimistic.p4"
    "${PROJECT_SOURCE_DIR}/p4/switch_cached.p4" "${PROJECT_SOURCE_DIR}/p4/switch_tuples.p4" "${PROJECT_SOURCE_DIR}/p4/zero_sided.p4"
    "${PROJECT_SOURCE_DIR}/p4/broken/switch_as_published.p4"
)
set(SIDELATCH_P4_HEADERS "${CMAKE_CURRENT_BINARY_DIR}/p4_programs/sidelatch_objects")
