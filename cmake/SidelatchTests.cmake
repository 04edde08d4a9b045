# tests/FOLDER/**/*.cpp            -> test_FOLDER,          label FOLDER
# tests/FOLDER/**/*_threaded_*.cpp -> test_FOLDER_threaded, labels FOLDER and threaded
# tests/vm/**/*.cpp                -> test_vm, run as the one test `vm` in a guest with an RDMA device, label vm;
#                                     but tests/vm/softnic/peer/*.cpp -> roce_peer, which it and the test `vm.link` run,
#                                     and tests/vm/switch/latch_peer.cpp -> latch_peer
# tests/fuzz/NAME_fuzz.cpp         -> fuzz_NAME, with libFuzzer (clang with AddressSanitizer only), run as the test
#                                     fuzzer.NAME on its corpus and some mutations, label fuzz. scripts/fuzz runs it for long
# examples/NAME.cpp                -> NAME, run as the test example.NAME, label example; on the software NIC if it is of
#                                     fabric/verbs. One that includes softnic/launch.h starts the software NIC itself
#
# One program per folder and not per file: linking is what costs on a small machine. Tests that start threads live in
# files named *_threaded_test.cpp; they alone are built and run under ThreadSanitizer (target threaded_tests).
include(GoogleTest)
add_custom_target(threaded_tests)

configure_file("${PROJECT_SOURCE_DIR}/cmake/test_paths.cpp.in" "${SIDELATCH_GENERATED}/test_paths.cpp" @ONLY)
add_library(sidelatch_test_paths OBJECT "${SIDELATCH_GENERATED}/test_paths.cpp")
target_link_libraries(sidelatch_test_paths PRIVATE sidelatch_flags)

function(sidelatch_make_test_program target)
    sidelatch_unite(sources ${target} ${ARGN})
    add_executable(${target} ${sources} $<TARGET_OBJECTS:sidelatch_test_paths>)
    target_link_libraries(
        ${target} PRIVATE sidelatch_flags sidelatch_static GTest::gmock GTest::gtest_main ${SIDELATCH_DEPENDENCIES}
    )
    # A test is compiled for longer than it runs; the library that it tests is optimized. (tests/cost counts instructions
    # of inline functions, too.)
    if(NOT target STREQUAL "test_cost")
        target_compile_options(${target} PRIVATE -O0)
    endif()
    # UndefinedBehaviorSanitizer is for the library; in a test it more than doubles the time to compile it.
    if(SIDELATCH_SANITIZE MATCHES "undefined|bounds")
        # Of the sources: options of a target come before those of sidelatch_flags, and the last one counts.
        set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS -fno-sanitize=undefined)
    endif()
    # The oracle of the explorer visits states by the million.
    foreach(source IN LISTS sources)
        if(source MATCHES "explore[_/]oracle")
            set_property(SOURCE "${source}" APPEND PROPERTY COMPILE_OPTIONS -O2)
        endif()
    endforeach()
    set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
endfunction()

function(sidelatch_add_test_program target labels)
    sidelatch_make_test_program(${target} ${ARGN})
    list(GET labels 0 folder)
    # PRE_TEST: the list of tests is asked for when ctest runs, so that a build never runs what it just built.
    gtest_discover_tests(
        ${target}
        TEST_PREFIX "${folder}."
        DISCOVERY_MODE PRE_TEST
        NO_PRETTY_VALUES # a test keeps the name its source gives it
        DISCOVERY_TIMEOUT 60
        WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
        PROPERTIES TIMEOUT ${SIDELATCH_TEST_TIMEOUT}
    )
    # PROPERTIES above flattens lists, so a test with two labels gets them here, once its name is known.
    set(label_file "${PROJECT_BINARY_DIR}/${target}_labels.cmake")
    file(WRITE "${label_file}"
         "if(${target}_TESTS)\n  set_tests_properties(\${${target}_TESTS} PROPERTIES LABELS \"${labels}\")\nendif()\n"
    )
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${label_file}")
endfunction()

# Seconds for one test: far above what any needs, so that only a hang is cut off.
set(SIDELATCH_TEST_TIMEOUT "" CACHE STRING "Seconds for one test; empty for 300, or 900 under a sanitizer")
if(NOT SIDELATCH_TEST_TIMEOUT)
    if(SIDELATCH_SANITIZE)
        set(SIDELATCH_TEST_TIMEOUT 900)
    else()
        set(SIDELATCH_TEST_TIMEOUT 300)
    endif()
endif()

file(GLOB test_folders CONFIGURE_DEPENDS LIST_DIRECTORIES true "${PROJECT_SOURCE_DIR}/tests/*")
list(REMOVE_ITEM test_folders "${PROJECT_SOURCE_DIR}/tests/vm")
if(NOT TARGET sidelatch)
    list(REMOVE_ITEM test_folders "${PROJECT_SOURCE_DIR}/tests/tools")
