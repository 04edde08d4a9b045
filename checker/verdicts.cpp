#include "verdicts.h"

#include <sidelatch/checker/atomics.h>
#include <sidelatch/checker/order.h>
#include <sidelatch/checker/visibility.h>
#include <sidelatch/explore/scheme_check.h>
#include <sidelatch/fabric/types.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

namespace sidelatch::checker {

using fabric::model::Preset;

namespace {

// One rule of the memory model that every scheme may rely on, and the probe that tries to refute it.
struct Assumption {
  std::string_view text;
  std::string probe;
  Preset weakest = Preset::relaxed;  // the weakest preset that promises it
};

const std::vector<Assumption>& assumptions() {
  static const std::vector<Assumption> kAll = {
      {"atomics of this NIC exclude each other", std::string(name(Rival::nic))},
      {"a READ sees what had completed before it was posted", std::string(name(Pair::completed_write_read))},
      {"an atomic sees what had completed before it was posted", std::string(name(Pair::completed_write_atomic))},
      {"a READ waits for the WRITEs before it on its queue pair", std::string(name(Pair::write_read))},
      {"an atomic waits for the WRITEs before it on its queue pair", std::string(name(Pair::write_atomic))},
      {"a READ waits for the atomics before it on its queue pair", std::string(name(Pair::atomic_read))},
      {"atomics of one queue pair on one word are executed in their order", std::string(name(Pair::atomic_atomic))},
      {"a fenced WRITE waits for the READs before it on its queue pair", std::string(name(Pair::fenced_read_write))},
      {"a fenced WRITE waits for the atomics before it on its queue pair",
       std::string(name(Pair::fenced_atomic_write))},
      {"a fenced atomic waits for the atomics before it on its queue pair",
       std::string(name(Pair::fenced_atomic_atomic))},
      {"WRITEs of one queue pair are placed in their order", std::string(name(Sight::write_write)), Preset::spec},
      {"the lines of one WRITE are placed in ascending order", std::string(name(Sight::lines_within_write)),
       Preset::observed},
  };
  return kAll;
}

// What the proof rests on, too, and no probe tries. Fences are probed where the schemes of the registry have them.
constexpr std::array kUnprobed = {
    "the requests of a queue pair complete in posting order (no probe tries this)",
    "a fence holds back a READ as it does an atomic, and an atomic behind READs as it does a WRITE (no probe tries "
    "this)"};

// 64, or less if blocks were mixed within lines; 0 if no block was mixed.
std::uint64_t piece_bytes(const CheckReport& report) {
  const std::uint64_t granularity = report.granularity();
  return granularity == 0 ? 0 : std::gcd(granularity, std::uint64_t{fabric::kLineBytes});
}

// This bound takes about 60 chances. With fewer, seeing nothing means little.
constexpr double kWeakestBound = 0.05;

std::string too_few(std::uint64_t chances) { return fmt::format("it had {} chances, which is too few", chances); }

GuaranteeReport pieces_are_whole(const CheckReport& report) {
  GuaranteeReport guarantee;
  const std::uint64_t piece = piece_bytes(report);
  guarantee.text = fmt::format("{} aligned bytes are read and written whole", piece == 0 ? fabric::kLineBytes : piece);
  guarantee.probe = "torn-read";
  Observation seams{.name = "torn-read"};
  for (const TornReads& probe : report.torn_reads) {
    seams.chances += probe.later_in_front + probe.later_behind;
  }
  guarantee.chances = seams.chances;
  guarantee.bound95 = bound95(seams);
  if (seams.chances == 0) {
    guarantee.why = "no read was mixed";
  } else if (*guarantee.bound95 > kWeakestBound) {
    guarantee.why = too_few(seams.chances);
  } else {
    guarantee.standing = Standing::kept;
  }
  return guarantee;
}

GuaranteeReport standing_of(const Assumption& assumption, const std::vector<Observation>& observations) {
  GuaranteeReport guarantee;
  guarantee.text = assumption.text;
  guarantee.probe = assumption.probe;
  guarantee.weakest = assumption.weakest;
  const auto probe = std::ranges::find(observations, assumption.probe, &Observation::name);
  if (probe == observations.end()) {
    guarantee.why = "not probed";
    return guarantee;
  }
  guarantee.chances = probe->chances;
  guarantee.bound95 = bound95(*probe);
  if (!probe->skipped.empty()) {
    guarantee.why = "skipped: " + probe->skipped;
  } else if (probe->seen > 0) {
    guarantee.standing = Standing::refuted;
    guarantee.why = fmt::format("broken {} times in {} chances", probe->seen, probe->chances);
  } else if (guarantee.bound95 && *guarantee.bound95 > kWeakestBound) {
    guarantee.why = too_few(probe->chances);
  } else if (guarantee.bound95) {
    guarantee.standing = Standing::kept;
  } else {
    guarantee.why = probe->chances == 0 ? "it had no chance" : "the probe would not have seen it";
  }
  return guarantee;
}

// The weakest preset under which the registry calls the scheme safe.
std::optional<Preset> weakest_preset(const SchemeEntry& entry) {
  for (const Preset preset : {Preset::relaxed, Preset::spec, Preset::observed}) {
    if (entry.safe_under(preset)) {
      return preset;
    }
  }
  return std::nullopt;
}

bool promised_under(Preset weakest, Preset preset) { return preset <= weakest; }

std::string in_words(const GuaranteeReport& guarantee) {
  return fmt::format("{} ({}: 0 of {} chances, at most {})", guarantee.text, guarantee.probe, guarantee.chances,
                     percent_at_most(guarantee.bound95.value_or(1)));
}

}  // namespace

SchemeReport judge(const SchemeEntry& scheme, std::vector<SchemeReads> sizes) {
  SchemeReport report;
  report.scheme = scheme.name;
  report.known_broken = scheme.known_broken();
  const bool is_latch = scheme.kind == Kind::latch || scheme.kind == Kind::queue;
  std::uint64_t reads = 0;
  std::uint64_t torn = 0;
  const SchemeReads* worst = nullptr;
  const SchemeReads* stuck = nullptr;
  for (const SchemeReads& size : sizes) {
    reads += size.reads;
    torn += size.torn;
    worst = size.torn > 0 && worst == nullptr ? &size : worst;
    stuck = size.stuck && stuck == nullptr ? &size : stuck;
  }
  if (worst != nullptr) {
    report.verdict = Verdict::unsafe;
    report.evidence = fmt::format("{}: {} in {} {}; first at {} B, object {}: {}", is_latch ? "mixed or lost" : "torn",
                                  torn, reads, is_latch ? "updates" : "reads", worst->object_bytes,
                                  worst->evidence->slot, describe(*worst->evidence));
  } else if (stuck != nullptr) {
    report.verdict = Verdict::unsafe;
    report.evidence = fmt::format("an unlatch was lost: a latch stayed held, at {} B after {} writes",
                                  stuck->object_bytes, stuck->writes);
  } else if (reads == 0) {
    report.evidence = "not run";
  } else {
    report.evidence =
        is_latch ? fmt::format("nothing lost in {} updates", reads) : fmt::format("no tear in {} chances", reads);
  }
  report.sizes = std::move(sizes);
  return report;
}

SchemeReport judge_bookend(const std::vector<TornReads>& probes) {
  std::vector<SchemeReads> sizes;
  sizes.reserve(probes.size());
  for (const TornReads& probe : probes) {
    sizes.push_back({probe.block_bytes, probe.reads, probe.consistent + probe.undetected, probe.detected,
                     probe.undetected, probe.writes, probe.evidence});
  }
  return judge(*select_scheme(kBookend).entry, std::move(sizes));
}

std::vector<GuaranteeReport> examine_guarantees(const CheckReport& report) {
  std::vector<GuaranteeReport> all = {pieces_are_whole(report)};
  for (const Assumption& assumption : assumptions()) {
    all.push_back(standing_of(assumption, report.observations));
  }
  return all;
}

bool prove(SchemeReport& scheme, const CheckReport& report, const ProofOptions& options) {
  if (scheme.verdict != Verdict::not_exercised || scheme.known_broken) {
    return true;
  }
  const auto add = [&scheme](const std::string& reason) {
    scheme.evidence += "; " + reason;
    return true;
  };
  const auto accepted = [](const SchemeReads& size) { return size.accepted > 0; };
  if (std::ranges::none_of(scheme.sizes, accepted)) {
    return add("it was not seen at work");
  }
  const std::optional<Preset> preset = weakest_preset(*select_scheme(scheme.scheme).entry);
  if (!preset) {
    return add("no model is known under which it is safe");
  }
  if (options.relaxed_ordering && *preset != Preset::relaxed) {
    return add("it needs WRITEs in their order, which relaxed ordering does not promise");
  }
  for (const GuaranteeReport& guarantee : report.guarantees) {
    if (!promised_under(guarantee.weakest, *preset)) {
      continue;
    }
    if (guarantee.standing != Standing::kept) {
      return add(fmt::format("it needs that {}: {}", guarantee.text, guarantee.why));
    }
  }
  explore::CellOptions cell;
  cell.options.rules = fabric::model::rules_of(*preset);
  cell.options.rules.atom = static_cast<std::uint32_t>(piece_bytes(report));
  cell.options.budget = options.budget;
  cell.options.threads = options.threads;
  cell.options.interrupted = options.interrupted;
  const explore::Verdict proof = explore::explore_cell(scheme.scheme, cell).verdict;
  switch (proof.outcome) {
    case explore::Outcome::broken:
      return add(fmt::format("the explorer breaks it with pieces of {} bytes: {}", cell.options.rules.atom,
                             explore::name(proof.violation->kind)));
    case explore::Outcome::bounded:
      if (proof.only_loops_bounded) {
        scheme.assuming.push_back(fmt::format("that no attempt after the first {} of one operation does harm",
                                              cell.options.writing_retries + 1));
        break;
      }
      add(fmt::format("the explorer did not end: {}", proof.bound));
      return false;
    case explore::Outcome::safe:
      break;
  }
  scheme.verdict = Verdict::safe;
  add(fmt::format("right in {} of small programs", explore::proof_in_words(proof)));
  for (const GuaranteeReport& guarantee : report.guarantees) {
    if (promised_under(guarantee.weakest, *preset)) {
      scheme.assuming.push_back(in_words(guarantee));
    }
  }
  scheme.assuming.insert(scheme.assuming.end(), kUnprobed.begin(), kUnprobed.end());
  return true;
}

}  // namespace sidelatch::checker
