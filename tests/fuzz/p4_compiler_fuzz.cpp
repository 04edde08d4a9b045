// Any text is refused with a CompileError, or is a program that the interpreter runs and that can be written as C++.
// Run by libFuzzer (`scripts/fuzz p4-compiler`), and briefly by p4_compiler_test.cpp.
#include "tests/fuzz/p4_compiler_fuzz.h"

#include <sidelatch/p4/compile.h>
#include <sidelatch/p4/switch.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

namespace {

using namespace sidelatch::p4;

void require_of_compiler(bool holds, const char* what) {
  if (!holds) {
    std::fprintf(stderr, "p4_compiler_fuzz: %s\n", what);
    std::abort();
  }
}

}  // namespace

bool sidelatch::p4::check_compiler(const std::string& text) {
  std::shared_ptr<const Program> program;
  try {
    program = compile(text, "fuzz.p4");
  } catch (const CompileError& error) {
    require_of_compiler(std::strstr(error.what(), "error: ") != nullptr, "a message without 'error: '");
    return false;
  }
  if (program->frame_bytes() > 1'000'000) {
    return true;
  }
  Switch device(program, {.ports = 8, .packet_bytes = 2048});
  for (std::size_t length : {0U, 1U, 14U, 64U, 200U}) {
    std::vector<std::byte> packet(length);
    for (std::size_t i = 0; i < length; ++i) {
      packet[i] = static_cast<std::byte>(i * length);
    }
    device.receive(1, packet);
    device.run(50);
    while (device.departed()) {
    }
  }
  return true;
}

#ifdef SIDELATCH_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check_compiler(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
#endif
