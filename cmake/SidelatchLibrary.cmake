# One object library; from it libsidelatch.a, libsidelatch.so and, with tools/, the program.
set(SIDELATCH_GENERATED "${PROJECT_BINARY_DIR}/generated")
configure_file("${PROJECT_SOURCE_DIR}/cmake/version.h.in" "${SIDELATCH_GENERATED}/include/sidelatch/version.h" @ONLY)

file(
    GLOB_RECURSE SIDELATCH_SOURCES CONFIGURE_DEPENDS
    "${PROJECT_SOURCE_DIR}/common/*.cpp"
    "${PROJECT_SOURCE_DIR}/fabric/*.cpp"
    "${PROJECT_SOURCE_DIR}/roce/*.cpp"
    "${PROJECT_SOURCE_DIR}/softnic/*.cpp"
    "${PROJECT_SOURCE_DIR}/sync/*.cpp"
    "${PROJECT_SOURCE_DIR}/switchsync/*.cpp"
    "${PROJECT_SOURCE_DIR}/p4/*.cpp"
    "${PROJECT_SOURCE_DIR}/flows/*.cpp"
    "${PROJECT_SOURCE_DIR}/structures/*.cpp"
    "${PROJECT_SOURCE_DIR}/checker/*.cpp"
    "${PROJECT_SOURCE_DIR}/bench/*.cpp"
)
list(FILTER SIDELATCH_SOURCES EXCLUDE REGEX "/bench/micro/")
# It has the names of libibverbs, which the library itself uses.
list(FILTER SIDELATCH_SOURCES EXCLUDE REGEX "/softnic/verbs/")
file(GLOB_RECURSE SIDELATCH_HEADERS CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/sidelatch/*.h")

# The NIC profiles travel inside the library, so that the program needs no files beside it.
file(GLOB SIDELATCH_PROFILES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/profiles/*.toml")
add_custom_command(
    OUTPUT "${SIDELATCH_GENERATED}/embedded_profiles.cpp"
    COMMAND "${CMAKE_COMMAND}" "-DPROFILES=${SIDELATCH_PROFILES}" "-DOUTPUT=${SIDELATCH_GENERATED}/embedded_profiles.cpp"
            -P "${PROJECT_SOURCE_DIR}/cmake/embed_profiles.cmake"
    DEPENDS ${SIDELATCH_PROFILES} "${PROJECT_SOURCE_DIR}/cmake/embed_profiles.cmake"
    COMMENT "Embedding the NIC profiles"
    VERBATIM
)

# So does the page of `sidelatch report`.
add_custom_command(
    OUTPUT "${SIDELATCH_GENERATED}/embedded_page.cpp"
    COMMAND "${CMAKE_COMMAND}" "-DPAGE=${PROJECT_SOURCE_DIR}/report/page.html"
            "-DOUTPUT=${SIDELATCH_GENERATED}/embedded_page.cpp" -P "${PROJECT_SOURCE_DIR}/cmake/embed_page.cmake"
    DEPENDS "${PROJECT_SOURCE_DIR}/report/page.html" "${PROJECT_SOURCE_DIR}/cmake/embed_page.cmake"
    COMMENT "Embedding the report page"
    VERBATIM
)

# These are compiled alone: the path of an operation, where GCC inlines less if it sees more functions at once
# (tests/cost counts its instructions); and a file with flags of its own, below.
file(GLOB SIDELATCH_ALONE CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/fabric/*.cpp" "${PROJECT_SOURCE_DIR}/fabric/verbs/*.cpp")
if(NOT CMAKE_BUILD_TYPE STREQUAL "Release")
    set(SIDELATCH_ALONE "")
endif()
list(APPEND SIDELATCH_ALONE "${PROJECT_SOURCE_DIR}/checker/parallel_tbb.cpp")
list(REMOVE_ITEM SIDELATCH_SOURCES ${SIDELATCH_ALONE})
sidelatch_unite(SIDELATCH_SOURCES library ${SIDELATCH_SOURCES})

# oneTBB from Debian is not built with ThreadSanitizer. With its headers' half built like the other half, no race is
# reported between the two; checker/parallel.cpp says which order oneTBB gives.
if(SIDELATCH_SANITIZE STREQUAL "thread")
    set_source_files_properties(
        "${PROJECT_SOURCE_DIR}/checker/parallel_tbb.cpp" PROPERTIES COMPILE_OPTIONS -fno-sanitize=thread
    )
endif()

add_library(
    sidelatch_objects OBJECT ${SIDELATCH_SOURCES} ${SIDELATCH_ALONE} "${SIDELATCH_GENERATED}/embedded_profiles.cpp"
                             "${SIDELATCH_GENERATED}/embedded_page.cpp"
)
target_include_directories(
    sidelatch_objects PRIVATE "${PROJECT_SOURCE_DIR}/include" "${SIDELATCH_GENERATED}/include"
)
target_link_libraries(sidelatch_objects PRIVATE sidelatch_flags ${SIDELATCH_DEPENDENCIES})

add_library(sidelatch_static STATIC $<TARGET_OBJECTS:sidelatch_objects>)
add_library(sidelatch_shared SHARED $<TARGET_OBJECTS:sidelatch_objects>)
add_library(sidelatch::sidelatch ALIAS sidelatch_static)
add_library(sidelatch::shared ALIAS sidelatch_shared)
foreach(library sidelatch_static sidelatch_shared)
    target_compile_features(${library} PUBLIC cxx_std_20)
    target_link_libraries(${library} PRIVATE $<BUILD_INTERFACE:sidelatch_flags> ${SIDELATCH_DEPENDENCIES})
    target_include_directories(
        ${library} PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
                          "$<BUILD_INTERFACE:${SIDELATCH_GENERATED}/include>" "$<INSTALL_INTERFACE:include>"
    )
endforeach()
target_sources(
    sidelatch_static
    PUBLIC FILE_SET
           HEADERS
           BASE_DIRS
           "${PROJECT_SOURCE_DIR}/include"
           "${SIDELATCH_GENERATED}/include"
           FILES
           ${SIDELATCH_HEADERS}
           "${SIDELATCH_GENERATED}/include/sidelatch/version.h"
)
set_target_properties(sidelatch_static PROPERTIES OUTPUT_NAME sidelatch EXPORT_NAME sidelatch)
set_target_properties(
    sidelatch_shared
    PROPERTIES OUTPUT_NAME sidelatch
               EXPORT_NAME shared
               VERSION ${PROJECT_VERSION}
               SOVERSION ${PROJECT_VERSION_MAJOR}
)
# CMake writes one source per public header that includes nothing else, and compiles it.
set_target_properties(sidelatch_static PROPERTIES VERIFY_INTERFACE_HEADER_SETS "${SIDELATCH_CHECK_HEADERS}")

# libibverbs on the software NIC, to be preloaded. Of the static library it takes only what the NIC needs.
file(GLOB SIDELATCH_VERBS CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/softnic/verbs/*.cpp")
set(SIDELATCH_VERBS_EXPORTS "${PROJECT_SOURCE_DIR}/softnic/verbs/exports.map")
sidelatch_unite(SIDELATCH_VERBS verbs ${SIDELATCH_VERBS})
add_library(sidelatch_verbs SHARED ${SIDELATCH_VERBS})
# The standard library comes before the archive, so that operator new is the process's, whatever that is: its strings
# grow there. The archive's own is for programs that explore, and would stay hidden in here.
target_link_libraries(sidelatch_verbs PRIVATE sidelatch_flags stdc++ sidelatch_static fmt::fmt)
# No unloading: its thread, and what it does at the end of the process, stay.
target_link_options(
    sidelatch_verbs PRIVATE "LINKER:--exclude-libs,ALL" "LINKER:--version-script=${SIDELATCH_VERBS_EXPORTS}"
                            "LINKER:-z,nodelete" "LINKER:--as-needed"
)
set_target_properties(
    sidelatch_verbs
    PROPERTIES OUTPUT_NAME sidelatch-verbs
               LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}"
               CXX_VISIBILITY_PRESET hidden
               LINK_DEPENDS "${SIDELATCH_VERBS_EXPORTS}"
)

file(GLOB SIDELATCH_TOOLS CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tools/*.cpp")
if(SIDELATCH_TOOLS AND SIDELATCH_BUILD_PROGRAM)
    add_executable(sidelatch ${SIDELATCH_TOOLS})
    target_link_libraries(sidelatch PRIVATE sidelatch_flags sidelatch_static CLI11::CLI11 ${SIDELATCH_DEPENDENCIES})
    set_target_properties(sidelatch PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
endif()
