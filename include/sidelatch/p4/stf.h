// Packet tests in the format STF, which the reference compiler's tests use: what to put into tables, packets to send,
// packets to expect.
//
//   const p4::StfResult result = p4::run_stf(program, text, "test.stf");
//   if (!result.passed()) for (const auto& failure : result.failures) std::cerr << failure << '\n';
//
// docs/p4.md lists the commands.
#pragma once

#include <sidelatch/p4/program.h>

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace sidelatch::p4 {

/// A line that is no STF, or names what the program does not have: "FILE:LINE: error: MESSAGE".
class StfError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct StfResult {
  std::size_t sent = 0;
  std::size_t expected = 0;
  /// One text for each expectation that was not met: "FILE:LINE: MESSAGE".
  std::vector<std::string> failures;
  [[nodiscard]] bool passed() const { return failures.empty(); }
};

/// Runs a test on a fresh switch. Throws StfError.
[[nodiscard]] StfResult run_stf(const std::shared_ptr<const Program>& program, const std::string& text,
                                const std::string& name);

}  // namespace sidelatch::p4
