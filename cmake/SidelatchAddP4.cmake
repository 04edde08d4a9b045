# sidelatch_add_p4(TARGET PROGRAM.p4... [INCLUDE FOLDER...]) compiles switch programs to C++ and adds them to a target, as
# protoc is used. "l2-switch.p4" gives <p4/l2_switch.h>, which declares
# std::shared_ptr<const sidelatch::p4::Program> sidelatch::p4::programs::l2_switch().
function(sidelatch_add_p4 target)
    cmake_parse_arguments(PARSE_ARGV 1 P4 "" "" "INCLUDE")
    set(folder "${CMAKE_CURRENT_BINARY_DIR}/p4_programs/${target}")
    file(MAKE_DIRECTORY "${folder}/p4")
    set(includes "")
    foreach(include IN LISTS P4_INCLUDE)
        list(APPEND includes -I "${include}")
    endforeach()
    foreach(program IN LISTS P4_UNPARSED_ARGUMENTS)
        get_filename_component(name "${program}" NAME_WE)
        get_filename_component(path "${program}" ABSOLUTE)
        get_filename_component(beside "${path}" DIRECTORY)
        string(MAKE_C_IDENTIFIER "${name}" name)
        file(GLOB included CONFIGURE_DEPENDS "${beside}/*.p4" "${beside}/include/*.p4" "${beside}/../*.p4"
             "${beside}/../include/*.p4"
        )
        # The header is there once CMake has run, for clang-tidy and editors; it is what `--header` writes.
        file(CONFIGURE OUTPUT "${folder}/p4/${name}.h" CONTENT
"// Made by sidelatch_add_p4; do not edit.
#pragma once

#include <sidelatch/p4/program.h>

#include <memory>

namespace sidelatch::p4::programs {

[[nodiscard]] std::shared_ptr<const Program> ${name}();

}  // namespace sidelatch::p4::programs
"
        )
        add_custom_command(
            OUTPUT "${folder}/p4/${name}.cpp"
            COMMAND sidelatch::p4c "${path}" -o "${folder}/p4/${name}.cpp" --function "${name}" ${includes}
            DEPENDS sidelatch::p4c ${included}
            COMMENT "Compiling ${name}.p4"
            VERBATIM
        )
        target_sources(${target} PRIVATE "${folder}/p4/${name}.cpp" "${folder}/p4/${name}.h")
    endforeach()
    target_include_directories(${target} PRIVATE "${folder}")
endfunction()
