# Each bench/micro/NAME.cpp is a Google Benchmark program bench_NAME. They are built with the rest so that they keep
# compiling, and run by hand: a time is no test.
file(GLOB micro CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/micro/*.cpp")
foreach(source IN LISTS micro)
    get_filename_component(name "${source}" NAME_WE)
    add_executable(bench_${name} "${source}")
    target_link_libraries(
        bench_${name} PRIVATE sidelatch_flags sidelatch_static benchmark::benchmark benchmark::benchmark_main
                              ${SIDELATCH_DEPENDENCIES}
    )
endforeach()
sidelatch_add_p4(bench_switch "${PROJECT_SOURCE_DIR}/p4/l2_l3.p4")
target_include_directories(bench_switch PRIVATE "${SIDELATCH_P4_HEADERS}")
target_compile_definitions(bench_switch PRIVATE SIDELATCH_P4_FOLDER="${PROJECT_SOURCE_DIR}/p4")