endif()
foreach(path IN LISTS test_folders)
    get_filename_component(folder "${path}" NAME)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${path}/*.cpp")
    set(threaded ${sources})
    list(FILTER threaded INCLUDE REGEX "_threaded_test\\.cpp$")
    # Helpers without tests of their own are part of both programs.
    set(helpers ${sources})
    list(FILTER helpers EXCLUDE REGEX "_test\\.cpp$")
    list(FILTER sources EXCLUDE REGEX "_threaded_test\\.cpp$")
    if(NOT "${sources}" STREQUAL "${helpers}")
        sidelatch_add_test_program(test_${folder} "${folder}" ${sources})
    endif()
    if(threaded)
        sidelatch_add_test_program(test_${folder}_threaded "${folder};threaded" ${threaded} ${helpers})
        add_dependencies(threaded_tests test_${folder}_threaded)
    endif()
endforeach()

file(GLOB_RECURSE vm_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/vm/*.cpp")
# tests/vm/softnic starts it with the software NIC and without, so it has nothing but libibverbs.
file(GLOB peer_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/vm/softnic/peer/*.cpp")
list(REMOVE_ITEM vm_sources ${peer_sources} "${PROJECT_SOURCE_DIR}/tests/vm/switch/latch_peer.cpp")
add_executable(roce_peer ${peer_sources})
target_link_libraries(roce_peer PRIVATE sidelatch_flags PkgConfig::libibverbs fmt::fmt)
set_target_properties(roce_peer PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
add_executable(latch_peer "${PROJECT_SOURCE_DIR}/tests/vm/switch/latch_peer.cpp")
target_link_libraries(latch_peer PRIVATE sidelatch_flags sidelatch_static fmt::fmt)
set_target_properties(latch_peer PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
sidelatch_make_test_program(test_vm ${vm_sources})
add_dependencies(test_vm roce_peer latch_peer sidelatch_verbs)
add_test(NAME vm COMMAND "${PROJECT_SOURCE_DIR}/tests/vm/run" "${PROJECT_BINARY_DIR}")
set_tests_properties(vm PROPERTIES LABELS vm TIMEOUT 1620 SKIP_RETURN_CODE 77 RUN_SERIAL ON)
add_test(NAME vm.link COMMAND "${PROJECT_SOURCE_DIR}/tests/vm/link" "${PROJECT_BINARY_DIR}")
set_tests_properties(vm.link PROPERTIES LABELS vm TIMEOUT 660 SKIP_RETURN_CODE 77 RUN_SERIAL ON)
if(SIDELATCH_BUILD_MICRO)
    add_dependencies(test_vm bench_verbs) # tests/vm/perftest runs it
endif()

# These, too, use the provider that tests/fabric has instead of libibverbs: what an operation over verbs costs is counted
# with it, and it has the ports that a unit of a flow chooses from.
foreach(target test_cost test_flows)
    target_sources(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests/fabric/verbs/stub_provider.cpp")
endforeach()

if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND SIDELATCH_SANITIZE MATCHES "address")
    add_custom_target(fuzzers)
    file(GLOB fuzzers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/fuzz/*_fuzz.cpp")
    foreach(source IN LISTS fuzzers)
        get_filename_component(target "${source}" NAME_WE)
        string(REGEX REPLACE "_fuzz$" "" name "${target}")
        add_executable(fuzz_${name} "${source}")
        target_compile_definitions(fuzz_${name} PRIVATE SIDELATCH_LIBFUZZER)
        target_link_libraries(fuzz_${name} PRIVATE sidelatch_flags sidelatch_static ${SIDELATCH_DEPENDENCIES})
        target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
        set_target_properties(fuzz_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
        add_dependencies(fuzzers fuzz_${name})
        add_test(NAME fuzzer.${name} COMMAND "${PROJECT_SOURCE_DIR}/tests/fuzz/run" "$<TARGET_FILE:fuzz_${name}>" ${name}
                                             -runs=2000
        )
        set_tests_properties(fuzzer.${name} PROPERTIES LABELS fuzz TIMEOUT ${SIDELATCH_TEST_TIMEOUT})
    endforeach()
endif()

if(SIDELATCH_CHECK_HEADERS)
    # CMake makes the target it depends on when it generates, and keeps it out of "all".
    add_custom_target(headers_selfcontained ALL)
    add_dependencies(headers_selfcontained sidelatch_static_verify_interface_header_sets)
endif()

# The samples of packets of tests/roce serve the NIC's tests, too.
foreach(target test_softnic test_softnic_threaded)
    target_sources(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests/roce/samples.cpp")
endforeach()

# The programs of tests/p4/corpus in both forms: tests/p4/compiled_test.cpp compares them.
file(GLOB p4_corpus CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/p4/corpus/*.stf")
list(TRANSFORM p4_corpus REPLACE "\\.stf$" ".p4")
sidelatch_add_p4(test_p4 ${p4_corpus})
set(p4_includes "")
set(p4_rows "")
foreach(program IN LISTS p4_corpus)
    get_filename_component(name "${program}" NAME_WE)
    string(MAKE_C_IDENTIFIER "${name}" function)
    string(APPEND p4_includes "#include <p4/${function}.h>\n")
    string(APPEND p4_rows "P4_PROGRAM(\"${name}\", ${function})\n")
endforeach()
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/p4_programs/test_p4/p4/corpus.h" CONTENT "${p4_includes}")
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/p4_programs/test_p4/p4/corpus.inc" CONTENT "${p4_rows}")

# The programs of p4/ serve NICs: those of tests/softnic.
target_include_directories(test_switchsync PRIVATE "${SIDELATCH_P4_HEADERS}")
target_sources(test_switchsync PRIVATE "${PROJECT_SOURCE_DIR}/tests/softnic/nic/wired_nics.cpp")
foreach(target test_flows test_flows_threaded)
    target_sources(
        ${target}
        PRIVATE "${PROJECT_SOURCE_DIR}/tests/softnic/nic/wired_nics.cpp" "${PROJECT_SOURCE_DIR}/tests/switchsync/switched_nics.cpp"
                "${PROJECT_SOURCE_DIR}/tests/switchsync/changed_program.cpp"
    )
endforeach()

# tests/tools runs the program itself, and its units of flows preload the library.
foreach(target test_tools test_tools_threaded)
    if(TARGET ${target} AND TARGET sidelatch)
        add_dependencies(${target} sidelatch sidelatch_verbs latch_peer example_flow_join)
    endif()
endforeach()

# tests/softnic preloads the library into programs: those of Debian, and one of its own.
foreach(target test_softnic test_softnic_threaded)
    if(TARGET ${target})
        add_dependencies(${target} sidelatch_verbs)
        if(TARGET sidelatch) # runs the switch
            add_dependencies(${target} sidelatch)
        endif()
    endif()
endforeach()

# The verbs fabric's own tests need an RDMA device, and the software NIC is one. Left to the guest: what asks for its
# kernel (connection manager, events, placement) or for the device's name.
if(TARGET sidelatch AND NOT SIDELATCH_SANITIZE)
    string(SHA1 build_id "${PROJECT_BINARY_DIR}") # two clones may be tested at once
    string(SUBSTRING "${build_id}" 0 8 build_id)
    add_test(NAME softnic.verbs
             COMMAND sidelatch softnic run --wire shm:ctest-verbs-${build_id} -- $<TARGET_FILE:test_vm>
                     "--gtest_filter=VerbsQueuePairs.*:*SchemesOnVerbs*:*StructuresOnVerbs*:LeasesOnVerbs.*:*VerbsMemoryServer*/exchange:Verbs/TwoSidedMessages.*:Verbs/NodeCpu.*:RpcLatchOnVerbs.*:SceneOnNic.*"
    )
    set_tests_properties(softnic.verbs PROPERTIES LABELS softnic TIMEOUT ${SIDELATCH_TEST_TIMEOUT})
