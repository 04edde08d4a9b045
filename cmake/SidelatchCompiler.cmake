# The flags every target of this project is built with: sidelatch_flags, linked privately.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# The compiler cache serves every clone: paths are relative to the source tree, and the build folder's name is not hashed.
find_program(SIDELATCH_CCACHE ccache)
if(SIDELATCH_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER
        "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1 "${SIDELATCH_CCACHE}"
    )
endif()

add_library(sidelatch_flags INTERFACE)
# No semantic interposition: otherwise position-independent code may not inline a function of its own file.
# x86-64-v2, never native: a binary built here must run on the next machine, and two builds must behave alike.
target_compile_options(
    sidelatch_flags
    INTERFACE -march=x86-64-v2
              -fno-semantic-interposition
              -Wall
              -Wextra
              -Wpedantic
              -Wshadow
              -Wconversion
              -Wsign-conversion
              -Wnon-virtual-dtor
              -Wold-style-cast
              -Woverloaded-virtual
              -Wimplicit-fallthrough
)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # GCC bug 105329, gone in 13: "text" + std::string(...) warns inside the standard library when optimized.
    target_compile_options(sidelatch_flags INTERFACE -Wno-restrict)
endif()
# Private headers are named from the root of the source tree ("sync/words.h"); tests/layering says who may.
target_include_directories(sidelatch_flags INTERFACE "${PROJECT_SOURCE_DIR}")

if(SIDELATCH_SANITIZE)
    target_compile_options(
        sidelatch_flags INTERFACE "-fsanitize=${SIDELATCH_SANITIZE}" -fno-sanitize-recover=all -fno-omit-frame-pointer
    )
    target_link_options(sidelatch_flags INTERFACE "-fsanitize=${SIDELATCH_SANITIZE}")
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
        # GCC says so itself: the instrumentation hides initializations from these two analyses.
        target_compile_options(sidelatch_flags INTERFACE -Wno-maybe-uninitialized -Wno-stringop-overflow)
    endif()
endif()

# sidelatch_unite(OUT NAME SOURCE...) sets OUT to what is to be compiled in the place of SOURCE...: with SIDELATCH_UNITY, up
# to SIDELATCH_UNITY_FILES sources of one folder are compiled as one, since most of a small file's cost is parsing
# headers. Names in anonymous namespaces must therefore be unique in a folder. NAME: one for each call.
# (CMake's own UNITY_BUILD names sources by absolute paths, so that a compiler cache would serve one clone only.)
set(SIDELATCH_UNITY_FILES 8)
function(sidelatch_unite out name)
    if(SIDELATCH_UNITY STREQUAL "OFF" OR (SIDELATCH_UNITY STREQUAL "TESTS" AND name MATCHES "^(library|verbs|p4c)$"))
        set(${out} ${ARGN} PARENT_SCOPE)
        return()
    endif()
    set(units "")
    foreach(source IN LISTS ARGN)
        file(RELATIVE_PATH path "${PROJECT_SOURCE_DIR}" "${source}")
        get_filename_component(folder "${path}" DIRECTORY)
        string(MAKE_C_IDENTIFIER "${folder}" folder)
        if(NOT DEFINED count_${folder})
            set(count_${folder} 0)
        endif()
        math(EXPR number "${count_${folder}} / ${SIDELATCH_UNITY_FILES}")
        math(EXPR count_${folder} "${count_${folder}} + 1")
        set(unit "${folder}_${number}")
        list(APPEND units ${unit})
        string(APPEND text_${unit} "#include \"${path}\"\n")
    endforeach()
    list(REMOVE_DUPLICATES units)
    set(files "")
    foreach(unit IN LISTS units)
        set(file "${PROJECT_BINARY_DIR}/united/${name}/${unit}.cpp")
        file(CONFIGURE OUTPUT "${file}" CONTENT "${text_${unit}}")
        list(APPEND files "${file}")
    endforeach()
    set(${out} ${files} PARENT_SCOPE)
endfunction()
if(NOT SIDELATCH_UNITY STREQUAL "OFF" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC takes what a source file includes for a header, and each source file is included here.
    target_compile_options(sidelatch_flags INTERFACE -Wno-subobject-linkage)
endif()
