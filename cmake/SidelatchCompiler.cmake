# The flags every target of this project is built with: sidelatch_flags, linked privately.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

find_program(SIDELATCH_CCACHE ccache)
if(SIDELATCH_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${SIDELATCH_CCACHE}")
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

# sidelatch_unite(TARGET SOURCE...): with SIDELATCH_UNITY, up to SIDELATCH_UNITY_FILES sources of one folder are compiled
# as one. Most of a small file's cost is parsing headers.
set(SIDELATCH_UNITY_FILES 8)
function(sidelatch_unite target)
    if(NOT SIDELATCH_UNITY)
        return()
    endif()
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
        # It takes what a source file includes for a header, and each source file is included here.
        target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
    endif()
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    foreach(source IN LISTS ARGN)
        get_filename_component(folder "${source}" DIRECTORY)
        string(MAKE_C_IDENTIFIER "${folder}" folder)
        if(NOT DEFINED count_${folder})
            set(count_${folder} 0)
        endif()
        math(EXPR group "${count_${folder}} / ${SIDELATCH_UNITY_FILES}")
        math(EXPR count_${folder} "${count_${folder}} + 1")
        set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${folder}_${group}")
    endforeach()
endfunction()