endif()

# The installation, used by a project outside. It needs all of the build.
if(TARGET sidelatch AND SIDELATCH_INSTALL AND NOT SIDELATCH_SANITIZE)
    add_test(NAME install COMMAND "${PROJECT_SOURCE_DIR}/tests/install/run" "${PROJECT_BINARY_DIR}")
    set_tests_properties(install PROPERTIES LABELS install TIMEOUT ${SIDELATCH_TEST_TIMEOUT})
endif()

file(GLOB examples CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/*.cpp")
foreach(source IN LISTS examples)
    get_filename_component(name "${source}" NAME_WE)
    add_executable(example_${name} "${source}")
    # No sidelatch_flags include path: an example sees what a user of the installed library sees.
    target_link_libraries(example_${name} PRIVATE sidelatch_flags sidelatch_static fmt::fmt)
    set_target_properties(
        example_${name} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/examples"
    )
    # What needs an RDMA device gets the software NIC, which no sanitizer can be preloaded with.
    file(STRINGS "${source}" on_verbs REGEX "<sidelatch/fabric/verbs/")
    file(STRINGS "${source}" on_launch REGEX "<sidelatch/softnic/launch.h>")
    if(on_launch AND SIDELATCH_SANITIZE)
        continue()
    elseif(on_launch)
        add_dependencies(example_${name} sidelatch_verbs)
        target_link_libraries(example_${name} PRIVATE PkgConfig::libibverbs)
    endif()
    if(NOT on_verbs)
        add_test(NAME example.${name} COMMAND example_${name})
    elseif(TARGET sidelatch AND NOT SIDELATCH_SANITIZE)
        add_test(NAME example.${name} COMMAND sidelatch softnic run --wire shm:ctest-${name}-${build_id}
                                              -- $<TARGET_FILE:example_${name}>
        )
        add_dependencies(example_${name} sidelatch sidelatch_verbs)
    else()
        continue()
    endif()
    if(on_launch)
        set_tests_properties(
            example.${name} PROPERTIES ENVIRONMENT "SIDELATCH_SOFTNIC_LIBRARY=$<TARGET_FILE:sidelatch_verbs>"
        )
    endif()
    set_tests_properties(example.${name} PROPERTIES LABELS example TIMEOUT ${SIDELATCH_TEST_TIMEOUT})
endforeach()
