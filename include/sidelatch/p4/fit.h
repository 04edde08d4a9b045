// Estimates whether a program fits a Tofino. It is an estimate, made without the vendor's compiler: it knows the number
// of stages, what a stateful ALU takes, the memory of the chip, and the tables, stateful ALUs and memory for registers
// of a stage, not the allocation of containers, crossbars or hash bits.
#pragma once

#include <sidelatch/p4/compile.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace sidelatch::p4 {

enum class Chip : std::uint8_t { tofino, tofino2 };

struct FitReport {
  /// What does not fit, each as "FILE:LINE:COLUMN: MESSAGE".
  std::vector<std::string> findings;
  std::size_t ingress_stages = 0;
  std::size_t egress_stages = 0;
  std::size_t chip_stages = 0;
  /// Blocks of 16 KiB for exact keys, action data and registers, and of 512 x 44 bits for ternary keys. Counters are
  /// left out.
  std::size_t sram_blocks = 0;
  std::size_t tcam_blocks = 0;
  std::size_t chip_sram_blocks = 0;
  std::size_t chip_tcam_blocks = 0;
  /// One line for each table and register: its stage and its memory.
  std::vector<std::string> placements;

  [[nodiscard]] bool fits() const { return findings.empty(); }
};

/// "tofino" or "tofino2"; throws std::invalid_argument for another name.
[[nodiscard]] Chip parse_chip(const std::string& name);

/// Throws CompileError.
[[nodiscard]] FitReport fit(const std::filesystem::path& file, Chip chip, const CompileOptions& options = {});
[[nodiscard]] std::string to_text(const FitReport& report, Chip chip);

}  // namespace sidelatch::p4
