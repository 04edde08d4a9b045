// Puts tables and registers into the first stage from theirs on that has room for them; ingress and egress share the
// stages. What depends on them stays where it was: whether another order of them had room is more than an estimate can
// say.
#include "fit_stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sidelatch::p4 {

namespace {

// Stages, and memory blocks in each: the published numbers of Tofino; those of Tofino 2 are the same for a stage.
constexpr std::size_t kSramBlocksPerStage = 80;
constexpr std::size_t kTcamBlocksPerStage = 24;

std::size_t stages_of(Chip chip) { return chip == Chip::tofino ? 12 : 20; }

// A block that a packet writes needs a map RAM, too: 6 columns of 8 in a stage (p4c, backends/tofino). A register is in
// one stage.
constexpr std::size_t kMapRamsPerStage = 48;
constexpr std::size_t kStatefulAlusPerStage = 4;
constexpr std::size_t kTablesPerStage = 16;
constexpr std::size_t kSramBits = std::size_t{1024} * 128;
constexpr std::size_t kTcamRows = 512;
constexpr std::size_t kTcamBits = 44;
constexpr int kNoStage = 0;

std::size_t divided(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

struct Stage {
  std::size_t blocks = 0;  // of registers
  std::size_t registers = 0;
  std::size_t tables = 0;
};

class Filling {
 public:
  Filling(const ir::Program& program, FitReport& report)
      : program_(program), report_(report), stages_(report.chip_stages) {}

  // Of those for one stage the largest first: it finds room in fewer stages.
  void registers(std::map<int, FirstStage>& first) {
    std::vector<int> order;
    for (const auto& [which, stage] : first) {
      if (blocks_of(which) <= kMapRamsPerStage) {
        order.push_back(which);
      } else {
        first.at(which).second = kNoStage;
        finding(
            fmt::format("the register {} needs {} SRAM blocks; packets can write to {} of a stage, and it is in "
                        "one stage",
                        info(which).name, blocks_of(which), kMapRamsPerStage));
      }
    }
    std::ranges::stable_sort(order, {}, [&](int which) {
      return std::pair(first.at(which).second, -static_cast<std::ptrdiff_t>(blocks_of(which)));
    });
    std::vector<std::string> left_over;
    for (const int which : order) {
      const std::size_t blocks = blocks_of(which);
      Stage* found = find(first.at(which), [blocks](const Stage& stage) {
        return stage.registers < kStatefulAlusPerStage && stage.blocks + blocks <= kMapRamsPerStage;
      });
      if (found != nullptr) {
        ++found->registers;
        found->blocks += blocks;
      } else if (is_on_chip(first.at(which))) {
        left_over.push_back(info(which).name);
        first.at(which).second = kNoStage;
      }
    }
    say(left_over, order.size(), "registers",
        fmt::format("{} stateful ALUs, and {} SRAM blocks that packets can write to", kStatefulAlusPerStage,
                    kMapRamsPerStage));
  }

  void tables(std::map<std::size_t, FirstStage>& first) {
    std::vector<std::size_t> order;
    order.reserve(first.size());
    for (const auto& [which, stage] : first) {
      order.push_back(which);
    }
    std::ranges::stable_sort(order, {}, [&](std::size_t which) { return first.at(which).second; });
    std::vector<std::string> left_over;
    for (const std::size_t which : order) {
      Stage* found = find(first.at(which), [](const Stage& stage) { return stage.tables < kTablesPerStage; });
      if (found != nullptr) {
        ++found->tables;
      } else if (is_on_chip(first.at(which))) {
        left_over.push_back(program_.info.tables[which].name);
        first.at(which).second = kNoStage;
      }
    }
    say(left_over, order.size(), "tables", fmt::format("{}", kTablesPerStage));
  }

  void memory_of_register(int which, const FirstStage& stage) {
    const std::size_t blocks = blocks_of(which);
    report_.sram_blocks += blocks;
    report_.placements.push_back(fmt::format("{}: register {}, {} x {} bits, {} SRAM blocks", place(stage),
                                             info(which).name, info(which).size, info(which).width, blocks));
  }

  void memory_of_table(std::size_t which, const FirstStage& stage) {
    const TableInfo& info = program_.info.tables[which];
    std::size_t key_bits = 0;
    bool ternary = false;
    for (const KeyInfo& key : info.keys) {
      key_bits += key.width;
      ternary = ternary || key.kind != MatchKind::exact;
    }
    std::size_t data_bits = 0;
    for (const ActionInfo& action : info.actions) {
      std::size_t bits = 8;
      for (const ParameterInfo& one : action.parameters) {
        bits += one.width;
      }
      data_bits = std::max(data_bits, bits);
    }
    const std::size_t tcam = ternary ? divided(info.size, kTcamRows) * divided(key_bits, kTcamBits) : 0;
    const std::size_t sram = divided(info.size * (data_bits + (ternary ? 0 : key_bits)), kSramBits);
    report_.sram_blocks += info.keys.empty() ? 0 : sram;
    report_.tcam_blocks += info.keys.empty() ? 0 : tcam;
    report_.placements.push_back(fmt::format("{}: table {}, {} entries, {} key bits, {} SRAM and {} TCAM blocks",
                                             place(stage), info.name, info.size, key_bits, sram, tcam));
  }

 private:
  [[nodiscard]] const RegisterInfo& info(int which) const {
    return program_.info.registers[static_cast<std::size_t>(which)];
  }

  [[nodiscard]] std::size_t blocks_of(int which) const {
    const unsigned bits = info(which).width;
    const unsigned width = bits <= 8 ? 8 : bits <= 16 ? 16 : bits <= 32 ? 32 : 64;
    return divided(info(which).size * width, kSramBits) + 1;  // one more, as a stateful ALU needs a spare
  }

  static std::string place(const FirstStage& stage) {
    return stage.second == kNoStage ? fmt::format("{} no stage", stage.first)
                                    : fmt::format("{} stage {:2}", stage.first, stage.second);
  }

  // If it needs more stages than there are, that is said already.
  [[nodiscard]] bool is_on_chip(const FirstStage& first) const {
    return static_cast<std::size_t>(first.second) <= stages_.size();
  }

  template <class Fits>
  Stage* find(FirstStage& first, const Fits& fits) {
    for (auto stage = static_cast<std::size_t>(first.second); stage <= stages_.size(); ++stage) {
      if (fits(stages_[stage - 1])) {
        first.second = static_cast<int>(stage);
        return &stages_[stage - 1];
      }
    }
    return nullptr;
  }

  void say(const std::vector<std::string>& left_over, std::size_t all, const char* what, const std::string& room) {
    if (!left_over.empty()) {
      finding(fmt::format("{} of {} {} find no stage, {} is the first of them; a stage has {}", left_over.size(), all,
                          what, left_over.front(), room));
    }
  }

  void finding(const std::string& message) {
    report_.findings.push_back(fmt::format("{}: {}", program_.info.name, message));
  }

  const ir::Program& program_;
  FitReport& report_;
  std::vector<Stage> stages_;
};

}  // namespace

void describe_stages(Chip chip, FitReport& report) {
  report.chip_stages = stages_of(chip);
  report.chip_sram_blocks = report.chip_stages * kSramBlocksPerStage;
  report.chip_tcam_blocks = report.chip_stages * kTcamBlocksPerStage;
}

void fill_stages(const ir::Program& program, std::map<int, FirstStage> registers,
                 std::map<std::size_t, FirstStage> tables, FitReport& report) {
  Filling filling(program, report);
  filling.registers(registers);
  filling.tables(tables);
  for (const auto& [which, stage] : registers) {
    filling.memory_of_register(which, stage);
  }
  for (const auto& [which, stage] : tables) {
    filling.memory_of_table(which, stage);
  }
  std::ranges::sort(report.placements);
}

}  // namespace sidelatch::p4
