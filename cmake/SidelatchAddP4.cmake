# sidelatch_add_p4(TARGET PROGRAM.p4... [INCLUDE FOLDER...]) compiles switch programs to C++ and adds them to a target, as
# protoc is used. "l2-switch.p4" gives <p4/l2_switch.h>, which declares
# std::shared_ptr<const sidelatch::p4::Program> sidelatch::p4::programs::l2_switch(). A relative path is one in the
# current source folder. After a change of any file that a program includes, the next build compiles it again.

# Ninja finds in a depfile only names as CMake writes them in build.ninja. The function keeps this policy whatever its
# caller has; an include() or a find_package() does not hand it on.
cmake_policy(SET CMP0116 NEW)

function(sidelatch_add_p4 target)
    cmake_parse_arguments(PARSE_ARGV 1 P4 "" "" "INCLUDE")
    set(folder "${CMAKE_CURRENT_BINARY_DIR}/p4_programs/${target}")
    file(MAKE_DIRECTORY "${folder}/p4")
    set(includes "")
    foreach(include IN LISTS P4_INCLUDE)
        if(NOT include MATCHES "^\\$<")
            get_filename_component(include "${include}" ABSOLUTE) # the compiler runs in the build folder
        endif()
        list(APPEND includes -I "${include}")
    endforeach()
    foreach(program IN LISTS P4_UNPARSED_ARGUMENTS)
        get_filename_component(name "${program}" NAME_WE)
        get_filename_component(path "${program}" ABSOLUTE)
        string(MAKE_C_IDENTIFIER "${name}" name)
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
            COMMAND sidelatch::p4c "${path}" -o "${folder}/p4/${name}.cpp" --depfile "${folder}/p4/${name}.d" --function
                    "${name}" ${includes}
            DEPENDS sidelatch::p4c "${path}"
            DEPFILE "${folder}/p4/${name}.d"
            COMMENT "Compiling ${name}.p4"
            VERBATIM
        )
        target_sources(${target} PRIVATE "${folder}/p4/${name}.cpp" "${folder}/p4/${name}.h")
    endforeach()
    target_include_directories(${target} PRIVATE "${folder}")
endfunction()
